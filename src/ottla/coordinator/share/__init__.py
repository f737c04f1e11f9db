"""Share groups (KIP-932): groups whose members read the same partitions together, as from a queue.

| module | what it is |
|---|---|
| `group`, `member` | the replayed state |
| `heartbeat`, `leave` | how members join, stay and go |
| `targets`, `assignor` | group epochs, target assignments, the assignor "simple" |
| `initialization` | which share partitions have state: initializing, initialized, deleting |
| `offsets` | start offsets are described, altered and deleted |
| `describe` | ShareGroupDescribe |
| `schemas`, `records`, `replay` | records 10 to 15 of `__consumer_offsets` |
| `effects`, `timers`, `kind` | what it asks of the runtime, and its row in the table of kinds |

The state of share partitions themselves (start offset, deliveries) is the share coordinator's
(`share_state/`); here is only noted which of them have state there.
"""
