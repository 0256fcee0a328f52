"""Pictures: that they are drawn, carry their words, and come out the same. How they look is for people to see."""

import re
import warnings

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")

from tests.evaluation.display.as_text import svg_texts
from unknown_detection.evaluation.display import canvas, plots
from unknown_detection.evaluation.metrics.metrics import aurc, risk_coverage


def curves(count):
    numbers = np.random.default_rng(0)
    errors = numbers.random(3000) < 0.3
    by_name = {}
    for number in range(count):
        scores = errors * (1 + number / 4) + numbers.normal(size=3000)
        by_name[f"D{number}"] = (*risk_coverage(scores, errors), 1000 * aurc(scores, errors))
    return by_name


def bins(names):
    centres = (np.arange(15) + 0.5) / 15
    rows = np.array([0] * 5 + [10] * 10)
    return {name: (rows, np.where(rows, centres, np.nan), np.where(rows, centres**2, np.nan), 0.123) for name in names}


def drawn():
    numbers = np.random.default_rng(0)
    scores = {f"D{number}": {"in_distribution": numbers.normal(size=50), "far_ood": np.ones(3)} for number in range(5)}
    return {
        "curves": plots.plot_risk_coverage(curves(9), baseline="D0", title="Curves", shown=4),
        "densities": plots.plot_densities(scores, title="Densities"),
        "changes": plots.plot_changes({"worse": (-3.0, 0.5), "better": (2.0, None)}, title="Changes", axis="%"),
        "heatmap": plots.plot_heatmap(
            np.array([[0.9, np.nan], [0.2, 0.5]]), ["a", "b"], ["x", "y"], title="Map", bar="%"
        ),
        "reliability": plots.plot_reliability(bins(["MSP"]), title="Reliability"),
        "roc": plots.plot_roc({"near": (np.array([0, 0.5, 1]), np.array([0, 0.9, 1]), 70.0)}, title="ROC"),
    }


def test_pictures_come_in_three_formats_and_the_same_bytes_again_and_say_what_they_show(tmp_path):
    for folder in ("one", "two"):
        figures = drawn()
        for name, figure in figures.items():
            files = [f"{name}{suffix}" for suffix in (".png", ".svg", ".pdf")]
            assert canvas.save(figure, tmp_path / folder, name, (".png", ".svg", ".pdf")) == files
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(files) == 18
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
        assert b"Matplotlib v" not in (tmp_path / "one" / name).read_bytes()
    # They fit the columns of a paper.
    assert {round(figure.get_size_inches()[0], 2) for figure in figures.values()} == {3.25, 6.75}
    texts = {name: svg_texts(tmp_path / "one" / f"{name}.svg") for name in figures}
    assert "4 others" in texts["curves"]
    assert [text for text in texts["curves"] if text.startswith("D0 (")], "the baseline is named though it is worst"
    assert [text[:2] for text in texts["curves"] if text.startswith("D")] == ["D8", "D7", "D6", "D5", "D0"]
    assert {"D0", "D4", "known", "far-OoD", "score", "rows (%)"} <= set(texts["densities"])
    assert [text for text in texts["changes"] if text in ("better", "worse")] == ["worse", "better"], (
        "drawn from below"
    )
    assert {"90.0", "20.0", "-", "a", "x"} <= set(texts["heatmap"])
    assert {"near (AUROC 70.00)", "TPR: known rows accepted (%)"} <= set(texts["roc"])
    assert {"MSP (ECE 12.30 %)", "calibrated", "accuracy (%)"} <= set(texts["reliability"])


