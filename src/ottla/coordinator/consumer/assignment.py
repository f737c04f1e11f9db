"""The input and the output of an assignor.

Rules every assignor keeps:
1. Each partition of each subscribed topic goes to exactly one member that subscribes to it.
2. Every member of the input is in the output, even with nothing.
3. The same input gives the same output.
"""

from collections.abc import Callable, Mapping, Set
from typing import NamedTuple
from uuid import UUID

Assignment = Mapping[UUID, frozenset[int]]
"""The partitions of each topic that a member shall have."""


class MemberSpec(NamedTuple):
    """A member as an assignor sees it."""

    instance_id: str | None
    topics: Set[UUID]
    """The topics that it subscribes to, all of which exist."""
    target: Assignment
    """What it should have had by the assignment before."""


Assignor = Callable[[Mapping[str, MemberSpec], Mapping[UUID, int]], dict[str, Assignment]]
"""Members by id and partition counts by topic, to the partitions of each member."""
