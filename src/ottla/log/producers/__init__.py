"""A log's producers: their states in memory, and their snapshots on disk."""
