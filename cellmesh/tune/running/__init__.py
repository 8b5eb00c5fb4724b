"""How an experiment runs: `launching` starts the actor (`host`), `resuming` goes on from a journal; never what decides,
which is `control`.

The host performs what the controller decides: `attempts` are the tasks of trials, `searching` asks the searcher,
`recorder` writes the journal.
"""
