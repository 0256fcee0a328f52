"""Extracts features: runs a model over splits of a release, stores the outputs, and writes the model's receipt.

Tested by `tests/evaluation/features/test_receipt.py`.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.executors.base import Executor
from builders.storage.text_files import read_csv
from unknown_detection.evaluation.errors import EvaluationError, a_kind, evaluation_errors, require_known
from unknown_detection.evaluation.features.runner import ComputeParts, Opening, Runner, fill, on_a_cluster, outputs_of
from unknown_detection.evaluation.features.store import FeatureStore, Identity
from unknown_detection.evaluation.files import VERIFY
from unknown_detection.evaluation.models.models import Model, open_model
from unknown_detection.evaluation.models.text import Texts, has_texts, texts_of
from unknown_detection.evaluation.releases import Key, Release, load
from unknown_detection.terminal.interrupts import stopping_says
from unknown_detection.terminal.progress import Log, bar
from unknown_detection.words import first_few, quantity

TEST = "test"
"""Name of the splits whose labelled rows the accuracy is taken on."""

TOLERANCE = 1.0
"""Points of accuracy by which a model may differ from its published figure beside chance; ours. Published figures have
two decimals, and other decoders or library versions move them by a tenth or two."""

QUANTILE = 1.96
"""Standard errors that chance may add: the normal distribution has 95 % within."""


def extract(
    model: Any,
    release: str | Path | Release,
    splits: str | Iterable[str | Key] | None = None,
    *,
    cache: str | Path | None = None,
    preprocessing: Any = None,
    weights: str | Path | None = None,
    pretrained: bool = False,
    classes: str | Path | Mapping[str, Any] | None = None,
    prompts: Sequence[str] = (),
    negatives: bool = False,
    accuracy: float | None = None,
    accept: bool = False,
    device: str = "auto",
    batch_size: int = 64,
    workers: int | None = None,
    executor: Executor | None = None,
    share: str | None = None,
    dry_run: bool = False,
    quiet: bool = False,
    log: Log = lambda text: None,
) -> FeatureStore:
    """Extract features of a release with a model, in one forward pass per image.

        >>> features = ud.extract(model, "build/digits", "digits,digits-train")
        >>> features["digits/test"].logits.shape
        (180, 6)

    Stores each image's logits, penultimate features (the input of the last linear layer) and pooled block outputs. An
    interrupted call resumes, and images that the folder already has from another split are not run again. Images that
    the release says are prepared for a model's input are used as they are stored if the model has this input, and
    resized otherwise.

    At a fixed batch size, a row's features do not depend on the number of workers, on the other rows or on their
    order, except for the last digit of very small layers (a 10 x 4 matrix), which may change with the row's place in
    the batch. Another batch size, number of threads or device changes the order of summation: with the test models on
    a CPU, features differ by less than 1e-5 of a column's largest value.

    Args:
        model: a `torch.nn.Module` or a `TextModel`, which are copied and left as they are; or `timm:NAME`,
            `torchvision:NAME`, `transformers:ORG/NAME[@COMMIT]`, `open_clip:ORG/NAME[@COMMIT]` or `FILE.py:FUNCTION`,
            a function that returns one. Features are bound to it by the digest of its weights, its code's name and
            what is known of its preprocessing, and by its logits of fixed inputs.
        release: a release, or its folder or ORG/NAME on the Hub.
        splits: `CONFIG[/SPLIT],...`, or several of `CONFIG`, `CONFIG/SPLIT` and (config, split); None for all. Their
            configs must have the same classes.
        cache: folder for the features; later calls on the same model and release add splits to it. None for one that
            is deleted with what is returned.
        preprocessing: any callable from an RGB PIL image to a float32 tensor of shape (3, H, W), or one of
            torchvision's weights; `ToTensor()` alone where all images have one size. None for the model's attribute
            `preprocessing`, else what timm says of its model.
        weights: file of the weights of a model by name, .safetensors or a state dict saved by torch; None for a
            function that loads them.
        pretrained: take the weights that are published under the model's name.
        classes: CSV with the columns `class,index`, or a dictionary, that maps the release's classes to the logits of
            a model by name that has more; not needed for heads of ImageNet where the classes are wnids, or the labels
            of transformers. For a text model the columns are `class,name` instead: what prompts say in place of the
            classes' names.
        prompts: of a text model: what the name of a class is put into at {}, in place of its own prompts, such as
            'a photo of a {}.'; of several, the embedding of a class is the mean.
        negatives: also embed negative labels for `neglabel`, chosen by NegMining among WordNet's nouns without the
            classes and their kinds; the folder lists them in `negatives.csv`, and in `excluded.csv` what is left out.
        accuracy: published top-1 accuracy in percent on all classes of the model, by default what its metadata says.
        accept: go on where the accuracy on known test rows differs from the published one by over one point and 1.96
            standard errors of so many rows; features and the warnings of reports say so.
        device: where to run: `cpu`, `cuda`, `cuda:1` and so on, `mps`, or `auto`: that of a module that is not on the
            CPU, else CUDA if this machine has it.
        batch_size: images per batch.
        workers: worker processes that decode images, on which results do not depend; 0 for the main process. By
            default one per core, and of each task of an `executor` none on the CPU and four with a GPU.
        executor: runs the model in tasks, on a cluster for instance. The model is then one by name, and so are its
            tasks' devices, `cpu`, `cuda` or `auto`; which of them `auto` is, this machine decides.
        share: `K/N` computes every N-th part of the images, from the K-th on, so that N machines that see one disk
            fill one folder; the same call without it afterwards finds all there, and checks the accuracy.
        dry_run: check the inputs and say what would be extracted; write nothing.
        quiet: draw no progress bars.
        log: receives lines about the model, each split and the receipt.

    Returns:
        The features by `config/split`, for `score`.

    Raises:
        EvaluationError: the model cannot be opened or run, its accuracy on known test rows differs from the published
            one, an image cannot be decoded, a result is not finite, the device has no memory for a batch, there
            is no such split, the configs' classes differ, or the folder has features of another release or model.
        TypeError: the model, the release or a file is something else.
        BuildError: a task of an `executor` fails.
    """
    if batch_size < 1 or (workers or 0) < 0:
        raise EvaluationError(
            f"A batch has at least one image, and workers are 0 or more; found batch_size={batch_size} and "
            f"workers={workers}. Give others."
        )
    of_all = re.fullmatch(r"0*([1-9]\d*)/0*([1-9]\d*)", "1/1" if share is None else share)
    if of_all is None or int(of_all[1]) > int(of_all[2]):
        raise EvaluationError(f"A share is the K-th of N parts as K/N, such as 1/4; found {share}. Give another.")
    opened = load(release)
    chosen = opened.choose(splits)
    names = _one_label_set(opened, [config for config, _ in chosen])
    if not isinstance(weights, str | Path | None):
        raise TypeError(f"weights= takes a file, not {a_kind(weights)}. Write one, and give its path.")
    if not isinstance(classes, str | Path | Mapping | None):
        raise TypeError(f"classes= takes a file or a dictionary, not {a_kind(classes)}. Give one.")
    file = None if weights is None else Path(weights)
    labels = Path(classes) if isinstance(classes, str) else classes
    if executor is not None:
        if not isinstance(model, str) or preprocessing is not None:
            raise EvaluationError("An executor's tasks open the model themselves: give its name, and its weights.")
        device, workers = on_a_cluster(device, workers)
    # For tasks it is opened here to say what it is, and this machine may have no GPU.
    place = device if executor is None else "cpu"
    texts = Texts(lambda: class_texts(opened, [config for config, _ in chosen], names, labels), prompts)
    how: dict[str, Any] = {"pretrained": pretrained, "preprocessing": preprocessing, "classes": labels, "texts": texts}
    ready = open_model(model, file, names, **how, device=place, images=lambda: opened.images(*chosen[0]).image(0).size)
    if (negatives or prompts) and not has_texts(ready.module):
        raise EvaluationError(f"{ready.name} reads no texts. Leave negatives= and prompts= out, or give a text model.")
    identity = identify(opened, ready, names, accuracy)
    root = None if cache is None else Path(cache)
    existing = None if root is None else FeatureStore.check(root, identity)
    _describe(opened, ready, ready.device if executor is None else device, identity, chosen, log)
    if dry_run:
        size = sum(4 * values.shape[1] for values in outputs_of(ready, ready.probe).values()) + 8  # the label
        for key in chosen:
            rows = opened.rows(*key)["id"]
            complete = existing is not None and existing.table.has("/".join(key), rows).all()
            to_do = "there already" if complete else f"{len(rows):,} images, {len(rows) * size:,} bytes"
            log(f"{'/'.join(key)}: {to_do}")
        return existing or FeatureStore(root or Path(), identity)
    runner = Runner(opened, ready, batch_size, workers)
    if executor is not None:
        import torch

        source, spec = (opened.source, opened.revision, opened.digest), (model, file, names, pretrained, labels)
        threads = torch.get_num_threads()
        runner.opening = Opening(source, spec, ready.digest, device, threads, texts_of(ready.module))
        executor.run([ComputeParts(runner, outputs_of, None, Path(), "", chosen[0], ())], lambda images, size: None)
    store = FeatureStore.begin(root, identity, ready.head)
    store.runner = runner if executor is None else None
    asked = {(config, split) for config, of in store.by_config().items() for split in of} | {*chosen}
    _require_one_image_an_id(opened, asked)
    kept = "what is finished is kept. Run the same command again to continue." if root else "nothing was kept."
    with store.writing() if share is None else contextlib.nullcontext(), stopping_says(f"stopped; {kept}"):
        store.ask({key: opened.rows(*key) for key in chosen})
        # Tests first: a wrong receipt ends the run before the rest is computed.
        for is_test in (True, False):
            keys = [key for key in chosen if (key[1] == TEST) is is_test]
            rows = sum(len(opened.rows(*key)) for key in keys)
            title = "/".join(keys[0]) if len(keys) == 1 else quantity(len(keys), "split")
            with bar(rows, title, quiet=quiet) as shown:
                mine = int(of_all[1]), int(of_all[2])
                computed = fill(runner, outputs_of, store.table, keys, shown.update, executor=executor, share=mine)
            for key, count in computed.items():
                rows = len(opened.rows(*key))
                log(
                    f"{'/'.join(key)}: "
                    + (f"{count:,} of {rows:,} images" if count or share else f"there already, {rows:,} images")
                )
            if is_test:
                _check_accuracy(store, keys, accept, log)
        if negatives:
            from unknown_detection.evaluation.features.negatives import write_negatives  # reads WordNet

            write_negatives(store, ready, log, quiet=quiet)
    return store


@evaluation_errors()
def class_texts(
    release: Release, configs: Sequence[str], names: Sequence[str], given: Path | Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Return what prompts say for each class, with spaces for underscores.

    It is the label, or where the label is an id of the source, such as a wnid, the class's name in the rows of some
    configs; or as is given, in a CSV with the columns class,name.
    """
    texts = {name: name for name in names}
    for key in release.pairs(configs):
        rows = release.rows(*key).select(["class_id", "class_name"])
        rows = rows.filter(pc.is_in(rows["class_id"], value_set=pa.array(names)))
        texts |= dict(zip(*rows.to_pydict().values(), strict=True))
    if isinstance(given, Path):
        given = {cells["class"]: cells["name"] for _, cells in read_csv(given, ("class", "name"), "Write it so.")}
    require_known("class of the release", given or (), texts)
    return tuple(str(text).replace("_", " ") for text in ({**texts, **(given or {})}[name] for name in names))


