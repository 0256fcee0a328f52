"""Classes of own folders whose names differ in Unicode's encoding, through to the release and its card."""

import shutil

import datasets
import pytest

from builders import folder_benchmark
from hf_scripts import verify
from tests.own_folders.law import said
from tests.own_folders.pictures import encoded
from tests.own_folders.trees import put, rng_of


@pytest.mark.parametrize(
    ("known", "unknown", "shown"),
    [
        ("caf\u00e9", "cafe\u0301", "cafe\u0301 (cafe\\u0301) and caf\u00e9 (caf\\xe9)"),  # NFC, NFD: Linux, macOS
        ("\uff43\uff41\uff54", "cat", "cat (cat) and \uff43\uff41\uff54 (\\uff43\\uff41\\uff54)"),  # full width
    ],
)
def test_a_known_class_in_another_unicode_form_is_marked_in_the_release(plain, tmp_path, known, unknown, shown):
    shutil.copytree(plain, tmp_path / "known")
    (tmp_path / "known/bee").rename(tmp_path / "known" / known)
    put(tmp_path / "near", f"{unknown}/0.png", encoded(rng_of(9), "png"))
    folders = (f"--in-distribution={tmp_path / 'known'}", f"--unknown=near={tmp_path / 'near'}")
    out = tmp_path / "out"
    assert said(folder_benchmark.main, *folders, f"--out={out}", "--workers=1", "--quiet").code == 0
    (row,) = datasets.load_dataset(str(out), "folder-index", split="near_ood", cache_dir=str(tmp_path / "cache"))
    assert (row["class_id"], row["id_overlap"]) == (unknown, known)
    assert f"{shown} differ in encoding alone" in (out / "README.md").read_text(encoding="utf-8")
    assert said(verify.main, out, "--workers=1").code == 0
