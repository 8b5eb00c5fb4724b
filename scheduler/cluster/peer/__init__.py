"""What goes on between two nodes: tasks out and in, objects, actors, generators; never by way of the head."""
