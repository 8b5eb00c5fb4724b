"""An engine behind a line that may break: `home` stands for it here, `submitter` has it there, `pieces` go to and fro. Pure,
but for the lock of `home`; what carries the pieces is not of this folder, but for `fake`, by which a fake engine does."""
