"""What local training runs on: devices, random states, memory, and what must not leak from client to client.

=============  =====================================================================================
file           what it does
=============  =====================================================================================
`_shared`      the folder through which workers read the data
`_device`      one fit at a time on a GPU
`_generator`   torch's and NumPy's global random states, seeded and put back
`_autocast`    casts of a caller's `torch.autocast` that would be stale
`_interrupts`  Ctrl-C while skorch catches it
`_pristine`    what a net, a criterion or a callback was before a client trained, put back
`_same`        whether two states are equal
`_replica`     copies of a net
=============  =====================================================================================
"""
