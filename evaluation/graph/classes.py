"""Classes of several datasets by name, and columns of them.

A class is named with its dataset, `DATASET:CLASS`, such as `imagenet:n03388043` or `places365:fountain`. Scene sets
put a class into a folder of its first letter. That letter is no part of the name: `places365:/f/fountain`,
`places365:f/fountain` and `places365:fountain` are one class.

Tested by `tests/evaluation/graph/test_transitions.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evaluation.errors import EvaluationError
from evaluation.scoring.scores import shown

_FOLDER = re.compile(r"/?([a-z])/(?=\1)")
_INDEX = re.compile(r"-?\d+", re.ASCII)


@dataclass(frozen=True)
class Class:
    """A class of a dataset.

    Attributes:
        dataset: such as `places365`.
        class_id: what the dataset calls it, without the folder of its first letter.
        name: its name for people, by which classes of different datasets are the same or not; the `class_id` where
            nothing else is known.
    """

    dataset: str
    class_id: str
    name: str

    @property
    def key(self) -> str:
        """`DATASET:CLASS`, which no other class has."""
        return f"{self.dataset}:{self.class_id}"


@dataclass(frozen=True, eq=False)
class ClassColumn:
    """A class for each of n rows.

    Attributes:
        classes: those that occur, in the order in which they first do.
        codes: of each row the place among them, shape (n,).
    """

    classes: Sequence[Class]
    codes: npt.NDArray[np.int64]


def make_class(dataset: str, class_id: str, name: str | None = None) -> Class:
    """A class by what its dataset calls it, and by its name for people if it has one."""
    plain = _without_folder(class_id)
    return Class(dataset, plain, _without_folder(name) if name else plain)


def read_class(text: str) -> Class | None:
    """The class that `DATASET:CLASS` names; None for any other text."""
    dataset, _, class_id = (part.strip() for part in text.partition(":"))
    return make_class(dataset, class_id) if dataset and class_id else None


def read_label(labels: Mapping[str, Class], *, indices: bool) -> Callable[[str], Class | None]:
    """How to find the class that a text names among some labels.

    Args:
        labels: classes by the names of their labels, in the order of these.
        indices: whether whole numbers are indices of labels; if not, they are names as any text.

    Returns:
        A function of a label's name with or without dataset and folder, or of its index; it gives None for others.
    """
    by_index = list(labels.values())
    spelled: dict[str, Class] = {}
    for label, found in labels.items():
        for text in (label, found.class_id):
            spelled |= {text: found, f"{found.dataset}:{text}": found}

    def read(text: str) -> Class | None:
        if indices and _INDEX.fullmatch(text):
            return by_index[int(text)] if 0 <= int(text) < len(by_index) else None
        return spelled.get(text)

    return read


def read_column(
    table: pa.Table, column: str, read: Callable[[str], Class | None], *, expected: str, where: str
) -> ClassColumn:
    """Read a column of texts that name classes.

    Args:
        table: with `id` and the column.
        column: its name.
        read: finds the class that a text names, None if there is none; called once for each distinct text.
        expected: what stands in the column, for messages.
        where: the file, for messages.

    Raises:
        EvaluationError: a row has nothing in the column, or what names no class.
    """
    if table[column].null_count:
        raise EvaluationError(
            f"expected a {column} in every line of {where}, found none at "
            f"{shown(table['id'].filter(pc.is_null(table[column])))}; fill them."
        )
    texts, codes = coded(table[column])
    found = [read(text) for text in texts]
    wrong = np.array([one is None for one in found])[codes]
    if wrong.any():
        raise EvaluationError(
            f"expected {expected} as {column} in {where}, found {texts[codes[wrong][0]]!r} and the like at "
            f"{shown(table['id'].filter(pa.array(wrong)))}; name a class."
        )
    return ClassColumn([one for one in found if one is not None], codes)


def coded(values: pa.ChunkedArray) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Distinct texts in the order in which they first come, and of each row the place among them."""
    encoded = values.combine_chunks().dictionary_encode()
    return encoded.dictionary.to_pylist(), np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _without_folder(class_id: str) -> str:
    found = _FOLDER.match(class_id)
    return class_id[found.end() :] if found else class_id
