"""What goes wrong in the sink: each error is a text that stands alone."""


class SinkError(RuntimeError):
    """A batch could not be written, or not be committed."""


class RowError(SinkError):
    """A row that cannot be written by any attempt."""


class FencedError(SinkError):
    """Another run of the same sink has taken over: this one may not continue."""

    def __init__(self, sink: str) -> None:
        super().__init__(
            f"another run of the sink {sink} has taken over, so this one ends. If two queries "
            "are meant to run, give each a checkpoint and a sinkId of its own"
        )


class UnknownOutcomeError(SinkError):
    """The log no longer says whether a transaction was committed: a person must decide."""


class RolledBackError(SinkError):
    """The sink has written later batches than the one that is to be written now, or the same one
    with other rows.
    """


class SharedSinkError(SinkError):
    """The sink belongs to another query."""
