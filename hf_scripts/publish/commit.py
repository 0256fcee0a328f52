"""Publishes a release: uploads the contents, makes one commit with all changes, and sets the tag.

Nothing is visible before the commit, so an interrupted run leaves no partial release, and the next one skips what is
uploaded already. If somebody else committed in the meantime, the commit is refused.

Tested by `tests/hf_scripts/test_push.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import CommitOperationAdd

from builders.errors import BuildError, os_errors_as_build_errors
from builders.hub.repository import Info, Repository, addition
from builders.hub.retry import Log
from builders.release.entries import Manifest
from builders.release.layout import CARD, CROISSANT
from hf_scripts.checks import manifest as check_manifest
from hf_scripts.checks.problems import Problems
from hf_scripts.publish.access import check_access, check_published_images, log_access
from hf_scripts.publish.card_size import check_card_size, validate_on_hub
from hf_scripts.publish.licences import check_declared, with_declared_licences
from hf_scripts.publish.merged_release import (
    MergedRelease,
    Snapshot,
    changes_since,
    check_together,
    damaged_folder,
    damaged_repository,
    merge_with_published,
    snapshot,
    write_version,
)
from hf_scripts.publish.read_back import read_back
from hf_scripts.publish.tags import check_moved_tags, publish_title
from hf_scripts.publish.versions import Changes, Version, check_version, compare_manifests, latest
from unknown_detection.terminal.progress import bar
from unknown_detection.words import quantity


@dataclass(frozen=True)
class PublishRequest:
    """A request to publish: the release, its version, and the options of `push`."""

    folder: Path
    manifest: Manifest
    version: Version
    private: bool
    allow_demo: bool
    max_files: int
    dry_run: bool
    allow_moved_tags: bool = False


@dataclass(frozen=True)
class CommitPlan:
    """The changes of one commit: what they mean for the version, files to add, and paths to delete."""

    merged: MergedRelease
    change: str
    additions: tuple[CommitOperationAdd, ...]
    deletions: tuple[str, ...]

    @property
    def upload_bytes(self) -> int:
        """Bytes of the files to add."""
        return sum(addition.upload_info.size for addition in self.additions)

    @property
    def unchanged(self) -> int:
        """Number of files that stay as they are; the manifest is one, too."""
        return len(self.merged.manifest.files_and_card()) + 1 - len(self.additions)


@dataclass(frozen=True)
class Publishing:
    """Result of publishing or of a dry run.

    `plan` is None where the tag named this release before. `tagged` says whether it does now.
    """

    repository: str
    tag: str
    exists: bool
    plan: CommitPlan | None
    tagged: bool

    def document(self) -> dict[str, Any]:
        """Return what `--json` prints of a dry run."""
        plan = self.plan
        return {
            "repository": self.repository,
            "repository_exists": self.exists,
            "tag": self.tag,
            "published_already": plan is None,
            "change": "" if plan is None else plan.change,
            "upload": [] if plan is None else sorted(addition.path_in_repo for addition in plan.additions),
            "upload_bytes": 0 if plan is None else plan.upload_bytes,
            "delete": [] if plan is None else list(plan.deletions),
            "unchanged_files": None if plan is None else plan.unchanged,
        }


def publish(
    repository: Repository,
    request: PublishRequest,
    check_folder: Callable[[], object],
    scratch: Path,
    log: Log,
) -> Publishing:
    """Publish a release under a tag.

    Args:
        repository: the repository.
        request: the release and the options.
        check_folder: verifies the release folder, and raises if it is damaged. Called before anything is uploaded.
        scratch: an empty folder for temporary files.
        log: prints what will be done and what was done.

    Returns:
        What was published, or with a dry run would be.

    Raises:
        BuildError: the release cannot be published; the message says why and what to do.
    """
    tag = request.version.tag
    if repository.has_token() or not request.dry_run:
        repository.check_account()
    else:
        log("there is no token, so only public information is read")
    # Listed before the newest commit is read, so that no tag names a newer one.
    tags = repository.tags()
    info = repository.info()
    if info is not None and not request.dry_run:
        repository.check_write()
    log_access(repository, info, private=request.private, log=log)
    check_moved_tags(repository, tags, allowed=request.allow_moved_tags, log=log)
    check_declared(request.folder, request.manifest)
    check_published_images(repository, info, tags, tag, log)
    if tag in tags:
        with os_errors_as_build_errors("write files of that version to the temporary folder"):
            _check_published(repository, request, info, tags, scratch, log)
            return Publishing(repository.name, tag, exists=True, plan=None, tagged=True)
    with os_errors_as_build_errors("write the files of the next version to the temporary folder"):
        base = _newest(repository, info, scratch)
        plan = _plan(repository, request, base, tags, scratch, log)
    _log_plan(plan, request, log)
    _check_access(repository, request, info, plan.merged.manifest)
    card = (plan.merged.root / "README.md").read_text(encoding="utf-8")
    check_card_size(card, repository.name)
    if request.dry_run:
        log("nothing was changed (--dry-run)")
        return Publishing(repository.name, tag, exists=info is not None, plan=plan, tagged=False)
    if plan.additions or plan.deletions:
        validate_on_hub(card, repository)
        check_folder()
        check_together(plan.merged)
        commit = _commit(repository, request, info, plan, log)
    else:
        commit = _existing(info).head
        log("the commit exists already")
    _tag(repository, tag, commit)
    files = read_back(repository, tag, commit, plan.merged.root / "manifest.json", plan.merged.local, scratch / "back")
    log(f"{repository.name} {tag} is commit {commit[:12]}; its {files:,} files, read back, match manifest.json")
    return Publishing(repository.name, tag, exists=True, plan=plan, tagged=True)


def _check_published(
    repository: Repository,
    request: PublishRequest,
    info: Info | None,
    tags: dict[str, str],
    scratch: Path,
    log: Log,
) -> None:
    """Check that an existing tag names this release."""
    tag = request.version.tag
    published = snapshot(repository, tags[tag], scratch / "tag")
    merged = merge_with_published(request.folder, request.manifest, published, _empty(scratch / "merged"))
    changes = compare_manifests(with_declared_licences(published.manifest), with_declared_licences(merged.manifest))
    _check_access(repository, request, info, published.manifest)
    if changes.level:
        last = latest(tags) or request.version
        free = last.next(changes.level).tag
        raise BuildError(
            f"{repository.name} has another release under the tag {tag} ({changes.reason()}). A published version "
            f"never changes: publish with --tag {free} or higher."
        )
    files = read_back(
        repository, tag, tags[tag], published.fetch("manifest.json"), lambda _: None, _empty(scratch / "back")
    )
    log(f"{repository.name} {tag} is commit {tags[tag][:12]} and has this release already; nothing was changed")
    log(f"its {files:,} files, read back, match manifest.json")


def _newest(repository: Repository, info: Info | None, scratch: Path) -> Snapshot | None:
    """Return the release at the newest commit, of which each file must be part: a push deletes what its own lacks."""
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
) -> CommitPlan:
    manifest = with_declared_licences(request.manifest)
    merged = merge_with_published(request.folder, manifest, base, _empty(scratch / "merged"))
    last_version = latest(tags)
    last, changes = None, Changes()
    if last_version is not None:
        commit = tags[last_version.tag]
        published = base if base and base.commit == commit else snapshot(repository, commit, scratch / "last")
        last, changes = (last_version, published), changes_since(merged, published)
    check_version(request.version, last_version, changes)
    write_version(merged, repository.name, request.version, last, changes)
    change = (
        f"{changes.level} change since {last_version.tag}: {changes.reason()}" if last_version else "first release"
    )
    log(f"{request.version.tag}: {change}")
    return _changed_files(merged, change)


def _changed_files(merged: MergedRelease, change: str) -> CommitPlan:
    """Plan the commit that turns the repository's files into those of the merged release."""
    tree = merged.base.tree if merged.base else {}
    known = {file.path: file.sha256 for file in merged.manifest.files()}
    paths = sorted({*known, CARD, CROISSANT, "manifest.json"})
    additions = []
    for path in paths:
        local = merged.local(path)
        if local is None:
            continue  # it stays
        if not local.is_file():
            raise damaged_folder(merged.folder, Problems({"file": [f"{path} is missing"]}, {"file": 1}))
        if path not in tree or not tree[path].has_content_of(local, known.get(path, "")):
            additions.append(addition(path, local, known.get(path, "")))
    _check_staying(merged)
    return CommitPlan(merged, change, tuple(additions), tuple(sorted(tree.keys() - set(paths))))


