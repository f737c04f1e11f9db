"""Classic groups: members elect a leader, which divides the partitions."""
