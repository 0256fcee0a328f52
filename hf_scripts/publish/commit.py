"""Publishes a release: uploads the contents, makes one commit with all changes, and sets the tag.

Nothing is visible before the commit, so an interrupted run leaves no partial release, and the next one skips what is
uploaded already. If somebody else committed in the meantime, the commit is refused. A change that is too large for one
commit goes to the branch of a pull request, whose merge is the one commit.

Tested by `tests/hf_scripts/test_push.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from builders.errors import BuildError, os_errors_as_build_errors
from builders.hub.place import Granted
from builders.hub.pull_request import PART, Change, merge_in_parts
from builders.hub.repository import Addition, Info, Repository
from builders.hub.retry import Log
from builders.release.entries import EMPTY, Manifest
from builders.release.layout import CARD, DESCRIPTIONS, MANIFEST
from hf_scripts.checks import manifest as check_manifest
from hf_scripts.checks.problems import Problems
from hf_scripts.publish.licences import check_declared, check_demo, check_licences, with_declared_licences
from hf_scripts.publish.merged_release import (
    MergedRelease,
    changes_since,
    check_together,
    check_withdrawn,
    damaged_folder,
    merge_with_published,
    write_version,
)
from hf_scripts.publish.remote import (
    check_card_size,
    check_moved_tags,
    exposed_images,
    publish_title,
    read_back,
    validate_on_hub,
)
from hf_scripts.publish.snapshot import Snapshot, damaged_repository, snapshot
from hf_scripts.publish.versions import Changes, Version, check_version, compare_manifests, latest
from unknown_detection.terminal.progress import bar
from unknown_detection.words import quantity

_GRANTS = {
    "": "asks nobody to request access",
    "auto": "grants requests for access at once",
    "manual": "has its owner grant requests for access",
}
"""What a repository does by its setting `gated`, in the words of a message."""


@dataclass(frozen=True)
class CommitPlan:
    """The changes of one commit: what they mean for the version, files to add with their bytes, and paths to delete.

    `unchanged` is the number of files that stay as they are.
    """

    merged: MergedRelease
    change: str
    additions: tuple[Addition, ...]
    deletions: tuple[str, ...]
    upload_bytes: int
    unchanged: int


@dataclass(frozen=True)
class Publication:
    """A release to publish, the part of its manifest to publish, its version, and the options of `push`.

    `scratch` is an empty folder for temporary files.
    """

    repository: Repository
    folder: Path
    manifest: Manifest
    version: Version
    private: bool
    gated: Granted | None
    allow_demo: bool
    allow_moved_tags: bool
    allow_withdrawn: bool
    max_files: int
    dry_run: bool
    scratch: Path
    log: Log

    def run(self, check_folder: Callable[[], object]) -> dict[str, Any]:
        """Publish the release, or with `dry_run` say what would be done; returns what `--json` prints.

        `check_folder` verifies the release folder, and raises if it is damaged; it is called before any upload.
        """
        repository, tag = self.repository, self.version.tag
        account = ""
        if repository.has_token() or not self.dry_run:
            account = repository.check_account()
        else:
            self.log("there is no token, so only public information is read")
        # Listed before the newest commit is read, so that no tag names a newer one.
        tags = repository.tags()
        info = repository.info()
        if info is not None and info.name != repository.name:
            raise BuildError(
                f"{repository.name} is called {info.name} on {repository.host}, which answers to former and similar "
                f"names, too. Give --repo {info.name}."
            )
        if info is not None and not self.dry_run:
            repository.check_write()
        to_gate = self._is_to_gate(info)
        if info is None:
            kind = "private" if self.private else "public, unless its owner's default is private"
            asks = f", and ask for access ({self.gated})" if to_gate else ""
            self.log(f"{repository.name} does not exist on {repository.host} yet; it will be {kind}{asks}")
        else:
            asks = f"; as it is empty, it will ask for access ({self.gated})" if to_gate else ""
            self.log(f"{repository.name} is on {repository.host}, {info.access}{asks}")
        check_moved_tags(repository, tags, allowed=self.allow_moved_tags, log=self.log)
        check_declared(self.folder, self.manifest)
        exposed = exposed_images(repository, info, tags)
        for sentence in (exposed[other] for other in exposed if other != tag):
            self.log(f"note: {sentence}")
        if tag in exposed:
            raise BuildError(exposed[tag])
        writing = "write files of the next version to the temporary folder"
        with os_errors_as_build_errors(writing):
            if tag in tags:
                self._check_published(info, tags)
                return self._document(None, exists=True)
            plan = self._plan(info, tags)
        self._log_plan(plan)
        self._check_access(info, plan.merged.manifest, to_gate=to_gate)
        card = (plan.merged.root / CARD).read_text(encoding="utf-8")
        check_card_size(card, repository.name)
        if self.dry_run:
            self.log("nothing was changed (--dry-run)")
            return self._document(plan, exists=info is not None)
        if plan.additions or plan.deletions:
            validate_on_hub(card, repository)
            check_folder()
            with os_errors_as_build_errors(writing):
                check_together(plan.merged)
            commit = self._commit(info, tags, plan, account, to_gate=to_gate)
        else:
            commit = _existing(info).head
            self.log("the commit exists already")
        if (named := repository.tag(tag, commit)) != commit:
            raise BuildError(
                f"Another publisher set the tag {tag} of {repository.name} to {named[:12] or 'no commit'} in the "
                f"meantime, so commit {commit[:12]} has no tag. If theirs is a mistake, delete it on the Hub and run "
                "the same command again; otherwise publish under another tag, with --allow-moved-tags."
            )
        files = read_back(repository, tag, commit, plan.merged.root / MANIFEST, self.scratch / "back")
        self.log(
            f"{repository.name} {tag} is commit {commit[:12]}; its {files:,} files, read back, match manifest.json"
        )
        return self._document(plan, exists=True)

    def _document(self, plan: CommitPlan | None, *, exists: bool) -> dict[str, Any]:
        return {
            "repository": self.repository.name,
            "repository_exists": exists,
            "tag": self.version.tag,
            "published_already": plan is None,
            "change": "" if plan is None else plan.change,
            "upload": [] if plan is None else sorted(addition.path_in_repo for addition in plan.additions),
            "upload_bytes": 0 if plan is None else plan.upload_bytes,
            "delete": [] if plan is None else list(plan.deletions),
            "unchanged_files": None if plan is None else plan.unchanged,
        }

    def _is_to_gate(self, info: Info | None) -> bool:
        """Whether the repository is new, or was left empty by a killed run, and is to ask for access."""
        if self.gated is None or (info is not None and info.gated):
            return False
        return info is None or not self.repository.tree(info.head)

    def _check_access(self, info: Info | None, manifest: Manifest, *, to_gate: bool = False) -> None:
        """Check that a release may be published in the repository as it is, or as it will be."""
        before = Info("", self.private, "") if info is None else info
        planned = replace(before, gated=self.gated or "") if to_gate else before
        access, name = planned.access, self.repository.name
        check_demo(manifest, access, name, allowed=self.allow_demo)
        check_licences(manifest, access, name)
        if self.private and access != "private":
            raise BuildError(
                f"{name} is {access} on {self.repository.host}, and --private does not change an existing "
                "repository. Make it private in its settings there, or give another --repo."
            )
        if self.gated and planned.gated != self.gated:
            raise BuildError(
                f"{name} {_GRANTS[planned.gated]} on {self.repository.host}, and --gated {self.gated} does not change "
                "a repository that has files. Change it in its settings there, or give another --repo."
            )

    def _check_published(self, info: Info | None, tags: Mapping[str, str]) -> None:
        """Check that an existing tag names this release."""
        tag, name = self.version.tag, self.repository.name
        published = snapshot(self.repository, tags[tag], self.scratch / "tag")
        merged = merge_with_published(self.folder, self.manifest, published, self.scratch / "merged")
        changes = compare_manifests(
            with_declared_licences(published.manifest), with_declared_licences(merged.manifest)
        )
        self._check_access(info, published.manifest)
        if changes.level:
            free = (latest(tags) or self.version).next(changes.level).tag
            raise BuildError(
                f"{name} has another release under the tag {tag} ({changes.reason()}). A published version "
                f"never changes: publish with --tag {free} or higher."
            )
        manifest = published.fetch(MANIFEST)
        files = read_back(self.repository, tag, tags[tag], manifest, self.scratch / "back")
        self.log(f"{name} {tag} is commit {tags[tag][:12]} and has this release already; nothing was changed")
        self.log(f"its {files:,} files, read back, match manifest.json")

    def _plan(self, info: Info | None, tags: Mapping[str, str]) -> CommitPlan:
        """Merge the release with the newest one there, and plan the commit that turns that into this version."""
        base = self._newest(info)
        manifest = with_declared_licences(self.manifest)
        merged = merge_with_published(self.folder, manifest, base, self.scratch / "merged")
        if not self.allow_withdrawn:
            check_withdrawn(merged)
        last_version = latest(tags)
        last, changes, change = None, Changes(), "first release"
        edited = base.edited()
        if last_version is not None:
            commit = tags[last_version.tag]
            published = base if base.commit == commit else snapshot(self.repository, commit, self.scratch / "last")
            last, changes = (last_version, published), changes_since(merged, published)
            if not changes.level:  # but the branch main has other files
                changes = Changes(patch=tuple(edited))
            change = f"{changes.level} change since {last_version.tag}: {changes.reason()}"
        check_version(self.version, last_version, changes)
        write_version(merged, self.repository.name, self.version, last, changes)
        self.log(f"{self.version.tag}: {change}")
        tree = base.tree
        known = {file.path: file.sha256 for file in merged.manifest.files()}
        paths = sorted({*known, *DESCRIPTIONS.values(), MANIFEST})
        additions = []
        for path in paths:
            if (local := merged.local(path)) is not None and not local.is_file():
                raise damaged_folder(merged.folder, Problems({"file": [f"{path} is missing"]}, {"file": 1}))
            if local and (path not in tree or not tree[path].has_content_of(local, known.get(path, ""))):
                additions.append(Addition(path, local, known.get(path, "")))
        problems = base.check(file for file in merged.manifest.files() if merged.local(file.path) is None)  # they stay
        if problems.total():
            raise damaged_repository(base, problems)
        for path in edited:
            self.log(f"note: {path} of {self.repository.name} is not as it was published; this version replaces it")
        upload_bytes = sum(addition.upload_info.size for addition in additions)
        deletions = tuple(sorted(tree.keys() - set(paths)))
        return CommitPlan(merged, change, tuple(additions), deletions, upload_bytes, len(paths) - len(additions))

    def _newest(self, info: Info | None) -> Snapshot:
        """Return the release at the newest commit, of which each file must be part: a push deletes what its own lacks.

        Without a repository it is one without splits.
        """
        if info is None:
            return Snapshot(self.repository, "", EMPTY, {}, self.scratch / "head")
        base = snapshot(self.repository, info.head, self.scratch / "head")
        if base.manifest.card is not None:
            strays = check_manifest.check_unlisted(base.tree, base.manifest)
            if strays.total():
                raise damaged_repository(base, strays)
        return base

    def _log_plan(self, plan: CommitPlan) -> None:
        files = len(plan.additions)
        changes = files + len(plan.deletions)
        commits = quantity(-(-changes // PART), "commit")
        way = f"a pull request of {commits} and one merge" if changes > PART else commits
        self.log(
            f"to upload: {quantity(files, 'file')}, {quantity(plan.upload_bytes, 'byte')}, in {way}; "
            f"unchanged: {quantity(plan.unchanged, 'file')}; to delete: {len(plan.deletions):,}"
        )
        if files > self.max_files:
            raise BuildError(
                f"{self.folder} has {files:,} files to upload, more than {self.max_files:,}. Choose fewer "
                f"with --splits, or allow them with --max-files {files}."
            )

    def _commit(
        self, info: Info | None, tags: Mapping[str, str], plan: CommitPlan, account: str, *, to_gate: bool
    ) -> str:
        """Upload contents, and return the commit that has them; none is made where a tag was set meanwhile."""
        repository = self.repository
        if info is None or to_gate:
            info = self._prepared(info, plan, to_gate=to_gate)
        title, tree = publish_title(self.version.tag), plan.merged.base.tree
        change = Change(title, info.head, tags, tree, plan.additions, plan.deletions)
        commit = None
        with bar(plan.upload_bytes, "uploading", unit="B") as shown:
            if change.in_parts:
                commit = merge_in_parts(repository, account, change, shown.update)
            else:
                for size in repository.upload(plan.additions):
                    shown.update(size)
                if repository.tags() == tags:
                    commit = repository.commit(plan.additions, plan.deletions, title=title, parent=info.head)
        if commit is not None:
            return commit
        # This very change was made, by an attempt whose answer was lost or by another run, or somebody else's was.
        newest = _existing(repository.info()).head
        if newest == info.head or not change.makes(repository.tree(newest)):
            raise self._conflict()
        self.log("the commit exists already")
        return newest

    def _prepared(self, info: Info | None, plan: CommitPlan, *, to_gate: bool) -> Info:
        """Create the repository, unless a killed run did, and have it ask for access before it has a file."""
        repository = self.repository
        if info is None:
            repository.create(private=self.private)
        if to_gate and self.gated is not None:
            repository.gate(self.gated)
        info = _existing(repository.info())
        # Somebody else may have created it in the meantime, with other settings.
        self._check_access(info, plan.merged.manifest)
        if repository.tree(info.head):
            raise self._conflict()
        return info

    def _conflict(self) -> BuildError:
        return BuildError(
            f"Somebody else committed to {self.repository.name} or tagged it in the meantime, so {self.version.tag} "
            "was not published. Run the same command again: it merges with that and uploads no file twice."
        )


def _existing(info: Info | None) -> Info:
    if info is None:
        raise BuildError("The repository was deleted or renamed during this run. Look for it on the Hub.")
    return info
