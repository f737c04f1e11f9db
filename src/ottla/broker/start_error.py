"""Why a broker does not start."""


class StartError(Exception):
    """The broker cannot start; the text is one line that says why and what to do."""
