"""Many machines as one: nodes that join a head, tasks that go where there is room, objects that follow them; never an
unpickler."""
