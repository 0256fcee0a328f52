"""The file that names the sources' folders: what it says is checked before anything is read."""

import pytest

from builders.cli.source_flags import listed_sources
from builders.errors import BuildError


def write(folder, content):
    path = folder / "mine.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["", "byte order mark"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_folders_are_relative_to_the_file(tmp_path, start, end):
    path = write(tmp_path, start + end.join([b"# mine", b'imagenet = "a/b"', b'dtd = "/c"', b'svhn = "."', b""]))
    assert listed_sources(path) == {"imagenet": tmp_path / "a/b", "dtd": tmp_path / "/c", "svhn": tmp_path}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"imagenet = \xff", "Line 1 of {path} is not UTF-8"),
        (f"imagenet = {'9' * 5000}", "{path} is not TOML with lines such as imagenet = "),
        (f"imagenet = {'[' * 20_000}", "{path} is not TOML"),
        (f"imagenet = {'{a=' * 10_000}", "{path} is not TOML with lines such as imagenet = "),
        ('imagenet = "a"\nimagenet = "b"', "{path} is not TOML"),
        ("imagenet = 3", "imagenet in {path} is 3, not a folder in quotes"),
        ('imagenet = ["a"]', "imagenet in {path} is ['a'], not a folder in quotes"),
        ('[imagenet]\ntrain = "a"', "imagenet in {path} is {{'train': 'a'}}, not a folder in quotes"),
        (f"imagenet = [{'1, ' * 10_000}]", "imagenet in {path} is [1, 1, 1,"),
        ('imagenet = ""', "imagenet in {path} is '', not a folder in quotes"),
        ('imagenet = "a\\u0000b"', "imagenet in {path} is 'a\\x00b', not a folder in quotes"),
        ('imagenet = "~nobody-of-this-name/x"', "imagenet in {path} is ~nobody-of-this-name/x, and this machine"),
        ('imagnet = "a"', "'imagnet' in {path} is no source. The nearest is imagenet."),
        ('noise = "a"', "'noise' in {path} is no source. "),
        ('"\\u001b[2J" = "a"', "'\\x1b[2J' in {path} is no source. Those are imagenet, "),
    ],
    ids=lambda value: str(value)[:25],
)
def test_what_cannot_be_used_gets_one_sentence(tmp_path, content, words):
    path = write(tmp_path, content)
    with pytest.raises(BuildError) as caught:
        listed_sources(path)
    assert str(caught.value).startswith(words.format(path=path))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 700
