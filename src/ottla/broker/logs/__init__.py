"""Logs and their care: opening, recovery, flushes, checkpoints, retention, compaction, removal."""
