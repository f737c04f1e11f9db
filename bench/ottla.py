"""Ottla as a server of the bench: `ottla serve` with its defaults.

It is that of this checkout, or, to see what a change costs, an earlier one in Kafka's place.
"""

import sys
from pathlib import Path

from testkit.server import ProcessServer

EARLIER = "earlier Ottla"


class Ottla(ProcessServer):
    """One Ottla broker in one process.

    `installed` is a folder where `pip install --no-deps --target` has put another version.
    """

    name = "Ottla"

    def __init__(self, folder: Path, ports: int = 1, installed: Path | None = None) -> None:
        super().__init__(folder, ports)
        self._installed = installed
        if installed is not None:
            self.name = EARLIER

    def address(self) -> list[str]:
        """Where it listens."""
        return ["--port", str(self.port)]

    def settings(self) -> dict[str, str]:
        """None: its defaults."""
        return {}

    def prepare(self) -> None:
        """Nothing: Ottla makes its data folder itself."""

    def command(self) -> list[str]:
        """The same command that a person types."""
        arguments = ["serve", *self.address(), "--data", str(self.data)]
        for name, value in self.settings().items():
            arguments += ["--set", f"{name}={value}"]
        command = [sys.executable, "-m", "ottla", *arguments]
        if self._installed is None:
            return command
        return ["env", f"PYTHONPATH={self._installed.resolve()}", *command]
