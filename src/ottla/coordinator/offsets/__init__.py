"""Committed offsets: OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete, and their expiry.

| module | what it is |
|---|---|
| `commit`, `fetch`, `removal` | the requests, and the end of offsets and groups |
| `store` | the offsets of all groups, with those of open transactions |
| `records`, `replay` | their record, and what it changes |

Rules kept here:
1. Who may commit, fetch or delete is for the group to say (`Group.check_...`), whatever its kind.
"""
