"""FedReLa's formulas as functions of arrays, in the order in which the method uses them.

=================  ==================================================================================
file               what it does
=================  ==================================================================================
`_priors`          class counts to prior weights: how much rarer one class is than another
`_normalization`   means, spreads and z-scores of the rows of a class; strengths; equal values
`_threshold`       the (1 - tau) point of every column
`_rho`             the probability with which a row of one class may become another
`_draw`            draws, the class that a row then takes, limits on how many rows change
`_expectation`     the posterior of the new label in closed form, without drawing
`_calibration`     from that posterior back to the original one
`_repetition`      row weights: sums that are refused, and sums that switch relabeling off
=================  ==================================================================================
"""
