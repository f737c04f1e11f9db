"""The pages, against a real broker."""

import html
import json
import re
import time
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from ottla.client import Admin, Client, Producer, TopicPartition
from ottla.client.group_admin import GroupAdmin
from ottla.client.pipeline_reports import (
    PIPELINES_TOPIC,
    PipelineReport,
    QueryReport,
    State,
    make_topic,
    send_report,
)
from ottla.console.cluster import TOPICS_KEPT_SECONDS, Cluster
from ottla.console.sampler import Sampler
from ottla.console.search import RecordFilter, SearchStart, read_positions, search
from ottla.embedded import Broker
from testkit.waiting import until
from tests.console.consoles import ORIGIN, console, parts_of

HOSTILE = "<script>alert(1)</script>\"'\x1b[2J\u202e"


def text_of(pages: TestClient, path: str, status: int = 200) -> str:
    """A page's text, without its markup."""
    answer = pages.get(path)
    assert answer.status_code == status, answer.text
    body = re.sub(r"<[^>]*>", " ", answer.text.split("<main", 1)[1])
    return " ".join(html.unescape(body).split())


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/", ["healthy", "Offline 0", "Under-replicated 0"]),
        ("/brokers", ["controller", "No replicas are moving"]),
        ("/brokers/1", ["Log directories", "settings"]),
        ("/brokers/1?q=log.dirs&changed=1", ["log.dirs", "STATIC_BROKER_CONFIG"]),
        ("/topics", ["orders", "in sync"]),
        ("/topics/orders", ["0 in sync 1 1 1 0 34 34", "1–3 of 3 partitions"]),
        ("/topics/orders/settings", ["retention.ms 86400000 DYNAMIC_TOPIC_CONFIG"]),
        ("/topics/orders/messages", ["customer-1", '"city": "Brno"']),
        ("/topics/orders/message?partition=0&offset=0", ['"order": 0', "source test"]),
        ("/groups", ["billing", "Empty"]),
        ("/group?id=billing", ["orders 0 10 34 24", "orders 1 33 33 0", "Lag 24"]),
        ("/transactions?hanging=1", ["None.", "No transactional ids"]),
        ("/access", ["SCRAM users", "SECURITY_DISABLED"]),
        ("/audit", ["Nothing was counted yet"]),
        ("/pipelines", ["No pipeline has reported yet"]),
    ],
)
def test_each_page_says_what_is_there(pages: TestClient, path: str, words: list[str]) -> None:
    found = text_of(pages, path)
    for each in words:
        assert each in found


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/topics/none", 404),
        ("/topics/..%2f..%2fetc", 404),
        ("/group?id=none", 404),
        ("/group", 400),
        ("/nowhere", 404),
        ("/brokers/99", 502),
        ("/topics/orders/messages?partition=7", 400),
        ("/topics/orders/messages?partition=x", 400),
        ("/topics/orders/messages?from=elsewhere", 400),
        ("/topics/orders/messages?from=time&at=yesterday", 400),
        ("/topics/orders/messages?from=at&at=1:x", 400),
        ("/topics/orders/messages?format=exe", 400),
        ("/topics/orders/message?partition=9&offset=0", 404),
        ("/audit?since=always", 400),
        ("/history", 400),
        ("/static/../app.py", 404),
        ("/static/%2e%2e/app.py", 404),
    ],
)
def test_bad_input_is_a_page_that_says_so(pages: TestClient, path: str, status: int) -> None:
    answer = pages.get(path)
    assert answer.status_code == status
    assert "Traceback" not in answer.text


def test_search_finds_topics_on_the_server(pages: TestClient) -> None:
    assert "orders" in text_of(pages, "/topics?q=ORD")
    assert "No topics" in text_of(pages, "/topics?q=zzz")
    until(
        lambda: "__consumer_offsets" in text_of(pages, "/topics?internal=1"),
        "the list of topics is asked for again",
    )


def test_browsing_from_oldest_continues_where_it_stopped(pages: TestClient, client: Client) -> None:
    seen: list[tuple[int, int]] = []
    start = SearchStart("oldest")
    for _ in range(20):
        found = search(client, "orders", [0, 1, 2], start, 15, RecordFilter())
        seen += [(each.partition, each.record.offset) for each in found.found]
        if not found.more:
            break
        positions = read_positions(found.more)
        start = SearchStart("at", positions=positions)
    assert len(seen) == len(set(seen)) == 100
    page = pages.get("/topics/orders/messages?from=oldest&limit=10").text
    assert "Continue from there" in page
    assert "from=at" in page


def test_seeking_by_offset_and_time(client: Client) -> None:
    by_offset = search(client, "orders", [1], SearchStart("offset", 30), 50, RecordFilter())
    assert [each.record.offset for each in by_offset.found] == [30, 31, 32]
    by_time = search(
        client, "orders", [0, 1, 2], SearchStart("time", 1_750_000_090_000), 50, RecordFilter()
    )
    assert len(by_time.found) == 10
    assert by_time.stopped_by == "end"


