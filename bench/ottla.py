"""Ottla as a server of the bench: `ottla serve` of this checkout, with its defaults."""

import sys

from testkit.server import ProcessServer


class Ottla(ProcessServer):
    """One Ottla broker in one process."""

    name = "Ottla"

    def prepare(self) -> None:
        """Nothing: Ottla makes its data folder itself."""

    def command(self) -> list[str]:
        """The same command that a person types."""
        arguments = ["serve", "--port", str(self.port), "--data", str(self.data)]
        return [sys.executable, "-m", "ottla", *arguments]
