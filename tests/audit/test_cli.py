import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from xml.sax.saxutils import escape

import click
import pytest

from ottla.audit.check import Consumed, Row
from ottla.audit.events import AUDIT_TOPIC, Event, Tier
from ottla.cli.audit_plot import terminal_plot
from ottla.cli.audit_table import duration_text
from ottla.client import Admin, Client, Producer
from ottla.embedded import Broker
from tests.audit.auditing import Audited
from tests.cli.conftest import Ottla

MINUTE = 60_000
RED, GREY = (207, 34, 46), (175, 184, 193)


@pytest.fixture
def audit(audited: Audited, offline: Ottla, monkeypatch: pytest.MonkeyPatch) -> Ottla:
    """Runs `ottla audit`."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", audited.bootstrap)
    return lambda *arguments: offline("audit", *arguments)


def this_minute() -> int:
    now = time.time_ns() // 1_000_000
    return now - now % MINUTE


def tell(
    audited: Audited, topic: str, tier: Tier, count: int, age: int = 0, name: str = ""
) -> None:
    """Let a tier say that it has seen all offsets of a topic, in so many records."""
    window = this_minute() - age * MINUTE
    event = Event(
        tier=tier,
        name=name or ("billing" if tier is Tier.CONSUMER else "shop"),
        instance=f"{tier}-{age}{name}",
        topic=topic,
        sequence=0,
        next=10,
        time=time.time_ns() // 1_000_000,
        window_ms=MINUTE,
        counts=[(age, window, window, count)],
        spans={age: (0, 10)},
    )
    with Client(audited.bootstrap) as client, Producer(client) as producer:
        producer.send(AUDIT_TOPIC, event.encode(), key=event.key())


def test_when_nothing_is_missing_the_status_is_0(
    audited: Audited, audit: Ottla, topic: str
) -> None:
    for tier in (Tier.PRODUCER, Tier.BROKER, Tier.CONSUMER):
        tell(audited, topic, tier, 10)
    ran = audit(topic)
    assert ran.status == 0
    assert ran.out.splitlines()[0] == f"{topic}  (windows of 1m)"
    heading, values = (ran.out.splitlines()[line].split() for line in (1, 3))
    assert heading == ["window", "produced", "stored", "billing", "missing", "duplicate", "late"]
    assert values[1:] == ["10", "10", "10", "0", "0", "0"]
    assert ran.out.endswith("nothing is missing\n")


def test_when_something_is_missing_the_status_is_1(
    audited: Audited, audit: Ottla, topic: str
) -> None:
    for tier, count in ((Tier.PRODUCER, 10), (Tier.BROKER, 9), (Tier.CONSUMER, 7)):
        tell(audited, topic, tier, count)
    ran = audit(topic)
    assert ran.status == 1
    assert "produced -> stored: 1 missing\n" in ran.out
    assert "stored -> billing: 2 missing\n" in ran.out
    assert ran.out.endswith("3 missing\n")


def test_a_table_too_wide_for_the_terminal_has_a_line_for_each_tier(
    audited: Audited, audit: Ottla, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    sinks = [f"clicks.of_the_shop.{sink}" for sink in ("by_type", "minutes", "lake")]
    tell(audited, topic, Tier.BROKER, 9)
    for sink in sinks:
        tell(audited, topic, Tier.SPARK_SOURCE, 7 if "lake" in sink else 9, name=sink)
    wide = audit(topic).out.splitlines()
    assert len(wide[3].split()) == 9
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    ran = audit(topic)
    assert ran.status == 1
    table = ran.out.splitlines()[1 : ran.out.splitlines().index("") - 1]
    assert max(map(len, table)) <= 80
    lines = [line.split() for line in table]
    assert lines[0] == ["window", "and", "tier", "records", "missing", "duplicate", "late"]
    assert lines[3] == ["stored", "9", "0", "0", "0"]
    assert [sinks[2], "(spark-source)", "7", "2", "0", "0"] in lines
    assert ran.out.endswith("2 missing\n")


def test_internal_topics_are_shown_where_they_are_asked_for(
    audited: Audited, audit: Ottla, topic: str
) -> None:
    internal = f"__{topic}"
    tell(audited, topic, Tier.BROKER, 9)
    tell(audited, internal, Tier.BROKER, 3)
    assert f"{internal} " not in audit().out
    assert f"{topic} " in audit().out
    for words in (("--internal",), (internal,)):
        assert f"{internal} " in audit(*words).out


def test_json_says_the_same(audited: Audited, audit: Ottla, topic: str) -> None:
    tell(audited, topic, Tier.BROKER, 9)
    tell(audited, topic, Tier.CONSUMER, 7)
    ran = audit(topic, "--json")
    assert ran.status == 1
    (window,) = ran.json["windows"]  # type: ignore[index]  # a document of any kind
    assert window["stored"] == 9
    assert window["produced"] is None
    assert window["consumers"] == [
        {
            "tier": "consumer",
            "name": "billing",
            "consumed": 7,
            "missing": 2,
            "duplicate": 0,
            "late": 0,
        }
    ]


def test_windows_can_be_chosen_by_age_and_length(
    audited: Audited, audit: Ottla, topic: str
) -> None:
    tell(audited, topic, Tier.BROKER, 3)
    tell(audited, topic, Tier.BROKER, 4, age=90)
    with Client(audited.bootstrap) as client:
        Admin(client).create_topic(topic)
    assert audit(topic, "--since", "1d").out.count("Z ") == 2
    assert audit(topic).out.count("Z ") == 1
    assert audit(topic, "--since", "2999-01-01T00:00:00Z").out == (
        f"nothing was counted of topic {topic} since 2999-01-01T00:00:00Z\n"
    )
    ran = audit(topic, "--since", "366d", "--window", "2d")
    assert "windows of 2d" in ran.out


def test_a_plot_goes_to_the_terminal(audited: Audited, audit: Ottla, topic: str) -> None:
    tell(audited, topic, Tier.BROKER, 9)
    ran = audit(topic, "--plot")
    assert ran.status == 0
    assert "stored █" in ran.out


def test_a_picture_goes_to_a_file(
    audited: Audited, audit: Ottla, topic: str, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    tell(audited, topic, Tier.BROKER, 9)
    for name, begin in (("plot.png", b"\x89PNG"), ("plot.svg", b"<?xml")):
        picture = tmp_path / name
        assert audit(topic, "--plot", str(picture)).status == 0
        assert picture.read_bytes().startswith(begin)


def test_a_plot_has_colours_unless_no_color_is_set(
    audited: Audited, audit: Ottla, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(audited, topic, Tier.PRODUCER, 10)
    tell(audited, topic, Tier.BROKER, 9)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for value, is_coloured in (("", True), ("1", False)):
        monkeypatch.setenv("NO_COLOR", value)
        ran = audit(topic, "--plot")
        assert "1 missing" in ran.out
        assert ("\x1b" in ran.out) == is_coloured


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--since", "yesterday"), "90s, 5m, 1h or 2d, nor an ISO 8601 time"),
        (("--since", "0s"), "90s, 5m, 1h"),
        (("--window", "1 fortnight"), "90s, 5m, 1h"),
        (("--plot", "orders.gif"), ".png"),
    ],
)
def test_wrong_usage_is_said_in_a_line(
    offline: Ottla, arguments: tuple[str, ...], word: str
) -> None:
    ran = offline("audit", *arguments)
    assert ran.status == 2
    assert ran.err.count("\n") == 1
    assert word in ran.err


def test_without_an_audit_topic_it_says_how_to_get_one(offline: Ottla) -> None:
    with Broker(auto_create_topics_enable=False) as broker:
        ran = offline("audit", "--bootstrap", broker.bootstrap_servers)
    assert ran.status == 2
    assert ran.err.count("\n") == 1
    assert "ottla.audit.enable=true" in ran.err


def test_where_no_broker_answers_the_status_is_not_that_of_missing_messages(
    offline: Ottla,
) -> None:
    ran = offline("audit", "--bootstrap", "127.0.0.1:1")
    assert ran.status == 2
    assert ran.err.count("\n") == 1
    assert ran.err.endswith("(start one with: ottla serve; or name another with --bootstrap)\n")


def test_a_picture_that_cannot_be_written_is_an_error(
    audited: Audited, audit: Ottla, topic: str, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    tell(audited, topic, Tier.BROKER, 9)
    file = tmp_path / "nowhere" / "a.png"
    ran = audit(topic, "--plot", str(file))
    assert ran.status == 2
    assert ran.err == f"ottla: {file}: No such file or directory\n"


def test_a_topic_that_is_not_there_is_an_error(audited: Audited, audit: Ottla, topic: str) -> None:
    tell(audited, topic, Tier.PRODUCER, 10)
    ran = audit("misspelt")
    assert ran.status == 2
    assert "there is no topic misspelt" in ran.err


def test_what_is_no_event_is_counted_and_passed_over(offline: Ottla) -> None:
    with Broker() as broker:
        with Client(broker.bootstrap_servers) as client, Producer(client) as producer:
            producer.send(AUDIT_TOPIC, b"hello")
        ran = offline("audit", "--bootstrap", broker.bootstrap_servers)
    assert ran.status == 0
    assert "1 records of the audit topic are not audit events" in ran.out


def drawn(rows: Sequence[Row], file_format: str) -> bytes:
    """A picture, where there is the library that draws it."""
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    from ottla.cli.audit_picture import picture

    return picture(rows, file_format)


def pixels(rows: Sequence[Row]) -> dict[tuple[int, ...], int]:
    """How often the picture has each colour."""
    data = drawn(rows, "png")
    from PIL import Image

    image = Image.open(BytesIO(data)).convert("RGB")
    counted = image.getcolors(maxcolors=image.width * image.height)
    return {colour: count for count, colour in counted or () if isinstance(colour, tuple)}


def test_a_picture_shows_what_is_missing_and_late() -> None:
    whole = Row("orders", 0, MINUTE, 10, 7, consumers=[Consumed("consumer", "b", 6)])
    legend = pixels([replace(whole, window=n * MINUTE) for n in range(500)])
    assert pixels([replace(whole, missing=3)])[RED] > 5 * legend[RED]
    assert pixels([replace(whole, late=3)])[GREY] > 5 * legend[GREY]


def test_names_are_drawn_as_they_are() -> None:
    """Underscores and dollars mean something to matplotlib."""
    names = ["_hidden", "$\\frac$", "a<b>&amp;"]
    rows = [Row("a_b", 0, MINUTE, 1, 1, consumers=[Consumed("consumer", n, 1) for n in names])]
    text = drawn(rows, "svg").decode()
    for name in ("a_b", *names):
        assert f"<!-- {escape(name)} -->" in text, name


def test_without_the_library_a_picture_is_refused_before_the_audit_is_read(
    offline: Ottla, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [
        name for name in sys.modules if name.startswith(("matplotlib", "ottla.cli.audit"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ran = offline("audit", "--plot", "a.png", "--bootstrap", "127.0.0.1:1")
    assert ran.status == 2
    assert "--plot a.png needs the package matplotlib: " in ran.err
    assert "-m pip install" in ran.err


def test_what_is_missing_or_late_is_part_of_the_bar() -> None:
    row = Row("orders", 0, MINUTE, 10, 6, missing=3, late=1)
    assert "6, 3 missing, 1 late" in terminal_plot([row])
    assert terminal_plot([]) == ""
    assert drawn([], "png").startswith(b"\x89PNG")


def test_bars_differ_without_colours_and_fit_the_terminal() -> None:
    row = Row("orders", 0, MINUTE, 20, 20, consumers=[Consumed("consumer", "billing", 6, 0, 0, 14)])
    wide = click.unstyle(terminal_plot([row])).splitlines()
    assert wide[-1].endswith(f" billing  {18 * '█'}{42 * '░'} 6, 14 late")
    lossy = Row("orders", 0, MINUTE, 9, 3, missing=3, late=3)
    for rows in ([row], [lossy]):
        narrow = click.unstyle(terminal_plot(rows, 64)).splitlines()
        assert max(map(len, narrow)) <= 64
    assert "▒" in narrow[-1]


def test_lengths_of_time_are_written_as_they_are_read() -> None:
    assert [duration_text(n) for n in (500, 1000, 90_000, 60_000, 3_600_000, 86_400_000)] == [
        "500ms",
        "1s",
        "90s",
        "1m",
        "1h",
        "1d",
    ]