def test_a_filter_finds_all_that_match_and_says_how_far_it_looked(client: Client) -> None:
    found = search(
        client, "orders", [0, 1, 2], SearchStart("oldest"), 50, RecordFilter(key="CUSTOMER-3")
    )
    assert len(found.found) == 14
    assert found.records == 100
    assert [(each.stop, each.end) for each in found.looked] == [(34, 34), (33, 33), (33, 33)]
    assert not search(
        client, "orders", [0], SearchStart("oldest"), 9, RecordFilter(value="Praha")
    ).found
    by_header = search(
        client, "orders", [0], SearchStart("newest"), 5, RecordFilter(header="source=te")
    )
    assert [each.record.offset for each in by_header.found] == [33, 32, 31, 30, 29]


def test_a_search_stops_when_its_budget_is_used_up(client: Client) -> None:
    spent = search(
        client,
        "orders",
        [0, 1, 2],
        SearchStart("oldest"),
        200,
        RecordFilter(),
        now=iter([0, 99, 99]).__next__,
    )
    assert spent.stopped_by == "time"
    assert spent.more == "0:0,1:0,2:0"


def test_old_records_with_wrong_timestamps_are_not_lost(client: Client) -> None:
    Admin(client).create_topic("backwards", partitions=1)
    with Producer(client) as producer:
        for number in range(5):
            producer.send("backwards", b"%d" % number, timestamp=1_750_000_000_000 - number)
    seen, start = [], SearchStart("oldest")
    for _ in range(5):
        found = search(client, "backwards", [0], start, 1, RecordFilter())
        seen += [each.record.value for each in found.found]
        start = SearchStart("at", positions={0: found.looked[0].stop})
    assert seen == [b"0", b"1", b"2", b"3", b"4"]


def test_the_live_tail_is_a_part_of_the_page_that_asks_again(pages: TestClient) -> None:
    page = pages.get("/topics/orders/messages?live=1&limit=10").text
    assert "every 2s" in page
    part = pages.get("/topics/orders/messages?live=1&limit=10&rows=1").text
    assert "<html" not in part
    assert "every 2s" in part
    assert "every 2s" not in pages.get("/topics/orders/messages?limit=10").text


def test_a_message_is_produced_and_shown(pages: TestClient, client: Client) -> None:
    Admin(client).create_topic("produced", partitions=3)
    form = {"value": "line\r\ntwo", "value_format": "text", "key": "00ff", "key_format": "hex"}
    form |= {"headers": "a=b\n\nc=d=e", "partition": "2"}
    sent = pages.post("/topics/produced/produce", data=form, headers=ORIGIN)
    assert sent.status_code == 303, sent.text
    found = text_of(pages, sent.headers["location"])
    assert "The message was sent." in found
    assert "line two" in found
    assert "c d=e" in found
    for wrong in ({"value": "x", "value_format": "hex"}, {"headers": "none"}, {"partition": "9"}):
        assert pages.post("/topics/produced/produce", data=wrong, headers=ORIGIN).status_code == 400


def test_offsets_are_reset_in_two_steps(pages: TestClient, client: Client) -> None:
    groups = GroupAdmin(client)
    where = TopicPartition("orders", 0)
    groups.commit_offsets("resetting", {where: 20})
    planned = pages.get("/group/reset?id=resetting&to=shift&at=-5")
    assert "-5" in text_of(pages, "/group/reset?id=resetting&to=shift&at=-5")
    assert groups.committed_offsets("resetting")[where].offset == 20
    plan = re.search(r'name="plan" value="([^"]*)"', planned.text)
    assert plan is not None
    form = {"id": "resetting", "plan": html.unescape(plan[1])}
    done = pages.post("/group/reset", data=form, headers=ORIGIN)
    assert done.status_code == 303, done.text
    assert groups.committed_offsets("resetting")[where].offset == 15
    for wrong in ("", "[]", '[["orders", 0, -7]]', "{}"):
        refused = {"id": "resetting", "plan": wrong}
        assert pages.post("/group/reset", data=refused, headers=ORIGIN).status_code == 400


@pytest.mark.parametrize(
    ("target", "offset"),
    [("to=earliest", 0), ("to=offset&at=99999", 34), ("to=time&at=2025-06-15T15:07:40", 20)],
)
def test_plans_of_a_reset(pages: TestClient, target: str, offset: int) -> None:
    page = pages.get(f"/group/reset?id=billing&topic=orders&{target}").text
    plan = re.search(r'name="plan" value="([^"]*)"', page)
    assert plan is not None
    assert json.loads(html.unescape(plan[1]))[0] == ["orders", 0, offset]


