"""Actor groups: actors of one class that are made, called and ended together; never a magic, a card or torch.

`shape`, `arguments`, `on_death` and `fitting` decide (pure). `making` starts a group, `members` has its actors by rank,
`actor_group` is the handle, `calls` what `workers.method` is, `ref_group` what a call returns. `inside` is what a
member sees of its group, and `meeting` the actor at which members wait for each other.
"""
