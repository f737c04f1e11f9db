"""Where files are: paths in a pipeline file are meant relative to the file itself.

Something with a scheme (`s3a://...`, `hdfs://...`, `file:/...`) is left as it is.
"""

import re
from pathlib import Path

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def is_local(place: str) -> bool:
    """Whether it is a path of this machine, with or without `file:`."""
    return not SCHEME.match(place) or place.startswith("file:/")


def local_path(place: str) -> Path:
    """The path of a local place."""
    return Path(re.sub("^file:/+", "/", place))


def resolve(place: str, pipeline_file: str) -> str:
    """An absolute place."""
    if SCHEME.match(place):
        return str(place)
    return str((Path(pipeline_file).resolve().parent / Path(place).expanduser()).absolute())


def inside(folder: str, name: str) -> str:
    """A place in a folder."""
    return f"{folder.rstrip('/')}/{name}"
