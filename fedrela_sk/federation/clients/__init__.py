"""The clients of a round: who takes part, on what, and what they send. Nothing here sees the server's state.

==============  ====================================================================================
file            what it does
==============  ====================================================================================
`_sampling`     which clients take part in a round, in which groups, with which weights
`_counts`       rows in training by client and by class; class weights
`_resampling`   rows that a client's `local_data` makes from its own
`_reports`      what a client answers before training, when the server asks
`_training`     a client's task, and local training side by side, in chains or with selection
==============  ====================================================================================
"""
