"""What `memory=` does: rounds before the relabel round are kept on disk and shared by a search.

===============  ===================================================================================
file             what it does
===============  ===================================================================================
`_rounds`        the folder: locks, reading, writing, warnings
`_state_file`    one stored state: tensors in safetensors, the rest in JSON, no pickle
`_key`           everything that a stored state depends on
`_fingerprint`   a digest of any object that has a stable description
`_source`        the code of functions and classes of the user's own
`_names`         what code refers to by name
`_modules`       torch modules: kinds, hooks, tensors
`_numerics`      torch's, NumPy's and scikit-learn's global settings, and the machine
`_package`       the edition of this package
`_not_keyable`   the error of what has no stable description
===============  ===================================================================================
"""
