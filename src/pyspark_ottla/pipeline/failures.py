"""One sentence from the long text of a failed query.

Spark wraps what failed in layers of its own, and a Python error comes as a traceback. The
sentence of interest is the last line of the innermost traceback, or else Spark's own first
sentence.
"""

import re

from pyspark_ottla.pipeline.frames import short

PYTHON_ERROR = re.compile(
    r"^(?:[A-Za-z_][\w.]*\.)?([A-Z]\w*(?:Error|Exception|Failed|Lost|\w*)): (.+)$"
)
WRAPPERS = ("PySparkRuntimeError", "StreamingQueryException", "PythonException")


def cause(text: str) -> str:
    """What happened, for people."""
    found = ""
    in_traceback = False
    for line in text.splitlines():
        if "Traceback (most recent call last):" in line:
            in_traceback = True
        elif in_traceback and (match := PYTHON_ERROR.match(line)):
            in_traceback = False
            if match[1] not in WRAPPERS:
                found = match[2]
    return found or short(text)
