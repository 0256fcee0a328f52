"""The page of `doctor` and `compare` in a browser, at a desktop's and a phone's width."""

import io
import re

import pytest
from PIL import Image

from builders.commands.compare import main as compare
from builders.commands.doctor import main as doctor
from tests.browser import look_at
from tests.builders.trees import linked, replaced


@pytest.fixture(scope="module")
def pages(demo, tmp_path_factory):
    """Pages about a copy in which images were saved again, halved, cut and removed."""
    folder = tmp_path_factory.mktemp("pages")
    root = linked(demo["dtd"], folder / "copy")
    paths = sorted(root.rglob("*.jpg"))

    def again(data, half=1):
        image, out = Image.open(io.BytesIO(data)).convert("RGB"), io.BytesIO()
        image.resize((image.width // half, image.height // half)).save(out, "JPEG", quality=60)
        return out.getvalue()

    for path in paths[:5]:
        replaced(path, again)
    replaced(paths[9], lambda data: again(data, 2))
    replaced(paths[13], lambda data: data[: len(data) // 2])
    paths[17].unlink()
    assert compare([str(root), str(demo["dtd"]), "--page", str(folder / "compare.html"), "--workers", "1"]) == 1
    assert doctor([str(root), "--page", str(folder / "doctor.html"), "--workers", "1"]) == 1
    return folder


@pytest.mark.parametrize("name", ["compare", "doctor"])
def test_it_looks_right_at_every_width(pages, open_page, name):
    page = look_at(open_page, pages / f"{name}.html", quickly=True)
    assert not page.complaints


def test_pictures_stand_side_by_side(pages):
    text = (pages / "compare.html").read_text(encoding="utf-8")
    assert text.count('src="data:image/jpeg;base64,') == 2 * 6 + 1 + 1  # cut and missing ones have the other's alone
    assert re.search(r"<dt>re-encoded</dt><dd>5", text)
    assert "http" not in re.sub(r"<code>.*?</code>", "", text.partition("<body>")[2])
