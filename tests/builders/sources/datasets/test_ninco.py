from builders.sources.registry import SOURCES
from tests.builders.trees import opened, tree

CARACAL = "Caracal caracal caracal"


def test_spaces_of_the_owners_names_are_underscores_in_ids_and_classes(tmp_path):
    # A line of the owners' data/NINCO_OOD_classes.csv.
    name = f"{CARACAL}/{CARACAL}_001_001-11713603.png"
    (row,) = opened("ninco", tree(tmp_path, {f"NINCO_OOD_classes/{name}": ""})).table.to_pylist()
    assert row["class_id"] == "Caracal_caracal_caracal"
    assert row["source_id"] == "Caracal_caracal_caracal/Caracal_caracal_caracal_001_001-11713603.png"
    assert row["file"] == f"NINCO_OOD_classes/{name}"
    assert SOURCES["ninco"].classes()[row["class_id"]] == "caracal"
