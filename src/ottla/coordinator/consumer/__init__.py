"""Consumer groups (KIP-848): the coordinator divides the partitions, members follow by heartbeat.

| module | what it is |
|---|---|
| `group`, `member` | the group's state, and a member's, made by their records |
| `heartbeat`, `member_update`, `reconcile`, `leave` | ConsumerGroupHeartbeat, step by step |
| `subscriptions`, `assignment`, `assignors` | topics and patterns; who gets which partition |
| `protocol`, `classic_members` | members of the classic protocol in a consumer group |
| `upgrade`, `downgrade` | from a classic group, and back |
| `kind` | the row of this kind: the classic protocol's requests, and timers |
| `schemas`, `records`, `replay` | its records, how they are made, and what they change |
| `timers`, `describe` | its timers; ConsumerGroupDescribe |

Rules kept here:
1. Only replay changes a group. A handler makes changed copies, and records of them.
2. A request is answered at once.
"""
