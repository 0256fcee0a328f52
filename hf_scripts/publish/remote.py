"""Checks a repository: who may read it, its tags, whether it takes a card, and what it has after publishing.

Tested by `tests/hf_scripts/publish/test_access.py`, `test_tags.py`, `test_card_size.py` and `test_read_back.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import (  # type: ignore[attr-defined]
    build_hf_headers,
    get_session,
    hf_raise_for_status,
)

from builders.errors import BuildError
from builders.hub.repository import Info, Repository
from builders.hub.retry import Log, with_retries
from builders.release.layout import MANIFEST
from builders.release.manifest import parse, read_manifest
from builders.storage.scratch import scratch_folder
from hf_scripts.checks import manifest as check_manifest
from hf_scripts.publish.licences import forbidden_images
from hf_scripts.publish.snapshot import Snapshot
from hf_scripts.publish.versions import parse_version

MOST_FRONT_MATTER = 40_000
MOST_CARD = 200_000
"""Bytes of the YAML, and of the whole README.md. Ours: the Hub documents no limit. The client sends the whole
README.md for validation, so the Hub's limit may apply to either.

Known to be refused with 413: 50,000 class names, 1.3 MB of YAML (huggingface/datasets #7392), and five cards of
unknown size (embeddings-benchmark/mteb #1892). Known to be accepted: ImageNet-1k's card, 85 KB, about half of it YAML
(huggingface/datasets, `datasets/imagenet-1k/README.md`). The demos of four benchmarks in one release have 21 KB
of YAML in a card of 116 KB.
"""

_ADVICE = "Publish some of its configs in another repository, with --splits and --repo."


def exposed_images(repository: Repository, info: Info | None, revisions: Mapping[str, str]) -> dict[str, str]:
    """Describe each revision that serves images although licences forbid it; `revisions` has their commits.

    Published versions are checked, too, because the repository may have been made public since, or a licence may have
    changed. Revisions without a release that this version can read are skipped.
    """
    if info is None or info.access == "private":
        return {}  # no licence forbids it
    images: dict[str, str] = {}
    with scratch_folder("access") as scratch:
        for commit in sorted(set(revisions.values())):
            tree = repository.tree(commit, recursive=False)
            if MANIFEST in tree:
                repository.fetch(tree[MANIFEST], commit, scratch / commit)
                try:
                    images[commit] = forbidden_images(read_manifest(scratch / commit, commit[:12]), info.access)
                except BuildError:
                    continue
    return {
        revision: f"{repository.name} is {info.access}, and {revision} serves images that a licence does not allow "
        f"there: {images[commit]}. Make the repository private in its settings, or delete it and publish with "
        "--index-only: its history keeps the images of deleted tags."
        for revision, commit in sorted(revisions.items())
        if images.get(commit)
    }


def publish_title(tag: str) -> str:
    """Return the title of the commit that publishes a version."""
    return f"Publish {tag}"


def check_moved_tags(repository: Repository, tags: Mapping[str, str], *, allowed: bool, log: Log) -> None:
    """Refuse to publish next to version tags that were moved to another commit, unless it is allowed.

    A version whose commit is not in the history of the branch main (it may have been squashed) is no such tag.
    """
    published: dict[str, list[str]] = {}
    versions = [tag for tag in sorted(tags) if parse_version(tag) is not None]
    for commit, title in repository.history() if versions else ():
        # The Hub adds its number to the title of a merged pull request.
        published.setdefault(re.sub(r" \(#\d+\)$", "", title), []).append(commit)
    commits = {tag: known for tag in versions if (known := published.get(publish_title(tag)))}
    moved = [
        f"the tag {tag} of {repository.name} names commit {tags[tag][:12]}, but {tag} was published as commit "
        f"{known[0][:12]}"
        for tag, known in commits.items()
        if tags[tag] not in known
    ]
    if moved and not allowed:
        more = f" (and {len(moved) - 1:,} more such tags)" if len(moved) > 1 else ""
        raise BuildError(
            f"{moved[0][0].upper()}{moved[0][1:]}{more}, so results on it can no longer be compared. Move the "
            "tag back on the Hub, or accept it with --allow-moved-tags."
        )
    for sentence in moved:
        log(f"note: {sentence} (--allow-moved-tags)")


def check_card_size(text: str, repository: str) -> None:
    """Check that the card of a repository is small enough for the Hub."""
    for size, where, most in (
        (front_matter_bytes(text), " of front matter", MOST_FRONT_MATTER),
        (len(text.encode()), "", MOST_CARD),
    ):
        if size > most:
            raise BuildError(
                f"The card of {repository} would have {size:,} bytes{where}, more than our limit of {most:,} (the Hub "
                f"refuses large cards). {_ADVICE}"
            )


def validate_on_hub(text: str, repository: Repository) -> None:
    """Have the Hub validate a card; its warnings come with the commit.

    huggingface_hub does so too (2.4, `HfApi._validate_yaml`), but only after uploading all contents, and it parses
    the answer as JSON before it checks the status.
    """

    def ask() -> None:
        url = f"{repository.api.endpoint}/api/validate-yaml"
        payload = {"content": text, "repoType": "dataset"}
        try:
            hf_raise_for_status(get_session().post(url, json=payload, headers=build_hf_headers()))
        except HfHubHTTPError as error:
            if error.response.status_code != HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                raise
            raise BuildError(
                f"The Hub refuses the card of {repository.name} as too large (413): it has {len(text.encode()):,} "
                f"bytes, {front_matter_bytes(text):,} of them front matter. {_ADVICE}"
            ) from error

    with_retries(f"validate the card of {repository.name}", ask, repository.log)


def front_matter_bytes(text: str) -> int:
    """Return the bytes of a card's YAML, between its first two `---` lines."""
    return len(text.split("---\n", 2)[1].encode())


def read_back(repository: Repository, tag: str, commit: str, published: Path, root: Path) -> int:
    """Compare what a tag on the Hub has with the published manifest; returns the number of files.

    Compares the tag's commit, and the names, sizes and digests of all files; what these hold was checked before they
    were published. Small files, of which the Hub has no SHA-256, are downloaded to `root`.
    """
    named = repository.tags().get(tag)
    if named != commit:
        raise BuildError(
            f"The tag {tag} of {repository.name} names {(named or 'no commit')[:12]}, not commit {commit[:12]}. Run "
            "the same command again."
        )
    manifest, tree = parse(published.read_bytes(), str(published)), repository.tree(tag)
    problems = Snapshot(repository, commit, manifest, tree, root).check(manifest.files_and_card())
    problems.merge(check_manifest.check_unlisted(tree, manifest))
    if MANIFEST not in tree or not tree[MANIFEST].has_content_of(published):
        problems.add("manifest", f"{MANIFEST} is missing, or is not the published one")
    if problems.total():
        raise BuildError(
            f"{repository.name} at {tag} does not match its {MANIFEST}: {problems.first()}. Look at the "
            f"commit on {repository.host}, and publish the release again under the next version."
        )
    return len(tree)
