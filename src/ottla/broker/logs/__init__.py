"""The logs of this broker on disk: loading, flushes, checkpoints, retention, compaction, removal.

The log itself is `ottla.log`, which knows no loop. This room decides when its work is done, and
does it without holding the loop.

- `log_manager`: flushes, checkpoints, retention and removal of files, on time (LogManager).
- `log_loader`: opens logs at the start and for new replicas; recovery after a crash (LogLoader).
- `recovery_process`, `memory_recovery`, `child`: recovery in a child process; without one where
  the disk is full.
- `partition_folders`, `strays`: which topic a folder belongs to; folders of no replica.
- `replica_removal`: deleted topics, and replicas that moved to other brokers.
- `lost_logs`: damaged and missing logs of replicas that count as in sync.
- `log_cleaner`: compaction (LogCleaner).
- `checkpoints`: the checkpoint files.
- `full_disk`: a full disk: one line in the log, and a reserve.
- `closing`: flushes and closes every log at a stop.
- `log_dir`, `log_settings`, `storage`: the data directory; a topic's settings; what is registered
  of the disk.

Rules of the room:
1. A failure of one log is not a failure of the others, nor of the broker.
2. The loop waits for no disk. Long work in Python is done by a child process.
3. Nothing is deleted without a record that it may be.

It depends on `replicas` (the partitions whose logs they are), `context`, `scheduling`, `metrics`.
"""