def _check_staying(merged: MergedRelease) -> None:
    """Check that the repository has the files that the merged release keeps from it."""
    staying = [file for file in merged.manifest.files() if merged.local(file.path) is None]
    if staying and merged.base is not None:
        problems = Problems()
        for file in staying:
            problems.merge(check_manifest.check_stored(file, merged.base.tree))
        if problems.total():
            raise damaged_repository(f"{merged.base.repository.name} at {merged.base.commit[:12]}", problems)


def _check_access(repository: Repository, request: PublishRequest, info: Info | None, manifest: Manifest) -> None:
    check_access(repository, info, manifest, private=request.private, allow_demo=request.allow_demo)


def _log_plan(plan: CommitPlan, request: PublishRequest, log: Log) -> None:
    files = len(plan.additions)
    commits = 1 if files or plan.deletions else 0
    log(
        f"to upload: {quantity(files, 'file')}, {quantity(plan.upload_bytes, 'byte')}, in "
        f"{quantity(commits, 'commit')}; unchanged: {quantity(plan.unchanged, 'file')}; "
        f"to delete: {len(plan.deletions):,}"
    )
    if files > request.max_files:
        raise BuildError(
            f"{request.folder} has {files:,} files to upload, more than {request.max_files:,}. Choose fewer "
            f"with --splits, or allow them with --max-files {files}."
        )


