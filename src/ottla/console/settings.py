"""How a console is run."""

from enum import Enum
from pathlib import Path

from msgspec import Struct

from ottla.client.security import ClientSecurity


class Login(Enum):
    """Who may use it."""

    NONE = "none"
    """Everyone who reaches it: only on loopback."""
    USERS = "users"
    """The users of a file."""
    SASL = "sasl"
    """Who can log in to the brokers; their ACLs decide."""


class ConsoleSettings(Struct, frozen=True, kw_only=True):
    """Times are seconds."""

    bootstrap_servers: str
    security: ClientSecurity | None = None
    host: str = "127.0.0.1"
    port: int = 8080
    allowed_hosts: tuple[str, ...] = ()
    """Names by which browsers reach it, beside addresses, localhost and the machine's name."""
    login: Login = Login.NONE
    users_file: Path | None = None
    read_only: bool = False
    hide_values: bool = False
    registry_url: str | None = None
    data: Path | None = None
    """Where history is kept; None: nowhere, there are no charts."""
    sample_every: float = 15.0
    certificate: Path | None = None
    private_key: Path | None = None
    supervised: bool = False

    @property
    def has_tls(self) -> bool:
        """True where browsers speak HTTPS."""
        return self.certificate is not None
