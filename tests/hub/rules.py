"""What the Hub decides about files it is offered: stored in git or apart in LFS, ignored, fit as a dataset card."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

import yaml

# Above this the Hub refuses a file in git ("larger than 10 MiB": huggingface/huggingface_hub#2666).
MOST_IN_GIT = 10 * 1024 * 1024

# Bytes of a card above which the answer is 413. The Hub's limit is not published, nor whether it looks at the YAML or
# at the whole card. This is ours, below what is known to be refused (1.3 MB of YAML, huggingface/datasets#7392).
MOST_CARD = 1_000_000

# Every repository starts with one commit of such a file. The Hub's own is longer; these are the kinds that a dataset
# of ours may hold. Markdown, JSON, CSV and plain text are in neither, and so stay in git up to the limit above.
LARGE = (
    *("arrow", "h5", "npy", "npz", "parquet"),
    *("7z", "bin", "bz2", "gz", "rar", "tar", "tgz", "xz", "zip", "zst"),
    *("bmp", "gif", "jpeg", "jpg", "png", "tiff", "webp"),
)
GITATTRIBUTES = "".join(f"*.{extension} filter=lfs diff=lfs merge=lfs -text\n" for extension in LARGE).encode()


def upload_mode(path: str, size: int, sample: bytes, attributes: str) -> str:
    """Whether a file's content goes to LFS: by name, by size, or because its first 512 bytes are not text."""
    name = path.rpartition("/")[2]
    by_name = any(fnmatchcase(name, line.split()[0]) for line in attributes.splitlines() if "filter=lfs" in line)
    return "lfs" if by_name or size > MOST_IN_GIT or b"\0" in sample else "regular"


def card_data(card: bytes) -> object:
    """The YAML block at the top of a README.md; None where there is none.

    Raises:
        yaml.YAMLError: the block is no YAML.
    """
    match = re.match(r"---\r?\n(.*?)\r?\n---(\r?\n|$)", card.decode(), re.DOTALL)
    return yaml.safe_load(match[1]) if match else None


def card_problems(card: bytes) -> list[str]:
    """What is wrong with a dataset card's YAML block, as far as `load_dataset` depends on it."""
    try:
        data = card_data(card)
    except yaml.YAMLError as error:
        return [f"the metadata block is not YAML: {error}"]
    if data is None:
        return []
    if not isinstance(data, dict):
        return ["the metadata block is not a mapping"]
    return list(_config_problems(data.get("configs", [])))


def _config_problems(configs: object) -> Iterator[str]:
    if not isinstance(configs, list):
        yield '"configs" must be a list'
        return
    for number, config in enumerate(configs):
        if not isinstance(config, dict) or not isinstance(config.get("config_name"), str):
            yield f'"configs[{number}].config_name" must be a string'
            continue
        files = config.get("data_files", [])
        for entry in files if isinstance(files, list) else []:
            if isinstance(entry, dict) and not {"split", "path"} <= set(entry):
                yield f'"configs[{number}].data_files" needs split and path'
