"""The result of an append: the batch's offsets, and what the reply has to wait for."""

from msgspec import Struct


class Appended(Struct, frozen=True, gc=False):
    """Kafka's LogAppendInfo."""

    base_offset: int
    last_offset: int
    append_time: int
    """The broker's clock where the topic uses LogAppendTime, else -1; a duplicate's timestamp."""
    log_start_offset: int
    duplicate: bool
    """True if the batch was in the log already: the offsets are those it got then."""
    must_flush: bool
    """True if `flush.messages` is reached: the reply has to wait for a flush."""
