"""What lets the process of a broker start sooner, done before the broker is imported."""

import gc
import sys


def quicken() -> None:
    """Collect no garbage until the broker runs (`run_broker` enables it), and leave out rich.

    structlog brings rich in wherever it is installed, for tracebacks that a broker does not draw.
    """
    gc.disable()
    if "structlog" not in sys.modules and "rich" not in sys.modules:
        sys.modules["rich"] = None  # type: ignore[assignment]  # an import of it fails now
        try:
            import structlog  # noqa: F401
        finally:
            del sys.modules["rich"]
