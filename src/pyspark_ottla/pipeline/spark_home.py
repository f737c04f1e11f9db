"""A Spark home in which Python processes start quickly.

Spark puts the zip of PySpark's sources before everything else on the path of its Python processes,
and each of them compiles again what it imports from it: about a second of CPU a process, and a
streaming query has several. Without the zip they take the PySpark that is installed, compiled.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path


def home_without_zip(home: Path) -> Path:
    """Make a folder that is Spark's home but for the zip of PySpark's sources."""
    import pyspark

    home.mkdir(exist_ok=True)
    for item in Path(pyspark.__file__).parent.iterdir():
        if item.name != "python":
            (home / item.name).symlink_to(item)
    return home


def use_home_without_zip() -> None:
    """Let a Spark that is started by this process find such a home, unless another is set."""
    if "SPARK_HOME" in os.environ:
        return
    home = tempfile.mkdtemp(prefix="ottla-spark-home-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ["SPARK_HOME"] = str(home_without_zip(Path(home)))
