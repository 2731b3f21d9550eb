"""The loop engine: clients train one after the other; any module, any callback.

=============  =====================================================================================
file           what it does
=============  =====================================================================================
`_engine`      the readable reference: one client and its epochs
`_step`        one optimizer step: the loss, the method's hooks around it
`_callbacks`   skorch's callbacks around a client's training
=============  =====================================================================================
"""
