"""A log's segments: the log file, its three indexes, and scans of them."""
