"""Which native modules this installation lacks: without them the broker works, and is slower."""

from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

MODULES: Final = (
    "ottla.log.native.syncing",
    "ottla.records.native.decoding",
    "ottla.records.native.encoding",
    "ottla.records.native.examining",
    "ottla.records.native.gathering",
    "ottla.wire.native.reading",
)
"""What setup.py builds."""


def missing_modules(package: Path) -> list[str]:
    """The modules that are not in the folder of the package `ottla`; nothing is imported."""
    missing = []
    for module in MODULES:
        *parents, name = module.split(".")[1:]
        if PathFinder.find_spec(name, [str(package.joinpath(*parents))]) is None:
            missing.append(module)
    return missing


def native_warning(package: Path) -> str | None:
    """One line for the operator where modules are missing."""
    missing = missing_modules(package)
    if not missing:
        return None
    return (
        f"native: no ({', '.join(missing)}); the broker uses Python instead, which is slower. "
        "Install a wheel, or install again where there is a C compiler"
    )
