"""The console in a real browser: Debian's Chromium, driven by Playwright."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.console.shots import CHROMIUM, PAGES, PATIENCE_MS, demo, launched

FORM = "/topics/orders/produce"

# The pages are tested without a browser in test_pages.py; this needs a Debian package.
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Chromium (apt-get install chromium)"),
    pytest.mark.long,
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with demo() as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launched(playwright)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that must have nothing to complain about: no error, no violation of the policy."""
    page = browser.new_page(viewport={"width": 1200, "height": 760})
    page.set_default_timeout(PATIENCE_MS)
    problems: list[str] = []
    page.on("pageerror", lambda problem: problems.append(str(problem)))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    yield page
    page.close()
    assert problems == []


@pytest.mark.parametrize("path", [*PAGES.values(), "/access", "/transactions", "/brokers/1"])
def test_a_page_fits_into_400_pixels(page: Page, url: str, path: str) -> None:
    page.set_viewport_size({"width": 400, "height": 760})
    page.goto(url + path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.locator("h1").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(browser: Browser, url: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    context = browser.new_context(bypass_csp=True)  # axe is a script of the test's own
    page = context.new_page()
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    for path in [*PAGES.values(), "/access", "/transactions?hanging=1", "/brokers/1", FORM, "/no"]:
        page.goto(url + path)
        found = axe.run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
    context.close()


def test_charts_are_drawn(page: Page, url: str) -> None:
    page.goto(f"{url}/group?id=billing")
    page.locator("figure.chart canvas").nth(1).wait_for()


def test_topics_are_searched_while_one_types(page: Page, url: str) -> None:
    page.goto(f"{url}/topics")
    page.get_by_label("Search").press_sequentially("ship")
    page.get_by_text("1–1 of 1 topics").wait_for()
    page.wait_for_url("**/topics?q=ship*")
    assert page.locator("tbody tr").count() == 1


def test_the_live_tail_shows_new_messages(page: Page, browser: Browser, url: str) -> None:
    page.goto(f"{url}/topics/clicks/messages?live=1")
    other = browser.new_page()
    other.goto(f"{url}/topics/clicks/produce")
    other.get_by_label("Value", exact=True).fill("<b>a new click</b>")
    other.get_by_role("button", name="Send").click()
    other.get_by_text("The message was sent.").wait_for()
    other.close()
    page.get_by_text("<b>a new click</b>").wait_for()


def test_the_keyboard_reaches_content_first(page: Page, url: str) -> None:
    page.goto(f"{url}/topics")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colors_follow_the_system(browser: Browser, url: str, scheme: str) -> None:
    page = browser.new_page(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(url)
    red = page.evaluate("parseInt(getComputedStyle(document.body).backgroundColor.slice(4))")
    assert (red < 100) is (scheme == "dark")
    page.close()


def test_a_reset_is_planned_and_executed(page: Page, url: str) -> None:
    page.goto(f"{url}/group?id=search-index")
    page.get_by_role("link", name="Reset offsets…").click()
    page.locator("select[name=to]").select_option("earliest")
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_text("Nothing was changed yet.").wait_for()
    page.get_by_role("button", name="Reset the offsets of 1 partitions").click()
    page.get_by_text("The offsets of 1 partitions were reset.").wait_for()
