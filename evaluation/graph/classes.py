"""Classes of several datasets, and columns of class names.

A class is written with its dataset, `DATASET:CLASS`, such as `imagenet:n03388043` or `places365:fountain`. Scene
datasets keep a class in a folder of its first letter, which is not part of the name: `places365:/f/fountain`,
`places365:f/fountain` and `places365:fountain` are the same class.

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
from evaluation.scoring.scores import summarize_ids

_FOLDER = re.compile(r"/?([a-z])/(?=\1)")
_INDEX = re.compile(r"-?\d+", re.ASCII)


@dataclass(frozen=True)
class Class:
    """A class of a dataset.

    Attributes:
        dataset: name of the dataset, such as `places365`.
        class_id: the dataset's own name of it, without the folder of its first letter.
        name: display name, by which classes of different datasets are compared; the `class_id` if no other is known.
    """

    dataset: str
    class_id: str
    name: str

    @property
    def key(self) -> str:
        """`DATASET:CLASS`, unique among all classes."""
        return f"{self.dataset}:{self.class_id}"


@dataclass(frozen=True, eq=False)
class ClassColumn:
    """A class for each of n rows.

    Attributes:
        classes: the distinct classes, in order of first occurrence.
        codes: index of each row's class, shape (n,).
    """

    classes: Sequence[Class]
    codes: npt.NDArray[np.int64]


def make_class(dataset: str, class_id: str, name: str | None = None) -> Class:
    """Return a class from its dataset's own name for it, and its display name if it has one."""
    plain = _without_folder(class_id)
    return Class(dataset, plain, _without_folder(name) if name else plain)


def read_class(text: str) -> Class | None:
    """Parse `DATASET:CLASS`; None for any other text."""
    dataset, _, class_id = (part.strip() for part in text.partition(":"))
    return make_class(dataset, class_id) if dataset and class_id else None


def label_parser(labels: Mapping[str, Class], *, indices: bool) -> Callable[[str], Class | None]:
    """Return a parser for texts that name one of some labels.

    Args:
        labels: classes by label name, in label order.
        indices: whether integers are label indices; if not, they are treated as names.

    Returns:
        A function that maps a label's name, with or without dataset and folder, or its index to the class; None for
        other texts.
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
    """Parse a column of class names.

    Args:
        table: table with `id` and the column.
        column: name of the column.
        read: parses a class name, None if there is no such class; called once per distinct text.
        expected: valid values of the column, for messages.
        where: the file, for messages.

    Raises:
        EvaluationError: a row is empty or does not name a class.
    """
    if table[column].null_count:
        raise EvaluationError(
            f"{where} has lines without a {column}: {summarize_ids(table['id'].filter(pc.is_null(table[column])))}. "
            "Fill them."
        )
    texts, codes = factorize(table[column])
    found = [read(text) for text in texts]
    wrong = np.array([one is None for one in found])[codes]
    if wrong.any():
        raise EvaluationError(
            f"The {column} in {where} does not name a class: {texts[codes[wrong][0]]!r} and the like at "
            f"{summarize_ids(table['id'].filter(pa.array(wrong)))}. Give {expected}."
        )
    return ClassColumn([one for one in found if one is not None], codes)


def factorize(values: pa.ChunkedArray) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the distinct texts in order of first occurrence, and each row's index into them."""
    encoded = values.combine_chunks().dictionary_encode()
    return encoded.dictionary.to_pylist(), np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _without_folder(class_id: str) -> str:
    found = _FOLDER.match(class_id)
    return class_id[found.end() :] if found else class_id
