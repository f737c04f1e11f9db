"""The optional dependencies: how to install those of one extra where Ottla is installed already.

The packages are named themselves, and the Python too: it works from any folder, in a virtual
environment that is not activated, and whether Ottla came from a checkout or an index.
"""

import re
import shlex
import sys
from importlib.metadata import requires

_EXTRA = re.compile(r"""(.+?)\s*;\s*extra\s*==\s*["'](\w+)["']""")


def install_command(extra: str) -> str:
    """The command that installs what an extra needs."""
    found = map(_EXTRA.fullmatch, requires("ottla") or ())
    packages = [match[1] for match in found if match and match[2] == extra]
    return shlex.join([sys.executable, "-m", "pip", "install", *packages])
