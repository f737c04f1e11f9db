"""The coordinators as pure state machines: groups, committed offsets, transactions, share state.

| module | what it is |
|---|---|
| `shard`, `result_draft`, `batch_sizes` | what every shard and its runtime say to each other |
| `group_shard` | the group coordinator of one partition: one handler for each request |
| `group`, `group_kind` | the interface of a group, and of what is done with groups of one kind |
| `group_kinds`, `record_kinds` | the tables: kinds of groups, types of records |
| `group_state`, `group_timers`, `group_config`, `group_listing`, `topics` | what all kinds share |
| `record_keys`, `record_codec` | how records of `__consumer_offsets` are written |
| `classic/`, `consumer/`, `share/`, `streams/` | the kinds of groups |
| `offsets/` | committed offsets, whatever the kind of their group |
| `transactions/` | the transaction coordinator of one partition |
| `share_state/` | the share coordinator of one partition: the state of share partitions |

Rules kept here:
1. No clock, socket, file, loop or thread: what a shard needs is passed in, what it wants is in its
   Result.
2. A kind of group is a folder, a row in `group_kinds` and rows in `record_kinds`. Nothing outside
   its folder asks for its class.
"""
