"""What goes wrong for a user of the format: each error is one sentence that stands alone."""


class OptionError(ValueError):
    """An option that does not exist, or a value that makes no sense."""


class DataLossError(RuntimeError):
    """Offsets that a job was to read, but are no longer in the log, or not yet in it."""
