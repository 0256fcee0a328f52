"""Pictures: that they are drawn, carry their words, and come out the same. How they look is for people to see."""

import re

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")

from evaluation.metrics.metrics import aurc, risk_coverage
from evaluation.report import plots


def curves(count):
    numbers = np.random.default_rng(0)
    errors = numbers.random(3000) < 0.3
    found = []
    for number in range(count):
        scores = errors * (1 + number / 4) + numbers.normal(size=3000)
        found.append(plots.Curve(f"D{number}", *risk_coverage(scores, errors), 1000 * aurc(scores, errors)))
    return found


def drawn():
    numbers = np.random.default_rng(0)
    scores = {f"D{number}": {"in_distribution": numbers.normal(size=50), "far_ood": np.ones(3)} for number in range(5)}
    return {
        "curves": plots.risk_coverage(curves(9), baseline="D0", title="Curves", shown=4),
        "densities": plots.densities(scores, title="Densities"),
        "changes": plots.changes({"worse": (-3.0, 0.5), "better": (2.0, None)}, title="Changes", axis="%"),
        "heatmap": plots.heatmap(np.array([[0.9, np.nan], [0.2, 0.5]]), ["a", "b"], ["x", "y"], title="Map", bar="%"),
    }


def words(svg):
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg)


def test_pictures_come_as_png_and_svg_and_the_same_bytes_again(tmp_path):
    for folder in ("one", "two"):
        for name, figure in drawn().items():
            assert plots.save(figure, tmp_path / folder, name) == [f"{name}.png", f"{name}.svg"]
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(files) == 8
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
        assert b"Matplotlib v" not in (tmp_path / "one" / name).read_bytes()


def test_pictures_say_what_they_show(tmp_path):
    for name, figure in drawn().items():
        plots.save(figure, tmp_path, name)
    said = {name: words((tmp_path / f"{name}.svg").read_text(encoding="utf-8")) for name in drawn()}
    assert "4 others" in said["curves"]
    assert [text for text in said["curves"] if text.startswith("D0 (")], "the baseline is named though it is worst"
    assert [text[:2] for text in said["curves"] if text.startswith("D")] == ["D8", "D7", "D6", "D5", "D0"]
    assert {"D0", "D4", "in distribution", "far-OoD"} <= set(said["densities"])
    assert [text for text in said["changes"] if text in ("better", "worse")] == ["worse", "better"], "drawn from below"
    assert {"90.0", "20.0", "-", "a", "x"} <= set(said["heatmap"])


@pytest.mark.parametrize("panels", [1, 2, 5])
def test_no_words_are_cut(panels):
    """Of titles, legends and axes, with long names and few panels."""
    from matplotlib.text import Text

    numbers = np.random.default_rng(0)
    roles = list(plots.ROLE_COLORS)[:6]
    scores = {f"Detector {n}": {role: numbers.normal(size=50) for role in roles} for n in range(panels)}
    title = "Densities of scores by role on facets-wordnet-t45, resnet50-of-places365-with-a-long-name-seed-3"
    names = [f"a detector of number {number}" for number in range(panels)]
    figures = {
        "curves": plots.risk_coverage(curves(panels), baseline="D0", title=title),
        "densities": plots.densities(scores, title=title),
        "changes": plots.changes(
            dict.fromkeys(names, (1.0, 0.5)), title=title, axis="gain in points; right is better"
        ),
        "heatmap": plots.heatmap(np.full((3, panels), 0.9), names[:1] * 3, names, title=title, bar="AUROC in percent"),
    }
    for name, figure in figures.items():
        figure.draw_without_rendering()
        places = [axes for axes in figure.axes if axes.get_visible()]
        legends = [*figure.legends, *(axes.get_legend() for axes in places if axes.get_legend())]
        shown = [text for legend in legends for text in legend.get_texts()]
        shown += [text for axes in places for text in (axes.title, axes.xaxis.label, axes.yaxis.label)]
        shown += [text for text in figure.findobj(Text) if text.get_text().startswith(title[:20])]
        assert any(text.get_text().startswith(title[:20]) for text in shown)
        for text in shown:
            box, around = text.get_window_extent(), figure.bbox
            assert not text.get_text() or (around.x0 <= box.x0 and box.x1 <= around.x1), (name, text.get_text())
            assert not text.get_text() or (around.y0 <= box.y0 and box.y1 <= around.y1), (name, text.get_text())


def test_a_persons_own_settings_change_nothing(tmp_path):
    import matplotlib

    plots.save(plots.changes({"a": (1.0, None)}, title="t", axis="x"), tmp_path, "one")
    with matplotlib.rc_context({"font.size": 30, "savefig.dpi": 10, "svg.fonttype": "path"}):
        plots.save(plots.changes({"a": (1.0, None)}, title="t", axis="x"), tmp_path, "two")
        assert matplotlib.rcParams["font.size"] == 30
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_scores_that_are_all_equal_are_drawn_too(tmp_path):
    flat = {"flat": {"in_distribution": np.zeros(5), "near_ood": np.zeros(4)}}
    assert plots.save(plots.densities(flat, title="Flat"), tmp_path, "flat") == ["flat.png", "flat.svg"]


def test_a_long_curve_is_thinned_but_keeps_its_start_and_its_end():
    at = plots._thinned(1_000_000)
    assert at[:1000].tolist() == list(range(1000))
    assert at[-1] == 999_999
    assert len(at) <= 2000
    assert plots._thinned(3).tolist() == [0, 1, 2]
