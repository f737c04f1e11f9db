"""Opening a log: what a clean stop left, and what a crash left."""
