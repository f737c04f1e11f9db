"""For all tests: what must not depend on how, and on how busy a machine, they are run.

Property tests are judged by what they find, not by how long it takes. A run in the background of a
shell has SIGINT ignored, and so would have every process that a test starts and interrupts.
"""

import signal

from hypothesis import settings

settings.register_profile("ottla", deadline=None)
settings.load_profile("ottla")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
