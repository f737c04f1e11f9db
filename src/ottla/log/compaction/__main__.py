"""`python -m ottla.log.compaction`."""

from ottla.log.compaction.child import run

run()
