"""Classic groups: members elect a leader, which divides the partitions.

| module | what it is |
|---|---|
| `group`, `member` | the group's state, with the table of its moves; a member |
| `join`, `requests`, `rebalance` | JoinGroup; the other requests; the way to a generation |
| `kind` | the row of this kind: requests and timers |
| `schemas`, `replay` | its record, and what the record changes |
| `timers`, `describe` | its timers; DescribeGroups |

Rules kept here:
1. What members said lives in memory only; the record of a group is that of its last generation.
2. A request waits (Deferred) only for the other members; each is answered once.
"""
