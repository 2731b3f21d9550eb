"""The relabeling step: when, from which posteriors, and what became of the labels.

==============  ====================================================================================
file            what it does
==============  ====================================================================================
`_schedule`     the relabel round, who is due in it, the learning rate after it
`_recorded`     posteriors that clients recorded while they trained
`_one_client`   posteriors of one client's rows, and its new labels
`_all_clients`  the same for all clients of a round, in one pass where the relabeler allows
==============  ====================================================================================
"""
