"""Renders templates to pages that need no other file and no network."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from unknown_detection import words
from unknown_detection.pages import content

_HERE = Path(__file__).parent


def render_template(
    template: str, /, *, folders: Sequence[Path] = (), style: str = "", script: str = "", **context: Any
) -> str:
    """Render a template to a page.

    Args:
        template: its file name, in one of the folders or in this package.
        folders: further folders with templates, searched first. Their templates may extend `base.html.j2`, import
            `macros.html.j2` and include each other.
        style: CSS of the template's own.
        script: JavaScript of the template's own, which runs after ours.
        context: the names that the template uses. `base.html.j2` needs `title` and `contents`
            (`unknown_detection.pages.content.Entry`s), and shows `lead` and `made_by` if they are given.

    All text is escaped, but for `markupsafe.Markup`.
    """
    scripts = [Markup(text) for text in (_text("script.js"), script) if text]
    own = {"page_style": Markup(_text("style.css") + style), "page_scripts": scripts, "page_policy": _policy(scripts)}
    return _environment(tuple(folders)).get_template(template).render(**own, **context)


@functools.cache
def _environment(folders: tuple[Path, ...]) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, _HERE]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "as_cell": content.as_cell,
        "byte_text": words.byte_text,
        "quantity": words.quantity,
        "safe_href": content.safe_href,
        "shown": content.display_text,
    }
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "ensure_ascii": False}
    environment.globals["anchor"] = content.anchor
    return environment


@functools.cache
def _text(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _policy(scripts: Iterable[str]) -> str:
    """Return the Content-Security-Policy: no network, and only the scripts with these digests.

    Inline styles are allowed, since inline SVG has some; without a network they can send nothing.
    """
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
