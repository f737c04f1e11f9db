"""A deterministic simulation: whole brokers, clients and faults in one process, from one seed.

The brokers are the real code, from the connection's protocol down to the log's file calls. What
lies under them is simulated: time and the event loop (`loop`), processes (`process`), the network
(`network`, `transport`), the disk's durability (`disk`), ZooKeeper (`zookeeper_server`,
`zookeeper_client`) and child processes (`children`). `patches` puts these in the place of the
operating system's. `cluster` starts and kills brokers, `nemesis` chooses faults, `producers`,
`consumers` and `admin` are clients, `checker` says what must never happen, and `run` is one seed
from its start to its end.

Rules kept here:
1. Every choice comes from the seed. The same seed gives the same trace, byte for byte.
2. Nothing of the brokers is written again here: a rule that they break is found, not modelled.
3. A simulated process runs only what was started in its context. A killed one never runs again.
"""
