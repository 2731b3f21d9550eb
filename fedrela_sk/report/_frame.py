"""Data frames on request; the arrays work without pandas."""


def data_frame(columns, **options):
    """``pandas.DataFrame(columns)``, or an error that says how to get pandas."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "A data frame needs pandas, which is not installed. Run: pip install 'fedrela_sk[plots]'. "
            "The same numbers are available as arrays."
        ) from error
    return pd.DataFrame(columns, **options)
