"""A member of a classic group: what it said when it joined, and what its leader gave it."""

from dataclasses import dataclass

Protocols = tuple[tuple[str, bytes], ...]
"""Names and metadata of the protocols that a member knows, the preferred one first."""


@dataclass(slots=True)
class ClassicMember:
    """One member."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """True until its first generation: it does not know its id yet, so it sends no heartbeats."""

    def metadata(self, protocol: str | None) -> bytes:
        """What the member said for a protocol."""
        for name, data in self.protocols:
            if name == protocol:
                return data
        return b""
