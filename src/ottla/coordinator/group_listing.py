"""ListGroups: the groups of a shard as administrators see them."""

from collections.abc import Iterable

from ottla.coordinator.group import Group
from ottla.wire.messages.list_groups import ListedGroup


def listed(
    groups: Iterable[Group], states: Iterable[str], types: Iterable[str]
) -> list[ListedGroup]:
    """The groups in these states and of these types; all, where none are given."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {kind.strip().lower() for kind in types}
    found = []
    for group in groups:
        kind = group.TYPE.value
        if wanted_types and kind not in wanted_types:
            continue
        state = group.state_name
        if wanted_states and state.lower() not in wanted_states:
            continue
        found.append(
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.listed_protocol_type,
                group_state=state,
                group_type=kind,
            )
        )
    return found
