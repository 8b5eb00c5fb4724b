"""An engine behind a line that may break: `home` stands for it here, `submitter` has it there, `pieces` go to and fro,
and `fake` has a fake engine so; never what carries them to somebody else's cluster."""
