"""A copy of the demo's ImageNet in which some images are copies of others, and the pairs that this makes."""

from pathlib import Path

import pyarrow.parquet as pq

from builders.release.duplicates import Pair, PairedRow, pair_of
from builders.release.schema import ROLES
from tests.builders.trees import linked, replaced

SPLITS = (
    "imagenet/validation",
    "imagenet/test",
    "imagenet/near_ood",
    "imagenet/external_validation",
    "imagenet-train/train",
)


def with_comment(data):
    """The same JPEG with a comment (ITU-T T.81, B.2.4.5): other bytes, the same pixels."""
    return data[:2] + b"\xff\xfe\x00\x04hi" + data[2:]


class Planting:
    """Overwrites images of a copy of the demo's ImageNet by others.

    `release` is one of the demo's, which says in which split an image is: what an image shows changes no plan.
    """

    def __init__(self, demo: Path, release: Path, target: Path) -> None:
        self.folder = linked(demo, target)
        self.files = {path.name: path for path in sorted(self.folder.rglob("*.JPEG"))}
        pairs = pq.read_table(release / "duplicates" / "pairs.parquet").to_pylist()
        taken = {pair[side] for pair in pairs for side in ("id", "other_id")}
        self.rows: dict[str, list[dict[str, object]]] = {}
        for key in SPLITS:
            rows = pq.read_table(release / "index" / f"{key}.parquet").to_pylist()
            # Images with troubles of their own are left alone, and so are those that are pairs already.
            self.rows[key] = [row for row in rows if row["stored"] == "source" and row["id"] not in taken]

    def row(self, key: str, number: int) -> PairedRow:
        row = self.rows[key][number]
        return PairedRow(key, row["id"], ROLES[row["role"]], row["class_id"])

    def path(self, key: str, number: int) -> Path:
        return self.files[Path(self.rows[key][number]["source_id"]).name]

    def copy(self, one: tuple[str, int], other: tuple[str, int], change=lambda data: data) -> Pair:
        """Overwrite the second image by the first, bytes changed as given; returns the pair, at distance 0."""
        data = self.path(*one).read_bytes()
        replaced(self.path(*other), lambda _: change(data))
        return pair_of(self.row(*one), self.row(*other), 0.0)
