"""The relabeling step: when, from which posteriors, and what became of the labels.

==============  ====================================================================================
file            what it does
==============  ====================================================================================
`_schedule`     the relabel round, who is due in it or later, who records posteriors before
`_settings`     the parameter `relabel_posteriors`
`_one_client`   `RelabelStep`: posteriors of one client's rows, and its new labels
`_all_clients`  the same for all clients of a round, in one pass where the relabeler allows it
`_report`       the report on changed rows, notes on row weights
==============  ====================================================================================
"""
