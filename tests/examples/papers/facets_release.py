"""A release shaped like FACETS T1: labels of one dataset, rows of three, with classes that share names and ids."""

from tests.evaluation.written_release import made_row, write_release

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
        label = LABELS.index(class_id) if role == "in_distribution" and class_id in LABELS else -1
        for number in range(count):
            name = f"{class_id.strip('/')}/{number}.jpg"
            names = {"class_id": class_id, "class_name": class_name, "source": source, "source_id": name}
            rows.append(made_row(f"{source}/{name}", role, label, **names))
    return rows


def make_facets(root, configs=None):
    """Write the release without its images, which no graph asks for.

    Args:
        root: the folder.
        configs: rows as in `ROWS` for each config; by default one config with `ROWS`.
    """
    rows = {
        f"{config}/{split}": rows_of([line for line in lines if line[0] == split])
        for config, lines in (configs or {CONFIG: ROWS}).items()
        for split in sorted({line[0] for line in lines})
    }
    return write_release(root, rows, LABELS)