@pytest.mark.parametrize("name", ["$x^{$", "__proto__", "_nolegend_", "a_b$c$"])
def test_any_name_of_a_detector_is_drawn_as_it_is(name, tmp_path):
    numbers = np.random.default_rng(0)
    known = {"in_distribution": numbers.normal(size=50), "far_ood": np.ones(3)}
    figures = {
        "curves": plots.plot_risk_coverage({name: curves(1)["D0"]}, baseline="MSP", title=name),
        "densities": plots.plot_densities({name: known}, title=name),
        "changes": plots.plot_changes({name: (-3.0, 0.5)}, title=name, axis="%"),
        "heatmap": plots.plot_heatmap(np.array([[0.9]]), [name], ["x"], title=name, bar="%"),
        "reliability": plots.plot_reliability(bins([name]), title=name),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind, figure in figures.items():
            canvas.save(figure, tmp_path, kind)
            texts = svg_texts(tmp_path / f"{kind}.svg")
            # Once as the title, and once where the detector is named.
            assert len([text for text in texts if text.strip().startswith(name)]) == 2, (kind, texts)


def test_bars_that_are_cut_say_so(tmp_path):
    changed = {"a": (1.0, 0.1), "b": (2.0, 0.1), "c": (-1.5, 0.1), "d": (1.2, 0.1), "e": (-400.0, 9.0)}
    figure = plots.plot_changes(changed, title="Changes", axis="gain (points)")
    bars = [bar.get_width() for bar in figure.axes[0].patches]
    assert min(bars) > -10, "the others can be seen"
    assert [text.get_text().strip() for text in figure.axes[0].texts] == ["cut: -400"]
    spread = np.r_[np.linspace(0, 1, 500), np.full(500, 50.0)]
    figure = plots.plot_densities(
        {"D": {"in_distribution": np.linspace(0, 1, 900), "far_ood": spread}}, title="Scores"
    )
    assert [text.get_text() for text in figure.axes[0].texts] == ["cut, up to 50 %"]


@pytest.mark.parametrize("value", np.linspace(0, 1, 11))
def test_the_text_of_every_cell_is_readable(value):
    """By the contrast of WCAG 2, worked out here: 4.5 to 1 for small text."""
    figure = plots.plot_heatmap(np.array([[value]]), ["a"], ["x"], title="Map", bar="%")
    axes = figure.axes[0]
    (text,) = axes.texts
    image = axes.get_images()[0]
    background = image.cmap(image.norm(100 * value))[:3]
    levels = [luminance(color) for color in (background, {"black": (0, 0, 0), "white": (1, 1, 1)}[text.get_color()])]
    assert (max(levels) + 0.05) / (min(levels) + 0.05) >= 4.5


def luminance(color):
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in color]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_page_gets_pictures_in_the_colour_of_its_text_with_ids_of_their_own():
    bars = plots.plot_changes({"worse": (-3.0, 0.5), "better": (2.0, None)}, title="Changes", axis="%")
    first, second = (canvas.inline_svg(bars, name) for name in ("one", "two"))
    assert first.startswith("<svg")
    assert "currentColor" in first
    assert canvas.INK not in first
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (first, second)]
    assert not ids[0] & ids[1]
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', first))
    assert used <= ids[0]


@pytest.mark.parametrize("panels", [1, 2, 5])
def test_no_words_are_cut(panels):
    """Of titles, legends and axes, with long names and few panels."""
    from matplotlib.text import Text

    numbers = np.random.default_rng(0)
    roles = list(plots.ROLES)[:6]
    scores = {f"Detector {n}": {role: numbers.normal(size=50) for role in roles} for n in range(panels)}
    title = "Densities of scores by role on facets-wordnet-t45, resnet50-of-places365-with-a-long-name-seed-3"
    names = [f"a detector of number {number}" for number in range(panels)]
    figures = {
        "curves": plots.plot_risk_coverage(curves(panels), baseline="D0", title=title),
        "densities": plots.plot_densities(scores, title=title),
        "changes": plots.plot_changes(
            dict.fromkeys(names, (1.0, 0.5)), title=title, axis="gain in points; right is better"
        ),
        "heatmap": plots.plot_heatmap(
            np.full((3, panels), 0.9), names[:1] * 3, names, title=title, bar="AUROC in percent"
        ),
        "reliability": plots.plot_reliability(bins(names), title=title),
        "roc": plots.plot_roc({name: (np.arange(2), np.arange(2), 50.0) for name in names}, title=title),
    }
    for name, figure in figures.items():
        figure.draw_without_rendering()
        hidden = [text for axes in figure.axes if not axes.get_visible() for text in axes.findobj(Text)]
        shown = [text for text in figure.findobj(Text) if text.get_text().strip() and text not in hidden]
        assert any(text.get_text().startswith(title[:20]) for text in shown)
        around = figure.bbox
        for text in shown:
            box = text.get_window_extent()
            if not box.width or beyond_the_axis(text):
                continue
            assert around.x0 - 1 <= box.x0 and box.x1 <= around.x1 + 1, (name, text.get_text())
            assert around.y0 - 1 <= box.y0 and box.y1 <= around.y1 + 1, (name, text.get_text())


def beyond_the_axis(text):
    """Whether a text is the label of a tick outside the axis's limits, which is not drawn."""
    for axis in [axis for axes in text.get_figure().axes for axis in (axes.xaxis, axes.yaxis)]:
        low, high = sorted(axis.get_view_interval())
        for tick in axis.majorTicks:
            if text in (tick.label1, tick.label2):
                return not low <= tick.get_loc() <= high
    return False


def test_a_persons_own_settings_change_nothing(tmp_path):
    import matplotlib

    canvas.save(plots.plot_changes({"a": (1.0, None)}, title="t", axis="x"), tmp_path, "one")
    with matplotlib.rc_context({"font.size": 30, "savefig.dpi": 10, "svg.fonttype": "path"}):
        canvas.save(plots.plot_changes({"a": (1.0, None)}, title="t", axis="x"), tmp_path, "two")
        assert matplotlib.rcParams["font.size"] == 30
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_scores_that_are_all_equal_are_drawn_too(tmp_path):
    flat = {"flat": {"in_distribution": np.zeros(5), "near_ood": np.zeros(4)}}
    assert canvas.save(plots.plot_densities(flat, title="Flat"), tmp_path, "flat") == ["flat.png", "flat.svg"]


def test_a_long_curve_is_thinned_but_keeps_its_start_and_its_end():
    at = plots._thinned(1_000_000)
    assert at[:200].tolist() == list(range(200))
    assert at[-1] == 999_999
    assert len(at) <= 400
    assert plots._thinned(3).tolist() == [0, 1, 2]
