"""Share groups (KIP-932) on the leader of a partition: pure decisions.

`states` has the values, `runs` the records in flight, `partition` the share partition that joins
`acquiring`, `acknowledging` and `aborted`; `sessions` are the share sessions of the members.
"""