def test_hostile_content_is_text(pages: TestClient, client: Client) -> None:
    GroupAdmin(client).commit_offsets(HOSTILE, {TopicPartition("orders", 0): 1})
    Admin(client).create_topic("hostile", partitions=1)
    values = [HOSTILE.encode(), b"\xff\xfe\x00", b'{"a": "</pre><script>"}']
    with Producer(client) as producer:
        for value in values:
            producer.send("hostile", value, key=value, headers=[(HOSTILE, value)])
    paths = ["/groups", f"/group?id={quote(HOSTILE)}", f"/topics?q={quote(HOSTILE)}"]
    paths += [f"/topics/{quote(HOSTILE, safe='')}", "/topics/hostile/messages"]
    paths += [f"/topics/hostile/message?partition=0&offset={n}&format=auto" for n in range(3)]
    paths += [f"/topics/hostile/messages?value={quote(HOSTILE)}&format=text"]
    for path in paths:
        page = pages.get(path)
        assert page.status_code in (200, 404), path
        assert "<script>" not in page.text.replace('<script src="/static/', ""), path
        assert "\x1b" not in page.text
        assert "\u202e" not in page.text
    file = pages.get("/topics/hostile/value?partition=0&offset=0")
    assert file.content == values[0]
    assert file.headers["content-type"] == "application/octet-stream"
    assert file.headers["content-disposition"].startswith("attachment")


def test_a_value_of_50_mb_is_shown_in_part(pages: TestClient, client: Client) -> None:
    Admin(client).create_topic("huge", partitions=1, settings={"max.message.bytes": "60000000"})
    with Producer(client) as producer:
        producer.send("huge", b"<b>" * (50_000_000 // 3))
    page = pages.get("/topics/huge/message?partition=0&offset=0")
    assert page.status_code == 200
    assert len(page.content) < 600_000
    assert "bytes are shown" in page.text
    assert len(pages.get("/topics/huge/messages").content) < 100_000


def test_history_is_sampled_and_drawn(pages: TestClient, client: Client, filled: Broker) -> None:
    Admin(client).create_topic("sampled", partitions=1)
    parts = parts_of(pages)
    assert parts.console.history is not None
    clock = iter([time.time() - 30, time.time()])
    sampler = Sampler(
        Cluster(filled.bootstrap_servers, None), parts.console.history, 15, lambda: next(clock)
    )
    sampler.sample()
    with Producer(client) as producer:
        for _ in range(60):
            producer.send("sampled", b"more")
    sampler.sample()
    found = pages.get("/history?series=group:billing&series=topic:sampled").json()
    assert found["times"]
    assert found["lines"][0][-1] > 0
    assert found["lines"][1][-1] == pytest.approx(2, abs=0.1)
    assert parts.console.history.rates()["sampled"] == pytest.approx(2, abs=0.1)
    with console(filled.bootstrap_servers) as without:
        assert without.get("/history?series=total").json() == {"times": [], "lines": [[]]}


def test_the_list_of_topics_is_asked_for_once_in_a_while(filled: Broker) -> None:
    clock = [0.0]
    cluster = Cluster(filled.bootstrap_servers, None, now=lambda: clock[0])
    first = cluster.topics()
    assert cluster.topics() is first
    clock[0] = TOPICS_KEPT_SECONDS + 1
    assert cluster.topics() is not first
    cluster.close()


def test_nobody_waits_for_a_list_that_takes_long(filled: Broker) -> None:
    clock = iter([0.0, 5.0, 5.0])  # asking took five seconds
    later = [10.0]
    cluster = Cluster(filled.bootstrap_servers, None, now=lambda: next(clock, later[0]))
    first = cluster.topics()
    assert cluster.topics() is first, "too old, but shown while the next one is asked for"
    until(lambda: cluster.topics() is not first, "the next list is there")
    cluster.close()


def test_pipelines_are_shown_by_their_last_report(pages: TestClient, client: Client) -> None:
    now = int(time.time() * 1000)
    query = QueryReport(HOSTILE, "topic <b>", 1234, 10.5, 7, late=2, batches=3)
    letters = QueryReport("clicks.dead_letters", "topic broken", 5, dead_letters=True, lag=9)
    make_topic(client)
    make_topic(client)
    with Producer(client) as producer:
        producer.send(PIPELINES_TOPIC, b"\xff no report", key=b"other")
    for state in (State.FAILED, State.RUNNING):
        report = PipelineReport("shop", state, now - 1000, now, "h", (query, letters), "it broke")
        send_report(client, report)
    send_report(client, PipelineReport("gone", State.RUNNING, 0, 1))
    found = text_of(pages, "/pipelines")
    assert found.index("shop running") < found.index("gone silent")
    assert "topic <b> running 1,234 10.5 7 2 3 0" in found
    assert "Rows a second 10.5 Lag 9 Dead letters 5" in found
    assert "other" not in found
    assert "it broke" in found
    assert "<script>alert" not in pages.get("/pipelines").text
    assert "gone" not in text_of(pages, "/pipelines?q=SHOP")

    sampler = Sampler(parts_of(pages).cluster, parts_of(pages).console.history, 1.0)  # type: ignore[arg-type]

    def is_sampled() -> bool:
        sampler.sample()  # from a list of topics that may be a moment old
        lines = pages.get("/history?series=rows:shop&series=behind:shop").json()["lines"]
        return [max(line) for line in lines] == [10.5, 9.0]

    until(is_sampled, "the pipeline's rates are in the history", 15)
