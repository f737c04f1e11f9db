"""Replication: which replicas lead and follow here, and what followers copy.

The decisions are pure and in `ottla.replication`; this room gives them logs and connections.

- `replica_manager`: gives every replica the role that the image has for it (ReplicaManager).
- `replica_fetcher_manager`, `replica_fetcher`: one fetcher for each broker that leads something
  followed here.
- `fetched_data`: what a follower does with fetched data: append, truncate, restart, halt.
- `alter_partition`: ISR changes, from the leader's proposal to their outcome
  (AlterPartitionManager).
- `leader_claims`: partitions that no online broker can lead, claimed by a replica that may.
- `older_epochs`, `log_starts`: refuses leader epochs of an older metadata copy; explains log
  starts.
- `peers`, `link`: requests to other brokers, over connections that are kept.

Rules of the room:
1. A replica has the role that the image says, in this broker epoch, and no other.
2. What is committed is never truncated by a member of the ISR.

It depends on `logs`, `replicas`, `context` and `scheduling`. Coordinators learn of leadership by
`LeadershipListener`, which this room declares.
"""
