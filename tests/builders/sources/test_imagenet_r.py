from builders.sources.base import Stray
from tests.builders.trees import opened, write_tar

GOLDFISH = "n01443537"


def test_the_readme_in_the_archive_is_a_stray_of_no_image(tmp_path):
    write_tar(
        tmp_path / "imagenet-r.tar", {"imagenet-r/README.txt": b"", f"imagenet-r/{GOLDFISH}/toy_12.jpg": b"fish"}
    )
    (piece,) = opened("imagenet_r", tmp_path).pieces
    assert piece.table["source_id"].to_pylist() == [f"{GOLDFISH}/toy_12.jpg"]
    assert piece.how == "span"
    assert piece.strays == (
        Stray("imagenet-r.tar:imagenet-r/README.txt", "not named <wnid>/<rendition>_<number>.jpg"),
    )
