"""What a program does with tasks beyond submitting one: many together, again and again, once more with their inputs;
never a way to submit of its own."""
