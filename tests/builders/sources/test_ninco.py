from builders.sources.registry import SOURCES
from tests.builders.trees import opened, tree, write_tar

CARACAL = "Caracal caracal caracal"


def test_spaces_of_the_owners_names_are_underscores_in_ids_and_classes(tmp_path):
    # A line of the owners' data/NINCO_OOD_classes.csv.
    name = f"{CARACAL}/{CARACAL}_001_001-11713603.png"
    (row,) = opened("ninco", tree(tmp_path, {f"NINCO_OOD_classes/{name}": ""})).table.to_pylist()
    assert row["class_id"] == "Caracal_caracal_caracal"
    assert row["source_id"] == "Caracal_caracal_caracal/Caracal_caracal_caracal_001_001-11713603.png"
    assert row["file"] == f"NINCO_OOD_classes/{name}"
    assert SOURCES["ninco"].classes()[row["class_id"]] == "caracal"


def test_what_else_the_archive_has_is_not_looked_at(tmp_path):
    image = "NINCO/NINCO_OOD_classes/waffles/waffles_000_903753.jpg"
    other_sets = (
        "NINCO/NINCO_OOD_unit_tests/black/black_000.png",
        "NINCO/NINCO_popular_datasets_subsamples/SSB_hard/a.jpg",
    )
    write_tar(tmp_path / "NINCO_all.tar.gz", dict.fromkeys((image, *other_sets), b""))
    (piece,) = opened("ninco", tmp_path).pieces
    assert piece.table["source_id"].to_pylist() == ["waffles/waffles_000_903753.jpg"]
    assert not piece.strays
