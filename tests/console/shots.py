"""A cluster worth looking at, a console process in front of it, and pictures of its pages.

python -m tests.console.shots FOLDER    # writes the pictures of docs/console.md
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.client import Admin, Client, Producer, TopicPartition
from ottla.client.group_admin import GroupAdmin
from ottla.client.pipeline_reports import (
    PipelineReport,
    QueryReport,
    State,
    make_topic,
    send_report,
)
from ottla.console.history import History
from ottla.console.run import HISTORY_FILE
from ottla.embedded import Broker
from tests.console.processes import ConsoleProcess

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright

PATIENCE_MS = 60_000
CHROMIUM = Path("/usr/bin/chromium")
PAGES = {
    "overview": "/",
    "topics": "/topics",
    "topic": "/topics/orders",
    "messages": "/topics/orders/messages?limit=10",
    "message": "/topics/orders/message?partition=0&offset=3",
    "groups": "/groups",
    "group": "/group?id=billing",
    "audit": "/audit",
    "brokers": "/brokers",
    "pipelines": "/pipelines",
}
STEP = 15


def fill(bootstrap: str) -> None:
    """Topics, messages and groups."""
    with Client(bootstrap) as client:
        admin = Admin(client)
        admin.create_topic("orders", partitions=3, settings={"retention.ms": "604800000"})
        for name in ("payments", "shipments", "customers", "clicks"):
            admin.create_topic(name, partitions=2)
        with Producer(client) as producer:
            now = time.time_ns() // 1_000_000
            for number in range(600):
                producer.send(
                    "orders",
                    b'{"order": %d, "city": "Brno", "items": [{"sku": "A-17", "n": 2}]}' % number,
                    key=b"customer-%d" % (number % 7),
                    headers=[("source", b"web")],
                    partition=number % 3,
                    timestamp=now - (600 - number) * 4000,
                )
                producer.send("payments", b"paid %d" % number)
                if number % 15 == 14:
                    producer.flush()  # the audit counts a batch in the window of its first record
        ends = {TopicPartition("orders", index): 200 - 40 * index for index in range(3)}
        GroupAdmin(client).commit_offsets("billing", ends)
        GroupAdmin(client).commit_offsets("search-index", {TopicPartition("payments", 0): 1})
        make_topic(client)
        send_report(client, pipeline(int(time.time() * 1000)))


def pipeline(now: int) -> PipelineReport:
    """What a pipeline with two sinks would report."""
    queries = (
        QueryReport("by_city", "topic orders.by-city", 48_211, 412.5, 96, batches=131),
        QueryReport("lake", "delta lake/orders", 48_180, 398.0, 127, late=3, batches=44),
        QueryReport("orders.dead_letters", "topic orders.broken", 12, 0.0, 96, dead_letters=True),
    )
    return PipelineReport("orders", State.RUNNING, now - 3_600_000, now, "worker-1", queries)


def remember(folder: Path) -> None:
    """Six hours of history, as a sampler would have taken it."""
    now = int(time.time())
    history = History(folder / HISTORY_FILE, STEP)
    for number in range(6 * 3600 // (4 * STEP)):
        for part in range(4):
            at = now - 6 * 3600 + (4 * number + part) * STEP
            wave = 120 + 60 * ((number // 20) % 3) + (number * 37) % 23
            values = {"total": wave * 2.5, "topic:orders": float(wave)}
            values["group:billing"] = float(max(0, (number % 90) * 14 - 300))
            values["seconds:billing"] = values["group:billing"] / 120
            values |= {"rows:orders": wave * 5.0, "behind:orders": float(number % 90)}
            history.add(at, values, {"orders": float(wave), "payments": wave * 1.5})
    history.close()


@contextmanager
def demo() -> Iterator[str]:
    """The address of a console."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(config={"ottla.audit.enable": "true", "ottla.audit.interval.ms": "1000"}) as broker,
    ):
        fill(broker.bootstrap_servers)
        remember(Path(folder))
        with ConsoleProcess(broker.bootstrap_servers, "--data", folder) as console:
            yield console.url.rstrip("/")


def main(folder: Path) -> None:
    """Take the pictures."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    with demo() as url, sync_playwright() as playwright:
        browser = launched(playwright)
        page = browser.new_page(viewport={"width": 1200, "height": 720})
        for name in ("overview", "messages", "audit", "pipelines"):
            take(page, url + PAGES[name], folder / f"{name}.png")
        page.close()
        page = browser.new_page(viewport={"width": 1200, "height": 720}, color_scheme="dark")
        take(page, url + PAGES["group"], folder / "group-dark.png")
        page.close()
        page = browser.new_page(viewport={"width": 400, "height": 720})
        take(page, url + PAGES["topics"], folder / "topics-narrow.png")
        browser.close()


def launched(playwright: "Playwright") -> "Browser":
    """Debian's Chromium."""
    return playwright.chromium.launch(
        executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
    )


def take(page: "Page", url: str, file: Path) -> None:
    """A picture of a page, once its charts are drawn."""
    page.goto(url)
    for chart in page.locator("figure.chart .plot").all():
        chart.locator("canvas, :scope.empty").first.wait_for(timeout=PATIENCE_MS)
    page.screenshot(path=file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
