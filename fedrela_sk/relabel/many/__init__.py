"""The pass over many clients at once; `FedReLaRelabeler.fit` is a pass over one.

==========  =========================================================================================
file        what it does
==========  =========================================================================================
`_pass`     statistics and new labels of many clients
`_numpy`    its steps over every row and class in NumPy: sums, ranges and order statistics
`_torch`    the same in torch, where posteriors lie on an accelerator
==========  =========================================================================================
"""