def _check_accuracy(store: FeatureStore, keys: Sequence[Key], accept: bool, log: Log) -> None:
    """Log a model's receipt, and check it; with shares it is that of the splits that are complete."""
    complete = store.by_config()
    test_receipt = receipt(store, [key for key in keys if key[1] in complete.get(key[0], ())])
    if accept:
        store.accept(test_receipt.differences)
    test_receipt.require(store.identity.accepted)
    for line in test_receipt.lines:
        log(line)


def identify(release: Release, model: Model, label_names: tuple[str, ...], accuracy: float | None = None) -> Identity:
    """Return the identity of a model's features of a release."""
    texts, prompts = texts_of(model.module)
    sides = {"/".join(key): release.prepared(*key) for key in release.pairs()}
    return Identity(
        release_digest=release.digest,
        model=model.name,
        model_digest=model.digest,
        label_names=label_names,
        blocks=model.layers.blocks,
        preprocessing=model.preprocessing.description,
        prepared={key: model.preprocessing.describe_prepared(side) for key, side in sides.items() if side},
        source=dict(model.source) | ({} if accuracy is None else {"accuracy": f"{accuracy:g}"}),
        linear=model.layers.linear,
        probed=model.probed,
        texts=texts,
        prompts=prompts,
    )


def _describe(release: Release, model: Model, device: str, identity: Identity, keys: Sequence[Key], log: Log) -> None:
    """Log what is extracted, and what is unusual about the model."""
    log(f"release  {release.name}, digest {release.digest[:12]}")
    log(f"model    {model.name} on {device}, digest {model.digest[:12]}")
    layer, blocks = model.layers.head or model.layers.blocks[-1], ", ".join(identity.blocks) or "none"
    log(f"features {len(identity.label_names)} logits, and what goes into {layer}; blocks {blocks}")
    if not model.layers.linear:
        log("         the logits are no linear layer's, so detectors that read its weights cannot be used")
    if again := [name for name in dict.fromkeys(identity.texts) if identity.texts.count(name) > 1]:
        log(f"         several classes are called {first_few(again)}; tell them apart with classes=")
    for key in map("/".join, keys):
        if key in identity.prepared:
            log(f"{key}: images of {identity.prepared[key]}")


