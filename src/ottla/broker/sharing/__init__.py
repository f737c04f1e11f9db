"""Share groups on the brokers that lead partitions: fetches, acknowledgements, locks, stored state.

Modules: `share_partition_manager` (the entry), `live_partition` (a share partition with its timer
and its waiters), `delayed_share_fetch` (a fetch that waits), `share_reader` (batches of the log),
`persister` (reads and writes at the share coordinator), `share_settings` (the group's settings).

Rules:
1. The decisions are in `ottla.share`; here are the log, the clock, the loop and the other brokers.
2. A reply with an acknowledgement leaves when the share coordinator has stored it.
3. A share partition belongs to one term of the leader. It is dropped when the term ends, when its
   topic is deleted, or when the coordinator says that another leader or a reset took its place.
"""
