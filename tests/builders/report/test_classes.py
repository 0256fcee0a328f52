from builders.release.tables import Exclusion
from builders.report.classes import Branch, class_data, class_trees
from builders.report.pictures import ClassRows, SplitRows
from taxonomy import tables
from taxonomy.wordnet.nouns import load_wordnet


def rows(key, source, names, role="near_ood"):
    return SplitRows(key, tuple(ClassRows(source, class_id, name, role, 2) for class_id, name in names), {})


def leaves(branch):
    return [leaf for below in branch.branches for leaf in leaves(below)] + branch.leaves


def paths(branch, above=()):
    titles = (*above, branch.title)
    path_of = {leaf.class_id: titles for leaf in branch.leaves}
    return path_of | {leaf: path for below in branch.branches for leaf, path in paths(below, titles).items()}


def left(split, class_id, rule, *, source="s", image="", images=3):
    return Exclusion(split, source, "val", class_id, f"name of {class_id}", image, images, rule, f"{rule}, because")


def test_every_class_of_imagenet_stands_in_wordnets_tree_once():
    names = [(row.wnid, row.name) for row in tables.imagenet1k()]
    tree = class_trees({"s": "ImageNet"}, [rows("c/near_ood", "s", names)], [])["s"]
    assert sorted(leaf.class_id for leaf in leaves(tree)) == [wnid for wnid, _ in names]
    # All branches above a class name synsets that WordNet has above it; tench is a fish, and a Chihuahua a dog.
    wordnet, path_of = load_wordnet(), paths(tree)
    for wnid in ("n01440764", "n02085620", "n07880968"):
        above = {lemma for row in wordnet.ancestors(wordnet.row(wnid)).tolist() for lemma in wordnet.lemmas(row)}
        assert set(path_of[wnid][1:]) <= above
    assert {"animal", "vertebrate", "fish"} <= set(path_of["n01440764"])
    assert {"animal", "dog"} <= set(path_of["n02085620"])
    # What all of them are, or all that are chordates, is no branch that has to be opened first.
    assert not {"physical entity", "chordate"} & {title for path in path_of.values() for title in path}


def test_ids_that_only_look_like_synsets_have_no_place_in_it():
    tree = class_trees({"s": "S"}, [rows("c/near_ood", "s", [("n99999999", "none"), ("n01440764", "tench")])], [])["s"]
    assert [branch.title for branch in tree.branches] == ["near-OoD"]


def test_classes_of_cifar_stand_below_their_superclasses():
    tree = class_trees({"s": "CIFAR"}, [rows("c/test", "s", [("apple", "apple"), ("seal", "seal")])], [])["s"]
    assert paths(tree) == {"apple": ("CIFAR", "fruit and vegetables"), "seal": ("CIFAR", "aquatic mammals")}


def test_other_classes_stand_below_what_they_are():
    known = rows("c/test", "s", [("b", "B"), ("a", "a")], "in_distribution")
    unknown = rows("c/far_ood", "s", [("b", "B"), ("c", "C")], "far_ood")
    excluded = [
        left("c/test", "d", "ii"),
        left("c/test", "", "stray", image="x"),
        left("c/test", "e", "i", source="?"),
    ]
    tree = class_trees({"s": "S", "unused": "U"}, [known, unknown], excluded)
    assert list(tree) == ["s"]
    assert [(branch.title, [leaf.class_id for leaf in branch.leaves]) for branch in tree["s"].branches] == [
        ("far-OoD", ["c"]),
        ("in-distribution", ["a"]),
        ("in-distribution and far-OoD", ["b"]),
        ("in no split", ["d"]),
    ]


def test_the_script_finds_the_rows_and_reasons_of_each_class():
    excluded = [left("c/far_ood", "a", "ii"), left("c/far_ood", "b", "ii", images=5), left("c/test", "b", "iii")]
    trees = class_trees({"s": "S"}, [rows("c/test", "s", [("a", "A")], "in_distribution")], excluded)
    data = class_data([Branch("all", list(trees.values()), [])])
    read = {}
    for entry in data["classes"]:
        included = [(data["splits"][split], data["roles"][role][0], number) for split, role, number in entry["kept"]]
        excluded_lines = [
            (data["splits"][split], data["rules"][rule], data["evidence"][evidence], number)
            for split, rule, evidence, number in entry["left"]
        ]
        read[entry["id"]] = (included, excluded_lines)
    assert read == {
        "a": ([("c/test", "in_distribution", 2)], [("c/far_ood", "ii", "ii, because", 3)]),
        "b": ([], [("c/far_ood", "ii", "ii, because", 5), ("c/test", "iii", "iii, because", 3)]),
    }
    (top,) = data["trees"]
    places = [place for source in top["branches"] for branch in source["branches"] for place in branch["classes"]]
    assert places == list(range(2))
