"""A tiny CLIP end to end: zero-shot accuracy, negative labels byte for byte, and what the three detectors score."""

import csv
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import unknown_detection as ud
from taxonomy.rules.negatives import negative_words
from tests.evaluation import small_clips
from tests.evaluation.extra import torch
from tests.evaluation.samples import CONFIG, LABELS
from tests.evaluation.small_clips import Tiny, of_open_clip, of_transformers, seeded, text_model
from tests.evaluation.small_models import cnn, of_seed
from tests.sentences import stops
from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.extract import class_texts
from unknown_detection.evaluation.scoring.scores import read_scores

pytestmark = pytest.mark.usefixtures("one_thread")

LISTED = ("negatives.csv", "excluded.csv")


def unit(values):
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """The classes' names, which the rows of the release do not tell apart."""
    path = tmp_path_factory.mktemp("names") / "names.csv"
    path.write_text("\n".join(["class,name", *(f"{name},{name}" for name in LABELS)]))
    return path


@pytest.fixture(scope="module")
def extracted(release, names, tmp_path_factory):
    """Features of the tiny model with negatives, and the lines that it said."""
    folder, said, options = tmp_path_factory.mktemp("clip"), [], {"device": "cpu", "workers": 0, "quiet": True}
    torch.set_num_threads(1)
    store = ud.extract(text_model(), release, cache=folder, classes=names, negatives=True, log=said.append, **options)
    return store, said


def lines_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file)]


def test_the_receipt_has_the_zero_shot_accuracy_and_the_prompts(extracted):
    store, said = extracted
    features = store[f"{CONFIG}/test"]
    right = 100 * float(np.mean(features.logits.argmax(axis=1) == features.labels))
    assert f"accuracy {right:.2f} % of 40 rows of {CONFIG}/test" in said
    assert "prompts  a photo of a {}." in said
    assert (store.identity.texts, store.identity.prompts) == (LABELS, ("a photo of a {}.",))


def test_negatives_are_those_of_negmining(extracted):
    """Algorithm 1 again in float64, by torch's quantile as in the authors' code, on the words that taxonomy gives."""
    store, _ = extracted
    words = [*negative_words({name: name for name in LABELS}).words]
    model = seeded(Tiny).double()
    with torch.no_grad():
        embedded, classes = (
            unit(model.encode_text(small_clips.tokenize([f"a photo of a {text}." for text in texts])).numpy())
            for texts in (words, LABELS)
        )
    similar = torch.from_numpy(embedded @ classes.T).quantile(0.95, dim=1).numpy().round(12)
    order = sorted(range(len(words)), key=lambda row: (similar[row], words[row]))[: int(0.15 * len(words))]
    listed = lines_of(store.root / "negatives.csv")
    assert [line["word"] for line in listed] == sorted(words[row] for row in order)
    assert np.allclose(store.head().negatives, embedded[sorted(order)], atol=1e-6)
    excluded = {line["word"]: line["class"] for line in lines_of(store.root / "excluded.csv")}
    assert excluded["green"] == "green"
    assert excluded["azure"] == "blue"
    assert not {*excluded} & {line["word"] for line in listed}


def test_the_list_is_the_same_byte_for_byte_in_another_process(extracted, release, names, tmp_path):
    """Which has other hashes of texts and two threads; a second call writes nothing again."""
    store, _ = extracted
    code = (
        "import sys, torch; torch.set_num_threads(2)\n"
        "how = {'cache': sys.argv[2], 'classes': sys.argv[3], 'negatives': True, 'quiet': True}\n"
        "import unknown_detection as ud\n"
        "from tests.evaluation.small_clips import text_model\n"
        f"ud.extract(text_model(), sys.argv[1], '{CONFIG}/test', **how)\n"
    )
    variables = {**os.environ, "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", code, str(release), str(tmp_path / "again"), str(names)]
    subprocess.run(command, check=True, env=variables)
    for name in LISTED:
        assert (tmp_path / "again" / name).read_bytes() == (store.root / name).read_bytes()
    before = [(store.root / name).stat().st_mtime_ns for name in LISTED]
    ud.extract(text_model(), release, f"{CONFIG}/test", cache=store.root, classes=names, negatives=True, quiet=True)
    assert [(store.root / name).stat().st_mtime_ns for name in LISTED] == before


@pytest.mark.parametrize("make", [Tiny, of_open_clip, of_transformers])
def test_detectors_score_from_what_is_kept(make, extracted, release, names, tmp_path):
    """`gl_mcm` is compared with local and global embeddings of the model itself, in float64."""
    for package in {of_open_clip: ["open_clip"], of_transformers: ["transformers"]}.get(make, []):
        pytest.importorskip(package, reason="makes one of its models")
    asked = ["mcm", "gl_mcm", "msp", "mahalanobis", "knn", *(["neglabel"] if make is Tiny else [])]
    model, folder = text_model(make), extracted[0].root if make is Tiny else tmp_path
    store = ud.extract(model, release, cache=folder, classes=names, device="cpu", workers=0, quiet=True)
    scores = ud.score(store, asked, quiet=True, search=False)
    assert sorted(scores["detector"].unique()) == sorted(asked)
    by_detector = {name: of.set_index("id")["score"] for name, of in scores.groupby("detector")}
    features, head = store[f"{CONFIG}/test"], store.head()
    opened = ud.load(release).images(CONFIG, "test")
    images = torch.stack([model.preprocessing(opened.image(number).convert("RGB")) for number in range(len(features))])
    with torch.no_grad():
        local = store.runner.model.module.local(images).double().numpy()
    powers = np.exp(local @ unit(head.weight.astype(np.float64)).T)
    greatest = (powers / powers.sum(axis=2, keepdims=True)).max(axis=(1, 2))
    expected = by_detector["mcm"][features.ids] - greatest
    assert np.allclose(by_detector["gl_mcm"][features.ids], expected, atol=1e-6)


