"""Libraries of the "plots" extra: imported when they are needed, with an error that says how to get them."""

from importlib import import_module


def import_extra(module, caller, library=None, instead=""):
    """A module that need not be installed.

    Parameters
    ----------
    module : str
    caller : str
        What needs it; begins the error.
    library : str or None
        The name to install it by, where it is not that of the module's package.
    instead : str
        What a user can do without it; ends the error.

    Raises
    ------
    ImportError
        If it cannot be imported.
    """
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0] if library is None else library
        raise ImportError(
            f"{caller} needs {library}, which could not be imported ({error}). "
            f"Install it with: pip install 'fedrela_sk[plots]'{instead}"
        ) from error


def data_frame(columns, **options):
    """``pandas.DataFrame(columns, **options)``, or an error that says how to get pandas."""
    pandas = import_extra("pandas", "A data frame", instead=". The same numbers are available as arrays.")
    return pandas.DataFrame(columns, **options)
