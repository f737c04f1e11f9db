"""The broker's tier of the audit: counts what is stored, and reports it to the audit topic.

- `log_counts`: counts records of the partitions led here, in a child process.
- `audit_topic`: writes the counts to the audit topic, and reads what other brokers reported.

Rule of the room: it only reads logs, and nothing depends on it. It uses `metadata` to create its
topic, `replication.peers` to reach the topic's leader, and `logs.child` for its child process.
"""