def _require_one_image_an_id(release: Release, keys: Collection[Key]) -> None:
    """Refuse splits in which an id is of different images: features that one has would be taken for the other's."""
    rows = pa.concat_tables(release.rows(*key).select(["id", "content_sha256"]) for key in sorted(keys))
    contents = rows.group_by("id").aggregate([("content_sha256", "count_distinct")])
    repeated = contents.filter(pc.greater(contents["content_sha256_count_distinct"], 1))["id"]
    if len(repeated):
        raise EvaluationError(
            f"{release.name} has {quantity(len(repeated), 'id')} of different images, for instance {repeated[0]}. "
            f"{VERIFY}"
        )


def _one_label_set(release: Release, configs: Sequence[str]) -> tuple[str, ...]:
    """Return the classes of some configs, which must be the same."""
    first = release.label_names(configs[0])
    for config in configs[1:]:
        if release.label_names(config) != first:
            raise EvaluationError(
                f"{config} and {configs[0]} have different classes, so one model cannot be run on both. Extract them "
                "separately, into different folders."
            )
    return first


@dataclass(frozen=True)
class Receipt:
    """What is known of a model (`lines`), and where its accuracy is too far from a published one (`differences`)."""

    lines: list[str]
    differences: list[str]

    def require(self, accepted: Collection[str]) -> None:
        """Check that every difference was accepted; `EvaluationError` otherwise."""
        for difference in self.differences:
            if difference not in accepted:
                raise EvaluationError(
                    f"{difference}. Check the weights, their preprocessing and the order of the classes, or go on "
                    "with accept=True."
                )


