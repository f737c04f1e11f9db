"""Which topics the members of a consumer group use: by name, and by pattern.

Rules kept here:
1. A pattern is looked up when a member brings it, when topics have changed (not more often than
   every ten seconds), and otherwise every `group.consumer.regex.refresh.interval.ms`.
2. What a pattern matched is written only where it changed; a pattern that no member uses
   is deleted.
3. The metadata hash changes with every topic that appears, disappears, is recreated or gets
   partitions among those that the group uses. It is compared only with hashes made here.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from uuid import UUID

from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import ConsumerMember
from ottla.coordinator.consumer.records import ResolvedRegex, regex_record, regex_tombstone
from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.group_timers import has_passed
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.topics import TopicMatcher, TopicView
from ottla.wire.errors import ErrorCode, KafkaError

REGEX_MIN_INTERVAL_MS = 10_000

_NO_MATCH = ResolvedRegex(frozenset(), -1, 0)


def regexes_are_due(config: GroupConfig, group: ConsumerGroup, topics: TopicView, now: int) -> bool:
    """True if all patterns of the group should be looked up again."""
    if group.seen_regexes is None:
        return True
    if not group.regexes:
        return False
    version, seen_at = group.seen_regexes
    wait = (
        config.group_consumer_regex_refresh_interval_ms
        if version == topics.version
        else REGEX_MIN_INTERVAL_MS
    )
    return has_passed(wait, seen_at, now)


def check_regex(matching_topics: TopicMatcher, regex: str) -> None:
    """Refuse what is not a pattern."""
    try:
        matching_topics(regex)
    except ValueError as problem:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {problem}.",
        ) from None


def look_up_regexes(
    group: ConsumerGroup,
    members: Iterable[ConsumerMember],
    matching_topics: TopicMatcher,
    version: int,
    draft: ResultDraft,
    *,
    all_of_them: bool,
) -> dict[str, ResolvedRegex]:
    """The patterns that the members use; what changed is written."""
    resolved: dict[str, ResolvedRegex] = {}
    for regex in dict.fromkeys(member.subscribed_regex for member in members):
        if not regex:
            continue
        known = group.regexes.get(regex, _NO_MATCH)
        if known is _NO_MATCH or all_of_them:
            try:
                found = frozenset(matching_topics(regex))
            except ValueError:
                # Checked when it came: another broker took it for a pattern.
                found = frozenset()
            if known is _NO_MATCH or found != known.topics:
                known = ResolvedRegex(found, version, draft.now)
                draft.records.append(regex_record(group.group_id, regex, known))
        resolved[regex] = known
    draft.records.extend(
        regex_tombstone(group.group_id, regex) for regex in group.regexes if regex not in resolved
    )
    return resolved


def topic_names(
    members: Iterable[ConsumerMember], regexes: Mapping[str, ResolvedRegex]
) -> set[str]:
    """All topics that members use, whether they exist or not."""
    names: set[str] = set()
    for subscribed in {member.subscribed_topics for member in members}:
        names |= subscribed
    for regex in regexes.values():
        names |= regex.topics
    return names


def topic_ids(
    member: ConsumerMember, regexes: Mapping[str, ResolvedRegex], topics: TopicView
) -> frozenset[UUID]:
    """The topics of one member that exist."""
    names = member.subscribed_topics
    if member.subscribed_regex in regexes:
        names |= regexes[member.subscribed_regex].topics
    found = (topics.by_name(name) for name in names)
    return frozenset(topic.topic_id for topic in found if topic is not None)


def metadata_hash(names: Iterable[str], topics: TopicView) -> int:
    """A number that stands for these topics as they are; 0 where none of them exists."""
    found = [topic for name in sorted(names) if (topic := topics.by_name(name)) is not None]
    if not found:
        return 0
    digest = blake2b(digest_size=8)
    for topic in found:
        digest.update(topic.topic_id.bytes + topic.partitions.to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)
