"""`python -m ottla.log.recovery`."""

from ottla.log.recovery.child import run

run()
