"""The task graph, made of events. All of it is pure but `recorder` (threads), `machine` (Linux), `pages` (memory);
never how it looks."""
