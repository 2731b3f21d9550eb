"""The loop engine: clients train one after the other; any module, any callback.

=============  =====================================================================================
file           what it does
=============  =====================================================================================
`_engine`      the readable reference: one client, its epochs, its steps
`_callbacks`   skorch's callbacks around a client's training
=============  =====================================================================================
"""
