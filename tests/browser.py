"""Looks at pages in headless Chromium: what axe-core finds in them, and whether anything overflows."""

import os
import shutil
from pathlib import Path

import pytest

WIDTHS = {"phone": 390, "desktop": 1440}
SCHEMES = ("light", "dark")
HEIGHT = 900

EXECUTABLE = "UNKNOWN_DETECTION_CHROMIUM"
"""The environment variable that names another Chromium than the one on the path."""

# Elements whose content is wider than they are, and that do not scroll it or cut it off by intent. What lies inside a
# box that scrolls cannot widen the page, and hidden text is a pixel wide.
OVERFLOWING = """() => {
  const found = [];
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) found.push(`the page is ${wide} px wide in a window of ${innerWidth}`);
  for (const element of document.body.querySelectorAll("*")) {
    if (element.closest("svg") || element.closest(".hidden, .skip") || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    if (style.display === "inline" || style.overflowX !== "visible") continue;
    if (element.scrollWidth > element.clientWidth + 1) {
      const text = element.textContent.trim().replace(/\\s+/g, " ").slice(0, 40);
      const name = `<${element.localName} class="${element.className}">`;
      found.push(`${name}: ${element.scrollWidth} px in ${element.clientWidth} px: ${text}`);
    }
  }
  return found;
}"""


@pytest.fixture(scope="session")
def chromium():
    """A headless Chromium; tests that ask for it skip where it, playwright or axe-core's package is missing."""
    pytest.importorskip("axe_playwright_python", reason="needs axe-core: pip install axe-playwright-python")
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs a browser's driver: pip install playwright")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get(EXECUTABLE) or next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("needs Chromium: apt install chromium")
    with sync_api.sync_playwright() as driver:
        # Without a sandbox of its own, since tests may run as root; the pages are ours and offline.
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium, request):
    """Opens a file at a width (pixels) in a colour scheme; a page that requests, logs or raises anything fails."""

    def opened(path, width=WIDTHS["desktop"], scheme="light"):
        context = chromium.new_context(
            viewport={"width": width, "height": HEIGHT}, color_scheme=scheme, reduced_motion="reduce", offline=True
        )
        request.addfinalizer(context.close)
        page = context.new_page()
        page.complaints = []
        page.on("pageerror", lambda error: page.complaints.append(f"error: {error}"))
        page.on("console", lambda message: page.complaints.append(f"{message.type}: {message.text}"))
        page.on("request", lambda asked: page.complaints.extend(requested(asked.url, path)))
        page.goto(Path(path).as_uri())
        assert not page.complaints, "\n".join(page.complaints)
        return page

    return opened


def requested(url, path):
    """What a request of a page is called in its complaints: nothing for the page itself and what it holds."""
    return [] if url.partition("#")[0] == Path(path).as_uri() or url.startswith("data:") else [f"request: {url}"]


def assert_accessible(page):
    """Assert that axe-core has no serious or critical finding on a page, as it is now."""
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page).response["violations"]
    found = [
        f"{violation['impact']} {violation['id']}: {violation['help']}: {node['html'][:160]}"
        for violation in violations
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
    assert not found, "\n".join(found)


def assert_nothing_overflows(page):
    """Assert that nothing is wider than the window, or than the box that it stands in."""
    found = page.evaluate(OVERFLOWING)
    assert not found, "\n".join(found)


def look_at(open_page, path, *, quickly=False):
    """Assert both at every width and in every colour scheme; returns the page, as it was opened.

    `quickly` runs axe-core at the phone's width on light and at the desktop's on dark only: each width, each scheme.
    """
    page = open_page(path)
    for width, usual in zip(WIDTHS.values(), SCHEMES, strict=True):
        page.set_viewport_size({"width": width, "height": HEIGHT})
        assert_nothing_overflows(page)
        for scheme in [usual] if quickly else SCHEMES:
            page.emulate_media(color_scheme=scheme)
            assert_accessible(page)
    return page
