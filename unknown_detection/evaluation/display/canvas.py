"""Style, sizes, files and SVG elements of all plots; equal figures give equal bytes.

Matplotlib is imported within functions, since tables and figures do not need it.

Tested by `tests/evaluation/display/test_plots.py`.
"""

from __future__ import annotations

import contextlib
import io
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unknown_detection.evaluation.files import atomic_path

COLUMN, PAGE = 3.25, 6.75
"""Widths in inches of one column and of both, in the two-column style of ICML and CVPR."""

DPI = 300
"""Resolution of PNGs in dots per inch."""

ON_SCREEN = 130
"""Pixels per inch on a page, on which 7 points are read easily."""

INK = "#1a1a1a"
"""Colour of words and lines, which on a page follow the colour of its text."""

_STYLE: Mapping[str, Any] = {
    "font.size": 7,
    "axes.titlesize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.linewidth": 0.6,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "text.parse_math": False,  # a detector's name is text, also between dollar signs
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": "#99999955",
    "legend.frameon": False,
    "figure.titlesize": 8,
    "pdf.fonttype": 42,  # fonts that journals accept
    "svg.fonttype": "none",  # keep text as text, for search and screen readers
    "svg.hashsalt": "unknown-detection",
}


@contextlib.contextmanager
def _style() -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


styled = _style()
"""Decorates functions that draw in our style, independent of the user's matplotlib settings."""


@styled
def save(figure: Any, folder: Path, name: str, suffixes: Sequence[str] = (".png", ".svg")) -> None:
    """Write a figure as `name` with each suffix, such as `.png`, `.svg` or `.pdf`."""
    _settle(figure)
    # No dates or versions in the metadata: equal figures produce equal bytes.
    metadata = {
        ".png": {"Software": None},
        ".svg": {"Date": None, "Creator": None},
        ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
    for suffix in suffixes:
        with atomic_path(folder / f"{name}{suffix}") as temporary:
            figure.savefig(temporary, dpi=DPI, metadata=metadata[suffix])


@styled
def inline_svg(figure: Any, name: str) -> str:
    """Return a figure as an SVG element for a page, in the colour of the page's text.

    Its ids begin with `name`, since those of all figures on a page have to differ.
    """
    _settle(figure)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, count=1, flags=re.DOTALL)
    width, height = figure.get_size_inches()
    size = f'width="{ON_SCREEN * width:.0f}" height="{ON_SCREEN * height:.0f}"'
    size += ' class="wide"' if width > COLUMN else ""
    svg = re.sub(r'width="[^"]+" height="[^"]+"', size, svg, count=1)
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)


def legend_label(text: str) -> str:
    """Return a label that a legend shows; matplotlib leaves out those that begin with an underscore."""
    return f" {text}" if text.startswith("_") else text


def readable(color: Any) -> str:
    """Return black or white, whichever is easier to read on a colour: at least 4.5 to 1 (WCAG 2, contrast)."""
    from matplotlib.colors import to_rgb

    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(color)]
    luminance = float(np.dot([0.2126, 0.7152, 0.0722], linear))
    return "black" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "white"


def new_figure(title: str, width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    """Return a figure without a window or global state, and its panels, shape (rows, columns)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    heading = wrap_text(figure, title, width - 0.2, 8)
    figure.set_size_inches(width, height + 0.13 * heading.count("\n"))
    figure.suptitle(heading)
    return figure, figure.subplots(rows, columns, squeeze=False)


def _settle(figure: Any) -> None:
    """Compute the layout once, not for each file."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def wrap_text(figure: Any, text: str, width: float, size: float) -> str:
    """Break text into lines that are at most `width` inches long at a font size."""
    from matplotlib.font_manager import FontProperties

    font, renderer = FontProperties(size=size), figure.canvas.get_renderer()
    for letters in range(int(width * 30), 1, -1):
        lines = textwrap.wrap(text, letters)
        if all(renderer.get_text_width_height_descent(line, font, False)[0] <= width * figure.dpi for line in lines):
            return "\n".join(lines)
    return text