def test_gl_mcm_needs_embeddings_of_patches(release, tmp_path):
    model = ud.TextModel(seeded(Tiny), small_clips.tokenize, small_clips.PREPROCESSING)
    store = ud.extract(model, release, f"{CONFIG}/test", cache=tmp_path, device="cpu", workers=0, quiet=True)
    with stops(EvaluationError, "encode_local", "gl_mcm"):
        ud.score(store, ["gl_mcm"], quiet=True)


def test_another_function_for_patches_is_another_model(release, names, tmp_path):
    """What gl_mcm kept of the first one was read; no weights tell them apart."""
    options = {"cache": tmp_path, "classes": names, "device": "cpu", "workers": 0, "quiet": True}
    ud.extract(text_model(), release, f"{CONFIG}/test", **options)
    changed = replace(text_model(), encode_local=lambda model, images: -small_clips.tiny_local(model, images))
    with stops(EvaluationError, "in other code"):
        ud.extract(changed, release, f"{CONFIG}/test", **options)


def test_a_model_without_texts_is_told_so(release, tmp_path):
    options = {"device": "cpu", "workers": 0, "quiet": True}
    with stops(EvaluationError, "texts", "negatives="):
        ud.extract(of_seed(cnn, num_classes=4), release, f"{CONFIG}/test", negatives=True, **options)
    store = ud.extract(of_seed(cnn, num_classes=4), release, f"{CONFIG}/test", **options)
    with stops(EvaluationError, "mcm", "texts"):
        ud.score(store, ["mcm"], quiet=True)
    with stops(EvaluationError, "gl_mcm", "texts"):
        ud.score(store, ["gl_mcm"], quiet=True)


def test_the_command_takes_prompts_and_names(release, tmp_path, capsys):
    names = tmp_path / "names.csv"
    names.write_text("class,name\nred,dark_red\n")
    flags = ["--release", str(release), "--splits", f"{CONFIG}/test", "--device", "cpu", "--workers", "0"]
    flags += ["--model", f"{small_clips.__file__}:tiny", "--out", str(tmp_path / "out"), "--classes", str(names)]
    assert main(["extract", *flags, "--prompt", "a {}", "--prompt", "the {}"]) == 0
    said = capsys.readouterr().out
    assert "several classes are called a class; tell them apart with classes=" in said
    assert "prompts  a {} | the {}" in said
    assert main(["extract", *flags, "--prompt", "a {}", "--negatives"]) == 2, "other prompts make another model"
    assert class_texts(ud.load(release), [CONFIG], LABELS, names) == ("dark red", "a class", "a class", "a class")
    names.write_text("class,name\nviolet,purple\n")
    assert main(["extract", *flags]) == 2
    assert "'violet' is not a class of the release" in capsys.readouterr().err


def test_ids_are_not_what_prompts_say(tmp_path):
    """Labels that are ids of the source are told by the names of their rows, and names that repeat are noted."""
    ids = [f"n0{number}" for number in range(4)]
    named = ["class_id", "class_name"]
    rows = pa.table([ids, ["crane", "dial_phone", "crane", "wig"]], named)
    other = pa.table([["n02", "n9"], ["crane", "grille"]], named)
    release = SimpleNamespace(
        pairs=lambda configs: [("c", "test"), ("c", "near_ood")], rows=lambda _, split: of[split]
    )
    of = {"test": rows, "near_ood": other}
    assert class_texts(release, ["c"], ids) == ("crane", "dial phone", "crane", "wig")


def test_the_commands_run_it_from_a_file(release, names, tmp_path, capsys):
    """`score` knows prompts and names of classes from the features, and runs the same model again for gl_mcm."""
    model = ["--release", str(release), "--model", f"{small_clips.__file__}:tiny"]
    common = [*model, "--device", "cpu", "--workers", "0", "--quiet"]
    texts = ["--classes", str(names), "--prompt", "the {}"]
    ran = ["run", *common, *texts, "--splits", CONFIG, "--detectors", "mcm,gl_mcm", "--no-plots"]
    assert main([*ran, "--out", str(tmp_path / "run")]) == 0
    scored = ["score", *common, "--features", str(tmp_path / "run" / "features"), "--detectors", "mcm,gl_mcm"]
    assert main([*scored, "--out", str(tmp_path / "again.parquet")]) == 0
    assert "gl_mcm" in capsys.readouterr().out
    first, again = (read_scores(tmp_path / name)[0] for name in ("run/scores.parquet", "again.parquet"))
    assert first.equals(again)
