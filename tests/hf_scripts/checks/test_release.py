"""Exclusions, parts and ids, as `verify` checks them."""

import dataclasses

import pytest

from builders.release.tables import TableError, read_excluded, write_excluded
from tests.hf_scripts.tampering import (
    built,
    check,
    copy,
    list_exclusions,
    problems,
    replace,
    replace_by,
    without_notes,
)
from tests.manifests import manifest_of
from tests.sentences import stops

__all__ = ["built", "check", "copy", "problems"]


def test_an_exclusion_that_is_gone(copy, problems):
    path = "excluded/imagenet.csv"
    lines = read_excluded(copy / path)
    dropped = next(line for line in lines if line.split == "imagenet/test" and line.images)
    (part,) = manifest_of(copy)["configs"]["imagenet"]["splits"]["test"]["parts"]
    (copy / path).unlink()
    write_excluded(copy / path, [line for line in lines if line is not dropped], [])
    list_exclusions(copy)
    left = sum(part["excluded_by_rule"].values()) - dropped.images
    assert problems() == [
        f"imagenet/test: {part['rows']:,} rows and {left:,} excluded images in {path} do not add up to the "
        f"{part['available']:,} images of the source"
    ]


def test_an_exclusion_of_a_split_that_is_not_there(copy, problems):
    path = "excluded/imagenet.csv"
    lines = read_excluded(copy / path)
    (copy / path).unlink()
    write_excluded(copy / path, [dataclasses.replace(lines[0], split="imagenet/absent"), *lines], [])
    list_exclusions(copy)
    assert problems() == [f"{path}: a line names imagenet/absent, which is no split of imagenet"]


HEADER = "split,source,partition,class_id,class_name,image,images,rule,evidence\n"
LINE = "imagenet/test,imagenet,val,n1,a name,,3,rule,evidence\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "the columns are not split, source, "),
        (b"split,split\n", "the columns are not split, source, "),
        (HEADER.replace("rule", "split"), "the columns are not split, source, "),
        (HEADER + "imagenet/test,imagenet\n", "line 2 does not have 9 values"),
        (HEADER + LINE + LINE.replace("evidence", "evidence,more"), "line 3 does not have 9 values"),
        (HEADER + LINE.replace("3", "-3"), "line 2: the number of images is '-3'"),
        (HEADER + LINE.replace("3", ""), "line 2: the number of images is ''"),
        (HEADER + LINE.replace("3", "3_0"), "line 2: the number of images is '3_0'"),
        (HEADER + LINE.replace("3", "٣"), "line 2: the number of images is '٣'"),
        (HEADER + LINE.replace("3", "9" * 6_000), f"line 2: the number of images is '{'9' * 40}'"),
        (HEADER + LINE.replace("3", "\x1b[2J"), "line 2: the number of images is '\\x1b[2J'"),
        (HEADER.encode() + b"\xff\xfe", "it is not UTF-8 text"),
        (HEADER + '"open', "it is not CSV (unexpected end of data)"),
        (HEADER + "x" * 200_000, "it is not CSV (field larger than field limit (131072))"),
        (b"\x00" * 1_000, "the columns are not split, source, "),
    ],
)
def test_a_damaged_table_of_exclusions(copy, problems, text, reason):
    path = copy / "excluded/imagenet.csv"
    replace(path, text if isinstance(text, bytes) else text.encode())
    list_exclusions(copy)
    prefix = "excluded/imagenet.csv: cannot be read as a table of exclusions ("
    line = problems()[0]
    assert line.startswith(prefix) and reason in line and line.isprintable() and len(line) < 300
    with stops(TableError, "imagenet.csv"):
        read_excluded(path)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_what_is_no_regular_file_is_never_opened(copy, check, kind):
    config = manifest_of(copy)["configs"]["imagenet"]
    test = config["splits"]["test"]
    paths = [test["data"][0]["path"], test["index"]["path"], config["excluded"]["path"], "duplicates/pairs.parquet"]
    for path in [*paths, "README.md"]:
        replace_by(kind, copy / path)
    code, lines = check()
    assert code == 1
    sentences = without_notes(lines)
    assert {f"{path}: is not a regular file" for path in [*paths, "README.md"]} <= set(sentences)
    assert lines.count("note: splits were not compared with each other, because an index is damaged") == 1
