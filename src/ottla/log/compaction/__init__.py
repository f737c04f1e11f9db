"""Compaction (Kafka's log cleaner): plan, child process, new segments, and their swap."""
