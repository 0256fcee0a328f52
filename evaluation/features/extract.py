"""One pass of a model over splits of a release, kept for all detectors."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.errors import EvaluationError
from evaluation.features.blocks import Parts
from evaluation.features.reuse import Earlier
from evaluation.features.store import Identity, Store, block_column
from evaluation.models.loading import batches
from evaluation.models.models import Model
from evaluation.releases import Release

ROWS = 512
"""Rows of a part, rounded up to whole batches. A killed run loses at most the part in the making."""

Columns = Mapping[str, npt.NDArray[Any]]
Look = Callable[[Any, Sequence[str]], Columns]
"""Called with preprocessed images (B, 3, H, W) on the CPU and their ids; gives columns of B rows."""

Advance = Callable[[int], object]
"""Called with the number of images done since the last call."""


@dataclass(frozen=True)
class Done:
    """How many images were looked at, and how many more had been seen in other splits."""

    looked: int
    taken: int


@dataclass(frozen=True)
class Runner:
    """Shows a model the images of a release.

    Attributes:
        release: the release.
        model: the model.
        batch_size: images at a time.
        workers: processes that decode images; 0 decodes in this one.
    """

    release: Release
    model: Model
    batch_size: int = 64
    workers: int = 0

    @property
    def computed(self) -> dict[str, Any]:
        """All that numbers depend on besides the model and the image: each of these may change their last digits."""
        import torch

        cuda = self.model.device == "cuda"
        return {
            "device": torch.cuda.get_device_name() if cuda else f"cpu {platform.machine()}",
            "batch_size": self.batch_size,
            "threads": 0 if cuda else torch.get_num_threads(),
            "torch": str(torch.__version__),
        }

    def run(
        self,
        look: Look,
        parts: Parts,
        config: str,
        split: str,
        advance: Advance,
        others: Iterable[Parts] = (),
    ) -> Done:
        """Look at every image of a split, in the release's order, and keep what is seen; what is there stays.

        Args:
            look: what to do with a batch. A row's columns must not depend on the rows beside it.
            parts: where to keep its columns, beside `id` and `label`.
            config: the split's config.
            split: its name.
            advance: progress; called first with the number of rows that are there already.
            others: what the same look left of other splits; an image that one of them has is not looked at again.

        Raises:
            EvaluationError: the release lacks the images, one cannot be decoded, or what is seen is not finite.
        """
        rows = self.release.rows(config, split)
        size = -(-ROWS // self.batch_size) * self.batch_size
        missing = parts.begin(len(rows), size, self.computed)
        advance(len(rows) - sum(map(len, missing)))
        if not missing:
            return Done(0, 0)
        ids, labels = np.array(rows["id"].to_pylist()), rows["label"].to_numpy()
        earlier = Earlier(ids.tolist(), others, self.computed)
        new = [np.flatnonzero(~earlier.has[part.start : part.stop]) + part.start for part in missing]
        images = batches(
            self.release.images(config, split),
            self.model.preprocessing,
            [numbers.tolist() for numbers in new],
            batch_size=self.batch_size,
            workers=self.workers,
        )
        for part, numbers in zip(missing, new, strict=True):
            everyone = np.arange(part.start, part.stop)
            old = everyone[earlier.has[everyone]]
            seen = [earlier.take(old)] if len(old) else []
            advance(len(old))
            seen += self._look(look, images, len(numbers), ids, advance)
            order = np.argsort(np.concatenate([old, numbers]))
            joined = {name: np.concatenate([columns[name] for columns in seen])[order] for name in seen[0]}
            own = {"id": ids[everyone], "label": labels[everyone]}
            parts.write(part, own | joined, len(rows), self.computed)
        looked = sum(map(len, new))
        return Done(looked, sum(map(len, missing)) - looked)

    def _look(
        self,
        look: Look,
        images: Iterator[tuple[Sequence[int], Any]],
        count: int,
        ids: npt.NDArray[np.str_],
        advance: Advance,
    ) -> Iterator[Columns]:
        """What is seen of the next images, batch by batch, until there are `count`."""
        done = 0
        while done < count:
            numbers, batch = next(images)
            names = ids[list(numbers)].tolist()
            columns = look(batch, names + names[-1:] * (len(batch) - len(names)))
            own = {name: values[: len(names)] for name, values in columns.items()}
            _check_finite(own, names, self.model.name)
            yield own
            done += len(names)
            advance(len(names))


def identity(release: Release, model: Model, label_names: tuple[str, ...]) -> Identity:
    """What features of a release and a model are of.

    Args:
        release: the release.
        model: the model.
        label_names: the classes of the configs that it is run on.
    """
    about = model.preprocessing.about
    return Identity(release.digest, model.name, model.digest, label_names, model.layers.blocks, about)


def extract(runner: Runner, store: Store, config: str, split: str, advance: Advance) -> Done:
    """Run the model over a split and keep logits, penultimate features and pooled blocks as float32.

    An image that another split of the store has is not run again.

    A row's numbers do not depend on the number of workers, and at one batch size neither on the other rows nor on
    their order, but for the last digit of what very small layers compute (a matrix of 10 x 4), which may change with a
    row's place in the batch. With another batch size or number of threads, or on another device, sums are taken in
    another order: with the models that tests run on a CPU, numbers differ by less than 1e-5 of a column's largest.

    Args:
        runner: what shows images to the model.
        store: where features go; `Store.writing` is held.
        config: the split's config.
        split: its name.
        advance: progress; called first with the number of rows that are there already.

    Raises:
        EvaluationError: as for `Runner.run`, or the logits do not come from the model's last layer.
    """
    model = runner.model

    def look(images: Any, ids: Sequence[str]) -> Columns:
        seen = model.see(images)
        columns = {"logits": seen.logits, "penultimate": seen.penultimate}
        columns |= {block_column(number): seen.blocks[name] for number, name in enumerate(model.layers.blocks)}
        return {name: values.float().cpu().numpy() for name, values in columns.items()}

    return runner.run(look, store.parts(config, split), config, split, advance, store.others(config, split))


def bytes_a_row(model: Model) -> int:
    """How much disk the features of one row take, ids aside."""
    import torch
    from PIL import Image

    seen = model.see(torch.stack([model.preprocessing(Image.new("RGB", (64, 64)))]))
    widths = [seen.logits.shape[1], seen.penultimate.shape[1], *(block.shape[1] for block in seen.blocks.values())]
    return 4 * int(sum(widths)) + 8


def _check_finite(columns: Columns, ids: Sequence[str], model: str) -> None:
    for name, values in columns.items():
        bad = np.flatnonzero(~np.isfinite(values.reshape(len(ids), -1)).all(axis=1))
        if len(bad):
            raise EvaluationError(
                f"expected finite {name} of {model}, found others for {len(bad):,} images of a batch, the first "
                f"{ids[bad[0]]}; check the weights and that image."
            )
