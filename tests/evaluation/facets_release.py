"""A release shaped like FACETS T1: labels of one dataset, rows of three, with classes that share names and ids."""

import hashlib
import json

import pyarrow as pa
import yaml

from builders.release.digests import rows_digest
from builders.release.layout import Layout
from builders.release.manifest import FORMAT
from builders.release.schema import ROLES
from builders.release.tables import write_index

CONFIG = "facets-t1"
LABELS = ("/b/bedroom", "/f/fountain", "/k/kennel/outdoor")

# Split, source, class id, class name, role, number of images. Only rows of Places365 and, where a class has the same
# name there, of SUN397 have a label.
ROWS = (
    ("test", "places365", "/b/bedroom", "bedroom", "in_distribution", 2),
    ("test", "places365", "/f/fountain", "fountain", "in_distribution", 2),
    ("test", "places365", "/k/kennel/outdoor", "kennel/outdoor", "in_distribution", 2),
    ("test", "sun397", "/f/fountain", "fountain", "in_distribution", 9),
    ("test", "imagenet", "n02088364", "beagle", "near_ood", 3),
    ("test", "imagenet", "n03388043", "fountain", "in_distribution", 3),
    ("validation", "sun397", "/b/bedroom", "bedroom", "in_distribution", 2),
)


def rows_of(lines):
    rows = []
    for _, source, class_id, class_name, role, count in lines:
        for number in range(count):
            name = f"{class_id.strip('/')}/{number}.jpg"
            labelled = role == "in_distribution" and class_id in LABELS
            rows.append(
                {
                    "label": LABELS.index(class_id) if labelled else -1,
                    "role": ROLES.index(role),
                    "class_id": class_id,
                    "class_name": class_name,
                    "source": source,
                    "source_id": name,
                    "id": f"{source}/{name}",
                    "content_sha256": hashlib.sha256(f"{source}{name}".encode()).hexdigest(),
                    "stored": "source",
                }
            )
    return pa.Table.from_pylist(rows)


def make_facets(root, configs=None):
    """Write the release without its images, which no graph asks for.

    Args:
        root: the folder.
        configs: rows as in `ROWS` for each config; by default one config with `ROWS`.
    """
    layout = Layout(root)
    manifest = {"format": FORMAT, "configs": {}}
    card = []
    for config, lines in (configs or {CONFIG: ROWS}).items():
        splits, files = {}, []
        for split in sorted({line[0] for line in lines}):
            rows = rows_of([line for line in lines if line[0] == split])
            path = layout.index(f"{config}/{split}")
            path.parent.mkdir(parents=True, exist_ok=True)
            write_index(path, rows, LABELS)
            splits[split] = {"digest": rows_digest(rows)}
            files.append({"split": split, "path": layout.relative(path)})
        manifest["configs"][config] = {"label_names": list(LABELS), "splits": splits}
        card.append({"config_name": f"{config}-index", "data_files": files})
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    (root / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': card})}---\n", encoding="utf-8")
    return root
