"""The clients of a round: who takes part, on what, and what they send.

==============  ====================================================================================
file            what it does
==============  ====================================================================================
`_sampling`     which clients take part in a round, in which groups, with which weights
`_tasks`        what a client trains on: rows, current labels, the model that it received
`_counts`       rows in training, counted by client and by class
`_weights`      weights of clients and of classes
`_resampling`   rows that a client's `local_data` makes from its own
`_reports`      small tensors that the server asks for before training
`_updates`      from trained clients to what the server aggregates, side by side or in chains
==============  ====================================================================================
"""
