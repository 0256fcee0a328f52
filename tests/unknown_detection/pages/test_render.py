import re

import jinja2
import pytest

from tests.browser import WIDTHS, assert_accessible, assert_nothing_overflows, look_at
from tests.unknown_detection.pages.samples import HOSTILE, NUMBERS, sample
from unknown_detection.pages.render import render_template


@pytest.fixture
def page_of(tmp_path):
    def written(text):
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def test_text_is_escaped_everywhere():
    table = type(NUMBERS)(HOSTILE, HOSTILE, NUMBERS.columns, [[HOSTILE, 1, 2]], note=HOSTILE)
    text = sample(title=HOSTILE, lead=HOSTILE, words=HOSTILE, tables=[table])
    assert "<script>document" not in text
    assert "<img" not in text
    assert "<b>" not in text
    assert (
        text.count("&lt;script&gt;document") == 10
    )  # the title's two, lead, words; the table's id's three, caption, cell, note


def test_a_name_that_is_not_given_is_refused():
    with pytest.raises(jinja2.UndefinedError, match="title"):
        render_template("base.html.j2", contents=[])


@pytest.mark.parametrize(
    ("address", "linked"),
    [
        ("https://example.org/a?b=c#d", True),
        ("figures.csv", True),
        ("#words", True),
        ("javascript:document.title=1", False),
        ("java\nscript:document.title=1", False),
        (" javascript:document.title=1", False),
        ("file:///etc/passwd", False),
        ("/etc/passwd", False),
        ("//example.org", False),
        ("../../secret", False),
        ("data:text/html,x", False),
        ("https://example.org/'onclick=x", False),
    ],
)
def test_links_lead_only_to_the_web_and_beside_the_page(address, linked):
    assert ("a link</a>" in sample(address=address)) == linked


def test_a_page_looks_right_at_every_width_and_in_every_scheme(open_page, page_of):
    look_at(open_page, page_of(sample()), quickly=True)


def test_a_page_that_overflows_is_found(open_page, page_of):
    wide = open_page(page_of(sample().replace("Some words.", '<span style="display: block; width: 2000px">w</span>')))
    with pytest.raises(AssertionError, match="the page is 2"):
        assert_nothing_overflows(wide)
    # Cut off instead of widening the page: nothing scrolls, and the reader misses the end all the same.
    cut = sample().replace("<p>Some words.</p>", '<p style="width: 90px">Donaudampfschifffahrtsgesellschaft</p>')
    narrow = open_page(page_of(cut.replace("overflow-wrap: anywhere", "")), WIDTHS["phone"])
    with pytest.raises(AssertionError, match="Donaudampf"):
        assert_nothing_overflows(narrow)


def test_a_page_that_some_cannot_read_is_found(open_page, page_of):
    pale = open_page(page_of(sample().replace("--ink: light-dark(#1d2125", "--ink: light-dark(#c9c9c9")))
    with pytest.raises(AssertionError, match="color-contrast"):
        assert_accessible(pale)


def test_a_page_runs_no_script_but_its_own_and_fetches_nothing(open_page, page_of):
    hostile = '<script>document.title = "seized"</script><img src="http://127.0.0.1:9/x.png">'
    path = page_of(sample().replace("Some words.", hostile))
    with pytest.raises(AssertionError) as refused:
        open_page(path)
    for rule in ("script-src", "img-src"):  # the browser names the rule by which it blocked each
        assert re.search(f"{rule} .*blocked", str(refused.value))


def test_a_template_brings_a_style_and_a_script_of_its_own(open_page, page_of):
    text = sample(style="h1 { color: #010203 }", script="addEventListener('load', () => { document.title += ' ran' })")
    page = open_page(page_of(text))
    assert page.title() == "A sample ran"
    assert page.locator("h1").evaluate("it => getComputedStyle(it).color") == "rgb(1, 2, 3)"


def test_tables_are_sorted_searched_and_unfolded_by_keyboard(open_page, page_of):
    page = open_page(page_of(sample()))
    names = "#numbers tbody th"
    page.locator("#numbers thead button", has_text="rows").focus()
    page.keyboard.press("Enter")
    assert page.locator(names).all_inner_texts() == ["nine", "ten", "thousand"]
    page.keyboard.press("Space")
    assert page.locator(names).all_inner_texts() == ["thousand", "ten", "nine"]
    assert page.locator("#numbers th[aria-sort=descending]").inner_text() == "rows"
    page.keyboard.press("Tab")  # to the bytes; the missing one stands last in both directions
    for order in (["ten", "thousand", "nine"], ["thousand", "ten", "nine"]):
        page.keyboard.press("Enter")
        assert page.locator(names).all_inner_texts() == order

    shown = page.locator("#long tbody tr:visible")
    assert shown.count() == 10
    page.get_by_label("Search: Long").focus()
    page.keyboard.type("odd 4")
    assert shown.count() == 5  # 41, 43, 45, 47, 49
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.get_by_role("button", name="Show all 50 rows").focus()
    page.keyboard.press("Enter")
    assert shown.count() == 50


def test_the_theme_is_chosen_by_the_system_or_by_hand(open_page, page_of):
    path = page_of(sample())
    paper = "getComputedStyle(document.body).backgroundColor"
    light, dark = (open_page(path, scheme=scheme) for scheme in ("light", "dark"))
    assert light.evaluate(paper) != dark.evaluate(paper)
    light.keyboard.press("Tab")
    assert light.locator(":focus").inner_text() == "Skip to the content"
    light.keyboard.press("Tab")
    light.keyboard.press("Enter")
    assert light.locator(":focus").inner_text() == "Theme: light"
    light.keyboard.press("Enter")
    assert light.evaluate(paper) == dark.evaluate(paper)
