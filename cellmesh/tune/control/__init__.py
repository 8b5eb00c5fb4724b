"""What decides in an experiment; never a clock, a process or a file.

`controller` takes events and says what is to be done (`actions`); `trial` has a trial's states, `processes` keeps
account of who works, `keeping` of checkpoints.
"""
