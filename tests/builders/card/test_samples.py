"""Pictures of samples: of open sources alone, listed like other files, and gone where images are not published."""

import json

import numpy as np
import pytest
from PIL import Image

from builders.card.grid import CELL
from builders.card.pictures import SAMPLES, with_samples
from builders.release.layout import Layout
from builders.release.manifest import ManifestError, parse, read_manifest
from builders.release.reader import rgb_images
from hf_scripts import verify
from hf_scripts.publish.merge import without_images
from tests.hf_scripts.samples import make_release
from tests.manifests import as_json, manifest_of


def drawn(root):
    """A release of the samples with its pictures, unlisted."""
    manifest = read_manifest(root)
    return with_samples(Layout(root), manifest, manifest)


def test_the_demo_has_pictures_of_open_sources_alone(imagenet_release, cifar_release):
    """Caltech-256 is CC BY 4.0, and noise is ours; all other sources of these two let only ids be published."""
    for root, pictured in (
        (imagenet_release, "imagenet/far_ood_caltech45"),
        (cifar_release, "cifar/far_ood_gaussian"),
    ):
        manifest = read_manifest(root)
        assert [key for key, split in manifest.by_key().items() if split.samples] == [pictured]
        files = [path.relative_to(root).as_posix() for path in (root / "samples").rglob("*") if path.is_file()]
        assert files == [f"samples/{pictured}.png"]
        assert f"]({files[0]})" in (root / "README.md").read_text(encoding="utf-8")


def test_a_picture_shows_the_first_images(cifar_release):
    manifest = read_manifest(cifar_release)
    split = manifest.configs["cifar"].splits["far_ood_gaussian"]
    with Image.open(cifar_release / split.samples.path) as opened:
        picture = np.asarray(opened.convert("RGB"))
    images = rgb_images(cifar_release, "cifar/far_ood_gaussian", split, np.arange(SAMPLES))
    for place, image in enumerate(images):
        left = 12 + place * (CELL + 12)
        strip = picture[:, left : left + CELL]
        expected = np.kron(np.asarray(image), np.ones((4, 4, 1), np.uint8))
        assert any(np.array_equal(strip[top : top + CELL], expected) for top in range(len(strip) - CELL + 1))


@pytest.mark.parametrize("publish", ["gated", "ids-only"])
def test_no_other_licence_gives_a_picture(tmp_path, publish):
    root = make_release(tmp_path / "release", {"bench/test": range(3)}, publish=publish)
    assert not any(split.samples for split in drawn(root).by_key().values())
    assert not (root / "samples").exists()
    assert "so the card shows none" in (root / "README.md").read_text(encoding="utf-8")


def test_pictures_are_checked_kept_and_withheld(tmp_path, capsys):
    from builders.card.card import write_card_and_manifest

    root = make_release(tmp_path / "release", {"bench/test": range(3)})
    manifest = write_card_and_manifest(Layout(root), drawn(root))
    assert verify.main([str(root), "--workers", "1"]) == 0
    path = root / "samples/bench/test.png"
    before = path.stat().st_mtime_ns
    assert drawn(root) == manifest and path.stat().st_mtime_ns == before  # the same images: not drawn again
    assert without_images(manifest).by_key()["bench/test"].samples is None
    path.write_bytes(path.read_bytes() + b"!")
    assert verify.main([str(root), "--workers", "1"]) == 1
    assert "samples/bench/test.png" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m, s: s["samples"].update(path="samples/bench/other.png"), "is samples/bench/other.png, not samples/"),
        (lambda m, s: s["samples"].update(path="../x.png"), "is ../x.png, not samples/bench/test.png"),
        (lambda m, s: s.update(data=[]), "has a picture of its images, but no images"),
        (lambda m, s: m["sources"]["source"]["licence"].update(publish="ids-only"), "the licence of no source lets"),
        (lambda m, s: m.update(croissant=s["samples"]), "its Croissant metadata is samples/bench/test.png, not"),
        (lambda m, s: m.update(repository="org/name"), "names a repository, but no version"),
        (lambda m, s: m.update(repository='org/name", "x'), "repository: expected the name of a repository, ORG/NAME"),
    ],
)
def test_a_manifest_cannot_list_other_pictures(tmp_path, change, reason):
    root = make_release(tmp_path / "release", {"bench/test": range(3)})
    manifest = manifest_of(root) | {"configs": as_json(drawn(root).configs)}
    parse(json.dumps(manifest).encode(), "m")
    change(manifest, manifest["configs"]["bench"]["splits"]["test"])
    with pytest.raises(ManifestError, match=reason.replace(".", r"\.")):
        parse(json.dumps(manifest).encode(), "m")
