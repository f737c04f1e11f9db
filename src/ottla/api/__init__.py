"""One short module for each Kafka API: the file list is the list of what is served."""

from importlib import import_module
from pkgutil import iter_modules


def load_all() -> None:
    """Import every module here: importing one registers its API."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
