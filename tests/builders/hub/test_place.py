import re

import pytest

from builders.errors import BuildError
from builders.hub.place import HubPlace, folder_or_repository, parse_place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("hf://datasets/ILSVRC/imagenet-1k", HubPlace("ILSVRC/imagenet-1k")),
        ("hf://datasets/org/name/", HubPlace("org/name")),
        ("hf://datasets/org/name@v1.0", HubPlace("org/name", "v1.0")),
        ("hf://datasets/org/name@v1.0/a/b", HubPlace("org/name", "v1.0", "a/b")),
        ("hf://datasets/org/name/a/b", HubPlace("org/name", "main", "a/b")),
        # The Hub's own references have slashes (huggingface_hub, HfFileSystem).
        ("hf://datasets/org/name@refs/convert/parquet", HubPlace("org/name", "refs/convert/parquet")),
        ("hf://datasets/org/name@refs/pr/3/data", HubPlace("org/name", "refs/pr/3", "data")),
    ],
)
def test_a_place_is_read_and_written(text, place):
    assert parse_place(text) == place
    assert str(place) == text.rstrip("/")


@pytest.mark.parametrize(
    "text",
    [
        "hf://ILSVRC/imagenet-1k",
        "hf://datasets/imagenet-1k",
        "hf://models/org/name",
        "hf://datasets/org/na--me",
        *(f"hf://datasets/{name}" for name in ("org/name.git", "org/name-", "org./name", f"org/{'a' * 97}")),
        "hf://datasets/org/name/../x",
        "hf://datasets/org/name/..",
        "hf://datasets/org/name/a//b",
        "hf://datasets/org/name@",
        "hf://datasets/org/name/a\x1b[2J",
        "hf://datasets/org/n\u00e4me",
    ],
)
def test_what_is_no_place_is_one_sentence(text):
    with pytest.raises(BuildError) as caught:
        parse_place(text)
    assert str(caught.value).startswith("hf://")
    assert str(caught.value).isprintable()


def test_an_address_that_has_no_folder_is_not_looked_for_on_the_hub(store):
    bucket = store.bucket()
    store.put(bucket, {"release/manifest.json": b"{}"})
    assert str(folder_or_repository(f"s3://{bucket}/release", None)) == f"s3://{bucket}/release"
    message = f"There is no folder s3://{bucket}/relase (did you mean s3://{bucket}/release?), and a repository"
    with pytest.raises(BuildError, match=re.escape(message)):
        folder_or_repository(f"s3://{bucket}/relase", None)
