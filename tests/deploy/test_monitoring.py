"""The dashboard and the alert rules: valid, and asking only for metrics that a broker serves."""

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.metrics.counters import NetworkMetrics
from ottla.broker.metrics.exposition import exposition
from ottla.wire.apis import ApiKey
from tests.broker.nodes import running, topic

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
PROMTOOL = shutil.which("promtool")
# promtool checks the syntax; that the rules name metrics we serve is tested without it.
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed (Debian: apt-get install prometheus)"
)
OF_PROMETHEUS = {"up"}


@cache
def served() -> frozenset[str]:
    """The names of all samples and families that a broker can serve."""
    import tempfile

    async def live() -> str:
        with tempfile.TemporaryDirectory() as folder:
            async with running(Path(folder)) as node:
                await topic(node, "a")
                network = NetworkMetrics()
                network.answered(ApiKey.FETCH, 0.1)
                return (await exposition(node, network)).decode()

    found = set()
    for family in text_string_to_metric_families(asyncio.run(live())):
        found.add(family.name)
        found.update(sample.name for sample in family.samples)
    return frozenset(found)


def names_in(expression: str) -> set[str]:
    """The metrics in an expression of PromQL."""
    return set(re.findall(r"\b(?:up|(?:kafka|ottla|process)_[a-z0-9_]+)\b", expression))


def panels(of: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in of["panels"]:
        yield panel
        yield from panels(panel) if "panels" in panel else ()


def dashboard() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text())
    return read


def expressions() -> list[str]:
    rules = yaml.safe_load((MONITORING / "rules.yml").read_text())
    alerts = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    shown = [each["expr"] for panel in panels(dashboard()) for each in panel.get("targets", ())]
    variables = [
        each["query"]["query"]
        for each in dashboard()["templating"]["list"]
        if each["type"] == "query"
    ]
    return [*alerts, *shown, *variables]


@pytest.mark.parametrize("expression", expressions())
def test_only_metrics_that_are_served_are_asked_for(expression: str) -> None:
    names = names_in(expression)
    assert names
    assert names - served() - OF_PROMETHEUS == set()


def test_panels_have_their_own_ids_and_places() -> None:
    all_panels = list(panels(dashboard()))
    assert len({panel["id"] for panel in all_panels}) == len(all_panels)
    places: set[tuple[int, int]] = set()
    for panel in all_panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & places, panel["title"]
        assert at["x"] + at["w"] <= 24
        places |= cells


@needs_promtool
@pytest.mark.parametrize(
    "arguments",
    [("check", "rules", "rules.yml"), ("test", "rules", "rules_test.yml")],
)
def test_promtool_accepts_the_rules(arguments: tuple[str, ...]) -> None:
    assert PROMTOOL is not None
    ran = subprocess.run(
        [PROMTOOL, *arguments], cwd=MONITORING, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@needs_promtool
def test_promtool_accepts_what_a_broker_serves(tmp_path: Path) -> None:
    """Names, types and help of all metrics, as `promtool check metrics` lints them."""

    async def live() -> bytes:
        async with running(tmp_path) as node:
            await topic(node, "a")
            return await exposition(node, NetworkMetrics())

    assert PROMTOOL is not None
    ran = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=asyncio.run(live()), capture_output=True, check=False
    )
    # Status 3 is for style: names that Kafka's exporters have given are as they are.
    assert ran.returncode in (0, 3), ran.stderr.decode()
