"""The stacked engine: clients train in chunks, their parameters stacked along a leading axis.

==============  ====================================================================================
file            what it does
==============  ====================================================================================
`_engine`       chunk after chunk
`_chunks`       which clients form a chunk, and the batches of their steps
`_chunk_run`    one chunk in one round: forward, loss, step, update
`_hooks`        a method's hooks, written for one client, for all clients of a chunk
`_stack`        the tensors of a chunk
`_optimizer`    the net's optimizer over stacked parameters
`_stackable`    whether a net has a stacked form, and which
`_graph`        the stacked form from the net's graph, layer by layer
`_proof`        outputs and gradients of the stacked form, compared with the net's own
==============  ====================================================================================
"""
