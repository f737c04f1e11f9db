"""The coordinators' runtime: pure shards joined to their logs, timers and clients.

- `group_coordinator`, `transaction_coordinator`, `share_coordinator`: Kafka's coordinators, for
  `api/`.
- `share_persister`: the state of share partitions, wherever its coordinator is.
- `share_group_offsets`: start offsets of share groups are described, altered and deleted.
- `coordinators`: what they have in common: which partition an id belongs to, the internal topic.
- `shard_runner`: one partition: loads, decides, appends, replays, replies, executes effects.
- `shard_timers`: its timers, in elapsed time, and only while the broker has its lease.
- `lingering`: records that are appended together at the end of the loop's turn.
- `latest_records`: loading replays only the last record of each key.
- `context`: what coordinators use of the other rooms; they take this instead of the broker.
- `by_topic`: which coordinator an internal topic belongs to.
- `txn_markers`, `markers`: the effect of a decided transaction: markers, here or at another
  broker.

Rules kept here:
1. Decisions are made in `coordinator/`. The runtime adds the clock, the log, the loop and the other
   brokers, and decides nothing about groups and transactions.
2. No reply, and no effect, leaves before what it follows from is committed.
3. A new kind of group needs nothing here. A new kind of effect needs one case in `execute`.

The room depends on `replication` (peers), `replicas`, `context` and `scheduling`.
"""
