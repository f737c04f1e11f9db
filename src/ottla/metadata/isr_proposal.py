"""A change of the ISR that a leader asks for: AlterPartition, as one compare-and-set. Pure."""

from ottla.metadata.documents import PartitionState


class Proposal:
    """A change of the ISR, expecting the version that it was decided on."""

    __slots__ = ("isr", "state", "version")

    def __init__(self, isr: dict[int, int], state: PartitionState, version: int) -> None:
        self.isr = isr
        self.state = state
        self.version = version
