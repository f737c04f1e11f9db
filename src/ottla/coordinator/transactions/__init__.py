"""Transactions: one partition of `__transaction_state`.

| module | what it is |
|---|---|
| `shard` | the coordinator of one partition: one handler for each request |
| `state` | a transactional id, with the table of its moves |
| `init`, `end`, `queries` | who gets an epoch; who may end what; what is listed and described |
| `markers`, `effects` | which partitions wait for a marker; what the runtime is asked for |
| `records`, `timers` | the record of a transactional id; the timers |

Rules kept here:
1. A transaction is a value: a move makes the next one, and only replay puts it in place.
2. A decision is carried out until every partition has its marker.
"""
