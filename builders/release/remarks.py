"""Collects what Pillow and libtiff remark on images; they print it on stderr without the file's name.

Pillow warns and logs; libtiff, in C, has handlers for its warnings and errors. Where libtiff is not a shared library,
as in Pillow's wheels for Windows, its lines stay on stderr.

Tested by `tests/builders/release/test_remarks.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from PIL import Image

from builders.errors import one_line
from unknown_detection.words import quantity

_PILLOW = "PIL"

_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)
"""libtiff's `TIFFErrorHandler`: a function's name, a format of `printf`, and its arguments (tiffio.h)."""

_CONVERSION = re.compile(r"%[-+ #0-9.*]*[hlLjztI0-9]*[a-zA-Z]")
"""A conversion of `printf`. The arguments are not formatted, since how they are passed differs between platforms."""


@dataclass
class ImageRemarks:
    """What decoders remarked: on how many images, and the first image with its first remark.

    `heard` is the first remark since the last call of `assign`.
    """

    images: int = 0
    first: str = ""
    heard: str = ""

    def assign(self, place: str) -> None:
        """Attribute what was heard since the last call to one image; `place` says where it is."""
        self.images += 1
        self.first = self.first or f"{one_line(place)} ({self.heard})"
        self.heard = ""


class RemarksOfThread(threading.local):
    """What decoders remarked first in the thread that asks, since it was last set to nothing."""

    heard = ""


class _Hearing(Protocol):
    """Where remarks go; the first one stays."""

    heard: str


def summary(remarks: Iterable[ImageRemarks]) -> str:
    """Summarise in one line on how many images there are remarks, with the first; empty if there are none."""
    found = [some for some in remarks if some.images]
    if not found:
        return ""
    return f"Pillow warns of {quantity(sum(some.images for some in found), 'image')}, such as {found[0].first}"


@contextlib.contextmanager
def collect_remarks(hearing: _Hearing | None = None) -> Iterator[ImageRemarks]:
    """Collect the remarks of decoders inside the block, in all threads of this process, or have `hearing` hear them.

    Nothing of them reaches stderr. Warnings of others are shown as before.
    """
    remarks = ImageRemarks()
    heard = remarks if hearing is None else hearing

    def add(text: object) -> None:
        heard.heard = heard.heard or one_line(text)

    with warnings.catch_warnings(), _logged(add), _libtiff_handled(add):
        shown = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], filename: str, *place: Any, **others: Any) -> None:
            if _PILLOW in Path(filename).parts:
                add(message)
            else:
                shown(message, category, filename, *place, **others)

        warnings.filterwarnings("always", module=rf"{_PILLOW}\.")
        warnings.showwarning = show
        yield remarks


@contextlib.contextmanager
def _logged(add: Callable[[object], None]) -> Iterator[None]:
    """Have Pillow's log messages added, which Python prints where nobody has set up logging."""
    logger, handler = logging.getLogger(_PILLOW), logging.Handler(logging.WARNING)
    handler.emit = lambda record: add(record.getMessage())  # type: ignore[method-assign]
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates


@contextlib.contextmanager
def _libtiff_handled(add: Callable[[object], None]) -> Iterator[None]:
    """Have libtiff's warnings and errors added."""

    def handle(module: bytes | None, text: bytes | None, _: object) -> None:
        told = b": ".join(part for part in (module, text) if part).decode("utf-8", "replace")
        add(_CONVERSION.sub("...", told))

    handler = _HANDLER(handle)
    setters = _libtiff_setters()
    earlier = [setter(ctypes.cast(handler, ctypes.c_void_p)) for setter in setters]
    try:
        yield
    finally:
        for setter, before in zip(setters, earlier, strict=True):
            setter(before)


@functools.cache
def _libtiff_setters() -> tuple[Callable[[Any], Any], ...]:
    """Return the functions that set the handlers of the libtiff that Pillow has loaded; none if there is none."""
    try:
        # A look-up in Pillow's module also finds what the libraries have that it is linked with.
        pillow = ctypes.CDLL(Image.core.__file__)  # type: ignore[attr-defined]
        setters = pillow.TIFFSetWarningHandler, pillow.TIFFSetErrorHandler
    except (AttributeError, OSError):
        return ()
    for setter in setters:
        setter.restype, setter.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    return setters
