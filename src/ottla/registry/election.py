"""Which registry writes: the group `schema-registry` elects one, in Confluent's protocol "sr".

Rules kept here:
1. The members of a group are registries; the group's leader chooses the writer: the one that writes
   already, else the first by address. Members and choices are JSON, as Confluent's registries write
   them, so that both kinds can be members of one group.
2. A registry writes only while it holds its lease: it sent a heartbeat within the session timeout
   that was answered. Each write is checked, so it steps down before the others elect another.
3. One thread joins, synchronizes and beats; the loop is notified of every change.
"""

import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

import msgspec
import structlog
from msgspec import Struct

from ottla.client import Client, ClientSettings, KafkaError
from ottla.client.coordinators import CoordinatorType, find_coordinator
from ottla.client.errors import check
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

log = structlog.get_logger()

PROTOCOL_TYPE: Final = "sr"
PROTOCOL: Final = "v0"
SESSION_SECONDS: Final = 10.0
HEARTBEAT_SECONDS: Final = 1.0
REBALANCE_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 0.3
STOP_SECONDS: Final = 3.0
NO_ERROR: Final = 0
DUPLICATE_URLS: Final = 1


class Identity(Struct, frozen=True):
    """A registry: where it listens, and whether it may write."""

    host: str
    port: int
    scheme: str = "http"
    master_eligibility: bool = True
    version: int = 1
    leader: bool = False

    @property
    def url(self) -> str:
        """Where it listens."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


class Assignment(Struct, frozen=True):
    """The choice of the group's leader."""

    version: int = 1
    error: int = NO_ERROR
    master: str | None = None
    master_identity: Identity | None = None


def choose(members: Sequence[tuple[str, Identity]]) -> Assignment:
    """The writer among members with their ids."""
    urls = [identity.url for _, identity in members]
    if len(set(urls)) < len(urls):
        return Assignment(error=DUPLICATE_URLS)
    eligible = [item for item in members if item[1].master_eligibility]
    if not eligible:
        return Assignment()
    member, identity = min(eligible, key=lambda item: (not item[1].leader, item[1].url))
    return Assignment(master=member, master_identity=identity)


class _Rejoin(Exception):  # noqa: N818 (it is no error)
    """The group changes: join it again."""


class Election:
    """A member of the group, in a thread of its own."""

    def __init__(
        self,
        settings: ClientSettings,
        group: str,
        identity: Identity,
        on_change: Callable[[Identity | None, bool], None],
    ) -> None:
        """`on_change` is called from the thread: the writer, and whether that is this registry."""
        self._settings = msgspec.structs.replace(
            settings, deadline=SESSION_SECONDS, request_timeout=SESSION_SECONDS / 2
        )
        self._group = group
        self._identity = identity
        self._on_change = on_change
        self._member_id = ""
        self._generation = -1
        self._chosen: tuple[Identity | None, bool] = (None, False)
        self._beaten = monotonic()
        self._told = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="registry-election", daemon=True)

    def start(self) -> None:
        """Join the group."""
        self._thread.start()

    def stop(self) -> None:
        """Leave the group, so that the others elect at once."""
        self._stopping.set()
        self._thread.join(STOP_SECONDS)

    @property
    def holds_lease(self) -> bool:
        """True while the group cannot have elected another: a heartbeat sent within the session
        timeout was answered. Safe to ask from any thread.
        """
        return monotonic() - self._beaten < SESSION_SECONDS

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with Client(self._settings) as client:
                    self._take_part(client)
            except KafkaError as problem:
                if str(problem) != self._told:
                    self._told = str(problem)
                    log.warning(
                        "cannot join the election of the writer; retrying", reason=self._told
                    )
                self._stopping.wait(PAUSE_SECONDS)
            if not self.holds_lease:
                self._tell(None, is_me=False)

    def _take_part(self, client: Client) -> None:
        while not self._stopping.is_set():
            coordinator = self._find(client)
            try:
                self._join(client, coordinator)
                self._beat(client, coordinator)
            except _Rejoin:
                continue
        self._leave(client, coordinator)

    def _find(self, client: Client) -> int:
        return client.retry(lambda: find_coordinator(client, CoordinatorType.GROUP, self._group))

    def _join(self, client: Client, coordinator: int) -> None:
        is_writer = self._chosen[1]
        mine = msgspec.structs.replace(self._identity, leader=is_writer)
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=int(SESSION_SECONDS * 1000),
            rebalance_timeout_ms=int(REBALANCE_SECONDS * 1000),
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=msgspec.json.encode(mine))],
        )
        # A connection of its own: a join waits for the other members.
        connection = client.connect(coordinator)
        try:
            wait = REBALANCE_SECONDS + SESSION_SECONDS
            joined = connection.call(request, JoinGroupResponse, wait)
        finally:
            connection.close()
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            raise _Rejoin
        self._check(joined.error_code)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        self._sync(client, coordinator, joined)

    def _sync(self, client: Client, coordinator: int, joined: JoinGroupResponse) -> None:
        assignments = []
        if joined.leader == joined.member_id:
            members = []
            for item in joined.members:
                try:
                    identity = msgspec.json.decode(item.metadata, type=Identity)
                except msgspec.MsgspecError:
                    continue  # not a registry
                members.append((item.member_id, identity))
            choice = msgspec.json.encode(choose(members))
            assignments = [
                SyncGroupRequestAssignment(member_id=item.member_id, assignment=choice)
                for item in joined.members
            ]
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=assignments,
        )
        sent = monotonic()
        synced = client.call(request, SyncGroupResponse, coordinator)
        self._check(synced.error_code)
        self._beaten = sent
        self._told = ""
        chosen = msgspec.json.decode(synced.assignment or b"{}", type=Assignment)
        if chosen.error == DUPLICATE_URLS:
            log.error("two registries have the same address; no writer", url=self._identity.url)
        writer = chosen.master_identity if chosen.error == NO_ERROR else None
        if writer is not None:
            # Whether it wrote before is for the choice alone, and no change to tell of.
            writer = msgspec.structs.replace(writer, leader=False)
        self._tell(writer, is_me=writer is not None and chosen.master == self._member_id)

    def _beat(self, client: Client, coordinator: int) -> None:
        request = HeartbeatRequest(
            group_id=self._group, generation_id=self._generation, member_id=self._member_id
        )
        while not self._stopping.wait(HEARTBEAT_SECONDS):
            try:
                sent = monotonic()
                beat = client.call(request, HeartbeatResponse, coordinator)
                self._check(beat.error_code)
                self._beaten = sent
            except KafkaError:
                if not self.holds_lease:
                    self._tell(None, is_me=False)
                    raise
                coordinator = self._find(client)

    def _leave(self, client: Client, coordinator: int) -> None:
        request = LeaveGroupRequest(
            group_id=self._group,
            member_id=self._member_id,
            members=[MemberIdentity(member_id=self._member_id)],
        )
        try:
            client.call(request, LeaveGroupResponse, coordinator)
        except KafkaError:
            pass  # the session timeout ends the membership

    def _check(self, error_code: int) -> None:
        if error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._member_id = ""
            self._tell(None, is_me=False)
            raise _Rejoin
        if error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            raise _Rejoin
        check(error_code, None, f"group {self._group}")

    def _tell(self, writer: Identity | None, *, is_me: bool) -> None:
        if (writer, is_me) != self._chosen:
            self._chosen = writer, is_me
            self._on_change(writer, is_me)
