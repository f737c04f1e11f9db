"""One sentence from the long text of a failed query.

Spark wraps what failed in layers of its own, and a Python error comes as a traceback. The
sentence of interest is the last line of the innermost traceback, or else Spark's own first
sentence. In `foreachBatch` Spark's error comes in a traceback of the driver.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

PYTHON_ERROR = re.compile(
    r"^(?:[A-Za-z_][\w.]*\.)?([A-Z]\w*(?:Error|Exception|Failed|Lost|\w*)): (.+)$"
)
POSITION = re.compile(r"[;(]? ?line (\d+),? pos (\d+)\)?")
"""Where in its SQL Spark found something wrong."""
STREAM_FAILED = re.compile(r"^\[STREAM_FAILED\] Query \[id = [^]]*\] terminated with exception:\s*")
WRAPPERS = ("PySparkRuntimeError", "StreamingQueryException", "PythonException", "Py4JJavaError")
CALL_FAILED = re.compile(
    r"^py4j\.protocol\.Py4JJavaError: An error occurred while calling .*\n: ", re.MULTILINE
)
"""What a call to Spark failed of follows."""


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
    return found or short(of_spark(text))


def of_spark(text: str) -> str:
    """The error of Spark itself, where a failed call of the driver is around it."""
    return CALL_FAILED.split(text)[-1]


def failure_of(query: "StreamingQuery") -> str | None:
    """What a query has failed of: Spark's text, and behind it the Java error that it wraps, which
    has no message where a Python process was gone.
    """
    failed = query._jsq.exception()
    if not failed.isDefined():
        return None
    wrapped = failed.get().getCause()
    return f"{failed.get().getMessage()}\n\n{'' if wrapped is None else wrapped.toString()}"


def short(text: str) -> str:
    """The sentence of one of Spark's errors, without its plan, its SQL and its stack."""
    first = re.split(r"\n\s*\n|;\n|\n==|\n\s+at |\nJVM stacktrace", text.strip())[0]
    first = re.sub(r"SQLSTATE: \w+|\[USER_RAISED_EXCEPTION\]", "", POSITION.sub("", first))
    sentence = STREAM_FAILED.sub("", " ".join(first.split()).rstrip(" ;"))
    return sentence or f"Spark says only {text.strip().splitlines()[-1]}"
