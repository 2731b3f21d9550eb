"""Before round 0: parameters and data are checked, rows are cut into clients, the net is built.

================  ==================================================================================
file              what it does
================  ==================================================================================
`_plan`           calls all the others and returns the `Plan` of a fit
`_parameters`     refuses parameters that do not go together
`_inputs`         X, y, weights: from what users have to arrays and tensors, with errors that help
`_casting`        refuses numbers that the net's dtype would round
`_partition`      from `clients=` and `groups` to one `ClientSpec` per client
`_validation`     the rows that watch the global model
`_first_state`    the state before round 0
`_server_rows`    labeled rows that the server holds, for methods that ask for them
================  ==================================================================================
"""