def _commit(repository: Repository, request: PublishRequest, info: Info | None, plan: CommitPlan, log: Log) -> str:
    """Upload contents, and return the commit that has them."""
    if info is None:
        repository.create(private=request.private)
        info = repository.info()
        # Somebody else may have created it in the meantime, with other settings.
        _check_access(repository, request, info, plan.merged.manifest)
        if repository.tree(_existing(info).head):
            raise _conflict(repository)
    with bar(plan.upload_bytes, "uploading", unit="B") as shown:
        for size in repository.upload(plan.additions):
            shown.update(size)
    parent = _existing(info).head
    title = publish_title(request.version.tag)
    commit = repository.commit(plan.additions, plan.deletions, title=title, parent=parent)
    if commit is not None:
        return commit
    # `parent` is outdated: either this very commit was made and its answer lost, or somebody else committed.
    newest = _existing(repository.info()).head
    if newest != parent and _is_planned(repository, newest, plan):
        log("the answer to the commit was lost, but the commit was made")
        return newest
    raise _conflict(repository)


def _is_planned(repository: Repository, commit: str, plan: CommitPlan) -> bool:
    """Whether a commit has the planned release, by its manifest, which has the digests of all other files."""
    manifest = repository.tree(commit).get("manifest.json")
    return manifest is not None and manifest.has_content_of(plan.merged.root / "manifest.json")


def _conflict(repository: Repository) -> BuildError:
    return BuildError(
        f"Somebody else committed to {repository.name} in the meantime, so nothing of this release was published. Run "
        "the same command again: it merges with that commit and uploads no file twice."
    )


def _tag(repository: Repository, tag: str, commit: str) -> None:
    named = repository.tag(tag, commit)
    if named != commit:
        raise BuildError(
            f"Another publisher set the tag {tag} of {repository.name} to {named[:12] or 'no commit'} in the "
            f"meantime, so commit {commit[:12]} has no tag. If theirs is a mistake, delete it on the Hub and run the "
            "same command again; otherwise publish under another tag, with --allow-moved-tags."
        )


def _existing(info: Info | None) -> Info:
    if info is None:
        raise BuildError("The repository was deleted or renamed during this run. Look for it on the Hub.")
    return info


def _empty(path: Path) -> Path:
    path.mkdir(parents=True)
    return path
