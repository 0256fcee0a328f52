"""Publishes a release: contents first, then one commit with everything that changes, then the tag.

Nothing is visible before the commit, and all of it after, so a run that is cut off leaves no half of a release, and
another finds on the Hub what has been sent. The commit is refused where somebody else committed meanwhile.

Tested by `tests/hf_scripts/test_push.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CommitOperationAdd

from builders.errors import BuildError, os_errors_as_build_errors
from builders.release.entries import Manifest
from hf_scripts.checks import manifest as check_manifest
from hf_scripts.checks.problems import Problems
from hf_scripts.hub.repository import Info, Repository, addition
from hf_scripts.hub.retry import Log
from hf_scripts.publish.card_size import check_card_size, validate_on_hub
from hf_scripts.publish.licences import access_of, check_demo, check_licences
from hf_scripts.publish.merged_release import (
    MergedRelease,
    Snapshot,
    check_together,
    damaged_folder,
    damaged_repository,
    differences,
    merge_with_published,
    sizes_and_digests,
    snapshot,
    write_version,
)
from hf_scripts.publish.read_back import read_back
from hf_scripts.publish.versions import Changes, Version, check_version, compare, latest

Progress = Callable[[int, int], object]
"""Called with the bytes sent since the last call, and with those of the whole release."""


@dataclass(frozen=True)
class PublishRequest:
    """What is to be published, and how far the publisher wants to go."""

    folder: Path
    manifest: Manifest
    version: Version
    private: bool
    allow_demo: bool
    max_files: int
    dry_run: bool


@dataclass(frozen=True)
class Plan:
    """What one commit does to a repository: files to add, and paths to delete."""

    merged: MergedRelease
    additions: tuple[CommitOperationAdd, ...]
    deletions: tuple[str, ...]


def publish(
    repository: Repository,
    request: PublishRequest,
    check_folder: Callable[[], object],
    scratch: Path,
    log: Log,
    progress: Progress,
) -> bool:
    """Publish a release under a tag.

    Args:
        repository: where to.
        request: what.
        check_folder: looks whether the release is whole, and raises where it is not. Called before anything is sent.
        scratch: an empty folder.
        log: told of what is about to be done and what was done.
        progress: told of bytes as they are sent.

    Returns:
        Whether the tag names the release now; not so after a dry run.

    Raises:
        BuildError: with what to do about it.
    """
    tag = request.version.tag
    if repository.has_token() or not request.dry_run:
        repository.check_account()
    else:
        log("there is no token, so this looks at what anybody sees")
    # Before the newest commit, so that no tag can be of a commit that is newer still.
    tags = repository.tags()
    info = repository.info()
    if info is not None and not request.dry_run:
        repository.check_write()
    _log_access(repository, request, info, log)
    if tag in tags:
        with os_errors_as_build_errors("write files of that version to the temporary folder"):
            return _check_published(repository, request, tags, scratch, log)
    with os_errors_as_build_errors("write the files of the next version to the temporary folder"):
        base = _newest(repository, info, scratch)
        plan = _plan(repository, request, base, tags, scratch, log)
    _log_plan(plan, request, log)
    _check_access(repository, request, info, plan.merged.manifest)
    card = (plan.merged.root / "README.md").read_text(encoding="utf-8")
    check_card_size(card, repository.name)
    if request.dry_run:
        log("nothing was changed (--dry-run)")
        return False
    if plan.additions or plan.deletions:
        validate_on_hub(card, repository)
        check_folder()
        check_together(plan.merged)
        commit = _commit(repository, request, info, plan, log, progress)
    else:
        commit = _head(info)
        log("the commit is there already")
    _tag(repository, tag, commit)
    files = read_back(repository, tag, commit, plan.merged.root / "manifest.json", plan.merged.local, scratch / "back")
    log(f"{repository.name} {tag} is commit {commit[:12]}; read back, its {files:,} files are as manifest.json says")
    return True


def _check_published(
    repository: Repository, request: PublishRequest, tags: dict[str, str], scratch: Path, log: Log
) -> bool:
    """Find that the tag has this release, or refuse."""
    tag = request.version.tag
    there = snapshot(repository, tags[tag], scratch / "tag")
    merged = merge_with_published(request.folder, request.manifest, there, _empty(scratch / "merged"))
    changes = compare(there.manifest, merged.manifest)
    if changes.level:
        last = latest(tags) or request.version
        free = last.next(changes.level).tag
        raise BuildError(
            f"expected the tag {tag} of {repository.name} to be free or to have this release, found one that differs "
            f"({changes.reason()}); a version is never changed, so publish with --tag {free} or higher."
        )
    files = read_back(
        repository, tag, tags[tag], there.fetch("manifest.json"), lambda _: None, _empty(scratch / "back")
    )
    log(f"{repository.name} {tag} is commit {tags[tag][:12]} and has this release already; nothing was changed")
    log(f"read back, its {files:,} files are as manifest.json says")
    return True


def _newest(repository: Repository, info: Info | None, scratch: Path) -> Snapshot | None:
    """What the repository holds now; files that are no part of a release are nobody's to delete, and so refused."""
    if info is None:
        return None
    base = snapshot(repository, info.head, scratch / "head")
    if base.manifest.card is not None and (strays := check_manifest.check_unlisted(base.tree, base.manifest)).total():
        raise damaged_repository(f"{repository.name} at {info.head[:12]}", strays)
    return base


