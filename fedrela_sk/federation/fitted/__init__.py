"""What a fit leaves behind: attributes, answers, models to store and to serve.

===============  ===================================================================================
file             what it does
===============  ===================================================================================
`_attributes`    the fitted attributes of `FederatedClassifier`
`_own_models`    posteriors where clients have models or heads of their own
`_answers`       `predict`, `predict_proba` and what callers may ask besides
`_serving`       `ServedClassifier`: a fitted model without labels
`_model_files`   `save_model` and `load_model`
===============  ===================================================================================
"""
