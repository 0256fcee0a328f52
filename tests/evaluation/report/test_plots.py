"""Pictures: that they are drawn, carry their words, and come out the same. How they look is for people to see."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")

from tests.evaluation.made_rows import make_rows
from tests.evaluation.report.as_text import svg_texts
from unknown_detection.evaluation.protocols import PROTOCOLS
from unknown_detection.evaluation.report import pictures, plots

FIGURES = pd.DataFrame(columns=["metric", "statistic", "setting", "unknown", "config"], dtype=str)
AXES = ("coverage (%)", "risk (% errors)")


RATES = np.linspace(0, 1, 15)


def drawn(names=("a", "b"), title="Title", panels=5):
    """A picture of each kind in which these names stand, and its title."""
    numbers = np.random.default_rng(0)
    roles = [*plots.ROLES][:6]
    scores = {names[n % len(names)] + n // len(names) * "+": {role: numbers.normal(size=50) for role in roles}
              for n in range(panels)}  # fmt: skip
    return {
        "curves": plots.plot_curves(
            dict.fromkeys(names, (RATES, RATES**2)), [(RATES, RATES)], title=title, axes=AXES, level=95, legend="AURC",
        ),
        "densities": plots.plot_densities(scores, title=title),
        "heatmap": plots.plot_heatmap(
            pd.DataFrame(0.9, index=names, columns=[*"xy"]), title=title, bar="AUROC in percent"
        ),
        "ranks": plots.plot_ranks(pd.Series(range(len(names)), index=names, dtype=float), 1.5, title=title),
        "points": plots.plot_points(RATES, dict.fromkeys(names, RATES), title=title, axes=AXES),
    }  # fmt: skip


def test_pictures_come_in_three_formats_and_the_same_bytes_again_and_say_what_they_show(tmp_path):
    formats = (".png", ".svg", ".pdf")
    for folder in ("one", "two"):
        for name, figure in (figures := drawn(panels=3)).items():
            plots.save(figure, tmp_path / folder, name, formats)
    for name in sorted(path.name for path in (tmp_path / "one").iterdir()):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
        assert b"Matplotlib v" not in (tmp_path / "one" / name).read_bytes()
    # They fit the columns of a paper.
    assert {round(figure.get_size_inches()[0], 2) for figure in figures.values()} == {3.25, 6.75}
    texts = {name: {*svg_texts(tmp_path / "one" / f"{name}.svg")} for name in figures}
    assert {"a", "b", "1 others", "AURC", *AXES} <= texts["curves"]
    assert {"a", "b", "a+", "known", "far-OoD", "score", "rows (%)"} <= texts["densities"]
    assert {"a", "x", "90.0", "AUROC in percent"} <= texts["heatmap"]


def test_a_missing_value_is_a_dash():
    values = pd.DataFrame([[0.9, np.nan]], index=["a"], columns=["x", "y"])
    assert [text.get_text() for text in plots.plot_heatmap(values, title="t", bar="b").axes[0].texts] == ["90.0", "-"]


def test_risk_coverage_names_the_best_detectors_and_the_baseline():
    errors, numbers = np.arange(40) % 3 == 0, np.random.default_rng(0)
    rows = make_rows(("c", "test", "in_distribution", errors, {"wrong": errors.tolist()}))
    noise = numbers.normal(size=40)
    by_name = {f"D{n}": rows.assign(score=rows["wrong"] * (n + 1.0) + noise) for n in range(8)}
    by_name["msp"] = rows.assign(score=-1.0 * rows["wrong"])
    order = [f"D{n}" for n in range(7, -1, -1)]
    rows = {("c", "run"): {name: by_name[name] for name in [*order, "msp"]}}
    drawn = pictures.draw_protocol(PROTOCOLS["unknown-detection"], FIGURES, rows, order)
    picture = next(of for of in drawn if of.name == "risk-coverage-unknown-detection-c")
    (legend,) = picture.figure.legends
    names = [text.get_text().partition(" (")[0] for text in legend.get_texts()]
    assert names == ["D7", "D6", "D5", "D4", "D3", "msp", "3 others"], "in the order of all tables, the worst named"


def test_any_name_of_a_detector_is_drawn_as_it_is(tmp_path):
    names = ["$x^{$", "__proto__", "_nolegend_", "a_b$c$"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind, figure in drawn(names, title="$y^{$", panels=4).items():
            plots.save(figure, tmp_path, kind)
            assert {"$y^{$", *names} <= {text.strip() for text in svg_texts(tmp_path / f"{kind}.svg")}, kind


def test_bars_that_are_cut_say_so():
    spread = np.r_[np.linspace(0, 1, 500), np.full(500, 50.0)]
    figure = plots.plot_densities(
        {"D": {"in_distribution": np.linspace(0, 1, 900), "far_ood": spread}}, title="Scores"
    )
    assert [text.get_text() for text in figure.axes[0].texts] == ["cut, up to 50 %"]


@pytest.mark.parametrize("value", np.linspace(0, 1, 11))
def test_the_text_of_every_cell_is_readable(value):
    """By the contrast of WCAG 2, worked out here: 4.5 to 1 for small text."""
    figure = plots.plot_heatmap(pd.DataFrame({"x": [value]}, index=["a"]), title="Map", bar="%")
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
    bars = drawn()["heatmap"]
    first, second = (plots.inline_svg(bars, name) for name in ("one", "two"))
    assert first.startswith("<svg")
    assert "currentColor" in first
    assert plots.INK not in first
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (first, second)]
    assert not ids[0] & ids[1]
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', first))
    assert used <= ids[0]


@pytest.mark.parametrize("panels", [1, 5])
def test_no_words_are_cut(panels):
    """Of titles, legends and axes, with long names and few panels."""
    from matplotlib.text import Text

    title = "Densities of scores by role on facets-wordnet-t45, resnet50-of-places365-with-a-long-name-seed-3"
    figures = drawn([f"a detector of number {number}" for number in range(panels)], title, panels)
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

    plots.save(plots.plot_heatmap(pd.DataFrame({"x": [0.5]}, index=["a"]), title="t", bar="x"), tmp_path, "one")
    with matplotlib.rc_context({"font.size": 30, "savefig.dpi": 10, "svg.fonttype": "path"}):
        plots.save(plots.plot_heatmap(pd.DataFrame({"x": [0.5]}, index=["a"]), title="t", bar="x"), tmp_path, "two")
        assert matplotlib.rcParams["font.size"] == 30
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


@pytest.mark.parametrize("score", [0.0, 1.7e308], ids=["equal", "greatest"])
def test_scores_that_are_all_equal_or_the_greatest_that_there_are_are_drawn_too(score, tmp_path):
    flat = {"flat": {"in_distribution": np.full(5, -score), "near_ood": np.full(4, score)}}
    plots.save(plots.plot_densities(flat, title="Flat"), tmp_path, "flat")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flat.png", "flat.svg"]
