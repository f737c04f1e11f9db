"""The replicas of this broker, and the requests that read them and wait on them.

- `partition`: one replica: its log, its role, its high watermark, and the requests that wait on
  it.
- `partitions`: all of them, found by topic name or id.
- `leaders`: who leads a partition, also where that is another broker.
- `delayed_produce`: a produce with acks=all until its records are committed (DelayedProduce).
- `commit_waiters`: what waits for a high watermark.
- `delayed_fetch`: a fetch, parked until there is enough to answer it (DelayedFetch).
- `fetch_context`: what all fetches share; a fetch takes this instead of the broker.
- `fetch_sessions`, `fetch_arrival`: incremental fetch sessions (KIP-227); fetches of many
  partitions.
- `fetch_reader`: what one partition has for a fetch.
- `follower_fetches`: what a leader notes of a follower's fetch.
- `rack_aware_reads`: consumers that read from a follower (KIP-392).
- `isr_leaving`: replicas that leave the ISR because they cannot be served here.
- `rejected_batches`: producers whose batch was rejected: what follows it is rejected, too.
- `verification`: whether a batch belongs to an open transaction (KIP-890).
- `cold_reads`, `decoding`, `log_reading`: threads for what is not in memory or long; reading an
  own log.

Rules of the room:
1. Readers see nothing above the high watermark, nor with read_committed above the last stable
   offset.
2. Nothing is acknowledged before it is as safe as the request asked for.
3. Nothing here gives a partition its role or opens its log: that is done by the rooms above.

It depends on `context`, `scheduling` and the counters of `metrics`.
"""
