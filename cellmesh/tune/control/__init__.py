"""What decides in an experiment, without clock, process or file: `controller` takes events and says what is to be done
(`actions`); `trial` has a trial's states, `processes` keeps account of who works, `keeping` of checkpoints.
"""