def _plan(
    repository: Repository,
    request: PublishRequest,
    base: Snapshot | None,
    tags: dict[str, str],
    scratch: Path,
    log: Log,
) -> Plan:
    merged = merge_with_published(request.folder, request.manifest, base, _empty(scratch / "merged"))
    last_version = latest(tags)
    last, changes = None, Changes()
    if last_version is not None:
        commit = tags[last_version.tag]
        same = base is not None and base.commit == commit
        there = base if base is not None and same else snapshot(repository, commit, scratch / "last")
        last, changes = (last_version, there), differences(merged, there)
    check_version(request.version, last_version, changes)
    write_version(merged, request.version, last, changes)
    what = f"{changes.level} change since {last_version.tag}: {changes.reason()}" if last_version else "first release"
    log(f"{request.version.tag}: {what}")
    return _changed_files(merged)


def _changed_files(merged: MergedRelease) -> Plan:
    """What the repository lacks of the merged release, and what it has too much."""
    tree = merged.base.tree if merged.base else {}
    known = {file.path: file.sha256 for file in merged.manifest.files()}
    paths = sorted({*known, "README.md", "manifest.json"})
    additions = []
    for path in paths:
        local = merged.local(path)
        if local is None:
            continue  # it stays
        if not local.is_file():
            raise damaged_folder(merged.folder, f"{path}: expected a file, found none")
        if path not in tree or not tree[path].has_content_of(local, known.get(path, "")):
            additions.append(addition(path, local, known.get(path, "")))
    _check_staying(merged)
    return Plan(merged, tuple(additions), tuple(sorted(tree.keys() - set(paths))))


def _check_staying(merged: MergedRelease) -> None:
    """Refuse to list files that the repository does not have, or has with other contents."""
    staying = [f for f in merged.manifest.files() if merged.local(f.path) is None]
    if staying and merged.base is not None:
        tree = sizes_and_digests(merged.base.tree)
        problems = Problems()
        for file in staying:
            problems.merge(check_manifest.check_stored(file, tree))
        if problems.total():
            raise damaged_repository(f"{merged.base.repository.name} at {merged.base.commit[:12]}", problems)


def _log_access(repository: Repository, request: PublishRequest, info: Info | None, log: Log) -> None:
    if info is None:
        kind = "private" if request.private else "public, unless its owner's default is private"
        log(f"{repository.name} is not on {repository.host} yet; it will be {kind}")
        return
    access = access_of(private=info.private, gated=info.gated)
    log(f"{repository.name} is on {repository.host}, {access}")


def _check_access(repository: Repository, request: PublishRequest, info: Info | None, manifest: Manifest) -> None:
    private = info.private if info else request.private
    access = access_of(private=private, gated=info.gated if info else False)
    if request.private and not private:
        raise BuildError(
            f"expected {repository.name} to be private as --private says, found it {access} on {repository.host}, "
            "which --private does not change; make it private in its settings there, or give another --repo."
        )
    check_licences(manifest, access, repository.name)
    check_demo(manifest, access, repository.name, allowed=request.allow_demo)


def _log_plan(plan: Plan, request: PublishRequest, log: Log) -> None:
    files = len(plan.additions)
    size = sum(addition.upload_info.size for addition in plan.additions)
    stay = len(plan.merged.manifest.files()) + 2 - files
    commits = 1 if files or plan.deletions else 0
    log(
        f"to send: {files:,} files, {size:,} bytes, in {commits} commit{'' if commits == 1 else 's'}; {stay:,} files "
        f"stay, {len(plan.deletions):,} go"
    )
    if files > request.max_files:
        raise BuildError(
            f"expected at most {request.max_files:,} files to send, found {files:,} in {request.folder}; build larger "
            f"shards, publish some --configs, or say --max-files {files}."
        )


def _commit(
    repository: Repository, request: PublishRequest, info: Info | None, plan: Plan, log: Log, progress: Progress
) -> str:
    """Send contents and commit; returns the commit."""
    if info is None:
        repository.create(private=request.private)
        info = repository.info()
        # Somebody else may have created it a moment ago, and it is as they made it.
        _check_access(repository, request, info, plan.merged.manifest)
        if repository.tree(_head(info)):
            raise _conflict(repository)
    total = sum(addition.upload_info.size for addition in plan.additions)
    for size in repository.upload(plan.additions):
        progress(size, total)
    parent = _head(info)
    title = f"Publish {request.version.tag}"
    commit = repository.commit(plan.additions, plan.deletions, title=title, parent=parent)
    if commit is not None:
        return commit
    # Refused because `parent` is outdated: by this very commit where its answer was lost, else by another's.
    newest = _head(repository.info())
    if newest != parent and _has(repository, newest, plan):
        log("the answer to the commit was lost, and the commit is there")
        return newest
    raise _conflict(repository)


def _has(repository: Repository, commit: str, plan: Plan) -> bool:
    """Whether a commit holds the planned release: its manifest tells all other files."""
    manifest = repository.tree(commit).get("manifest.json")
    return manifest is not None and manifest.has_content_of(plan.merged.root / "manifest.json")


def _conflict(repository: Repository) -> BuildError:
    return BuildError(
        f"expected nobody else to commit to {repository.name} meanwhile, found a newer commit there, and nothing of "
        "this release was published; run the same command again, which merges with that commit and sends no file "
        "twice."
    )


def _tag(repository: Repository, tag: str, commit: str) -> None:
    named = repository.tag(tag, commit)
    if named != commit:
        raise BuildError(
            f"expected the tag {tag} of {repository.name} to be free for commit {commit[:12]}, found that another "
            f"publisher set it to {named[:12] or 'none'} meanwhile; run the same command again, which says whether "
            "that version has this release and which tag is free."
        )


def _head(info: Info | None) -> str:
    if info is None:
        raise BuildError("expected the repository that was just there, found none; look at it on the Hub.")
    return info.head


def _empty(path: Path) -> Path:
    path.mkdir(parents=True)
    return path
