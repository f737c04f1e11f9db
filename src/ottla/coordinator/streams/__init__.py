"""Streams groups (KIP-1071): the coordinator divides the tasks of a Kafka Streams application.

| module | what it is |
|---|---|
| `group`, `member`, `owners` | the replayed state |
| `tasks` | tasks by subtopology: what members have, and what they shall have |
| `topology`, `configured` | what the application is made of; its topics and their partitions |
| `copartition` | how many partitions internal topics get |
| `heartbeat`, `checks`, `leave` | how members join, stay and go |
| `targets`, `assignor` | group epochs, target assignments, the assignor "sticky" |
| `reconcile` | how a member comes to its target |
| `endpoints` | where members are asked about their state (interactive queries) |
| `describe` | StreamsGroupDescribe |
| `schemas`, `records`, `replay` | records 17 and 19 to 23 of `__consumer_offsets` |
| `timers`, `kind` | its timers, and its row in the table of kinds |
"""