def tolerance(published: float, rows: int) -> float:
    """Return by how many percentage points an accuracy on so many rows may differ from the published one.

    Beside `TOLERANCE`, these are `QUANTILE` standard errors of a share p of n independent rows, sqrt(p (1 - p) / n),
    where p is the published accuracy: the test of a proportion by its score (Wilson, "Probable inference, the law of
    succession, and statistical inference", Journal of the American Statistical Association 22, 1927).
    """
    share = published / 100
    return TOLERANCE + QUANTILE * 100 * math.sqrt(share * (1 - share) / rows)


def receipt(store: FeatureStore, keys: Iterable[Key]) -> Receipt:
    """Collect what is known of a model, with its accuracy on the known rows of each split named `TEST`.

    The published accuracy is one on all classes of the model. It is compared only where every class of the model
    is a class of the release and has rows: among fewer classes a model is right more often.
    """
    identity = store.identity
    source = dict(identity.source)
    published, logits, width = (source.pop(name, "") for name in ("accuracy", "logits", "width"))
    lines = [f"weights  {', '.join(f'{name} {text}' for name, text in sorted(source.items()))}"] if source else []
    lines.append(f"input    {', '.join(f'{name} {value}' for name, value in sorted(identity.preprocessing.items()))}")
    lines += [f"prompts  {' | '.join(identity.prompts)}"] if identity.prompts else []
    classes = len(identity.label_names)
    differences = []
    for config, split in keys:
        if split != TEST:
            continue
        features = store.features(config, split)
        known = features.labels >= 0
        labels = features.labels[known]
        if not len(labels):
            continue
        accuracy = 100 * float(np.mean(features.logits[known].argmax(axis=1) == labels))
        present, model_classes = len(np.unique(labels)), int(width or classes)
        lines.append(f"accuracy {accuracy:.2f} % of {len(labels):,} rows of {config}/{split}")
        if not published:
            continue
        lines[-1] += f"; published: {published} %"
        if not present == classes == model_classes:
            lines[-1] += f" on all {model_classes:,} classes, not comparable with {present:,} of them"
        else:
            allowed = tolerance(float(published), len(labels))
            if abs(accuracy - float(published)) > allowed:
                differences.append(
                    f"{identity.model} is right on {accuracy:.2f} % of the {len(labels):,} rows of {config}/{split}, "
                    f"but {published} % are published for its weights, {allowed:.1f} points more or less allowed"
                )
    if logits:
        lines.append(f"classes  {classes:,} of the model's {int(width):,} logits")
    return Receipt(lines, differences)
