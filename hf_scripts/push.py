"""Publish a release on the Hugging Face Hub: `python -m hf_scripts.push DIR --repo ORG/NAME --tag v1.0.0`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import click

from builders.card.facts import configs_to_load
from builders.cli.console import check_json, exit_code, json_option, print_document
from builders.cli.executor_flags import workers_option
from builders.cli.split_choice import splits_option
from builders.errors import BuildError
from builders.hub.place import Granted, is_repository
from builders.release.manifest import read_manifest
from builders.storage.paths import LOCAL
from builders.storage.scratch import scratch_folder
from hf_scripts.checks.problems import Problems
from hf_scripts.checks.run import verify_folder
from hf_scripts.publish.merge import chosen_part, without_images
from hf_scripts.publish.versions import requested_version
from unknown_detection.help import ESSENTIALS, helpful
from unknown_detection.terminal.progress import log, result


@helpful(
    "python -m hf_scripts.push",
    sections={
        ESSENTIALS: ("repo", "tag", "splits", "private", "gated", "dry_run"),
        "What is allowed": ("index_only", "allow_demo", "allow_moved_tags", "allow_withdrawn", "max_files"),
        "How it runs": ("check", "workers", "as_json"),
    },
    examples=(
        "python -m hf_scripts.push build/unknown-detection --repo org/unknown-detection --tag v1.0.0 --dry-run",
        "python -m hf_scripts.push build/unknown-detection --repo org/unknown-detection --tag v1.0.0 --private",
    ),
)
@click.argument("folder", metavar="DIR", type=LOCAL)
@click.option("--repo", required=True, metavar="ORG/NAME", help="Dataset repository; created if it does not exist.")
@click.option(
    "--tag",
    required=True,
    metavar="vX.Y.Z",
    help="The version: changed rows are major, new splits minor, others patch.",
)
@click.option("--private", is_flag=True, help="Create the repository as private.")
@click.option(
    "--gated",
    type=click.Choice(get_args(Granted)),
    help="Have people ask for access to a new repository: granted at once (auto) or by you (manual). The card shows "
    "the terms of sources that need it.",
)
@splits_option("Publish only these; others stay unchanged.")
@click.option("--index-only", is_flag=True, help="Publish rows without images.")
@click.option(
    "--allow-demo",
    is_flag=True,
    help="Publish a release of demo sources in a public or gated repository, as far as licences allow its images.",
)
@click.option("--allow-moved-tags", is_flag=True, help="Publish although a version tag was moved on the Hub.")
@click.option("--allow-withdrawn", is_flag=True, help="Publish images again that the repository has withdrawn.")
@click.option("--dry-run", is_flag=True, help="Print what would be uploaded, and change nothing.")
@json_option(only="--dry-run")
@click.option(
    "--check",
    type=click.Choice(["fast", "decode"]),
    default="decode",
    show_default=True,
    help="How the folder is checked first. fast: bytes and digests. decode: every image, too.",
)
@click.option(
    "--max-files",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Refuse to upload more files than this.",
)
@workers_option("Processes that check the folder.")
def command(
    folder: Path,
    repo: str,
    tag: str,
    private: bool,
    gated: Granted | None,
    splits: Sequence[str],
    index_only: bool,
    allow_demo: bool,
    allow_moved_tags: bool,
    allow_withdrawn: bool,
    dry_run: bool,
    as_json: bool,
    check: str,
    max_files: int,
    workers: int,
) -> int:
    """Publish the release in DIR as a version of a dataset repository on the Hub.

    Splits that only the repository has stay. After an interruption, run the same command again: it uploads no file
    twice. The Hub is that of HF_ENDPOINT, the token that of `hf auth login` or HF_TOKEN.
    """
    # Imported here because huggingface_hub takes half a second, for which --help should not wait.
    from builders.hub.client import hub_settings
    from builders.hub.repository import Repository
    from hf_scripts.publish.commit import Publication
    from hf_scripts.publish.merged_release import damaged_folder

    check_json(as_json=as_json, dry_run=dry_run)
    version = requested_version(tag)
    if not is_repository(repo):
        raise BuildError(f"{repo} is not the name of a repository. Give ORG/NAME with --repo.")
    manifest = read_manifest(folder)
    chosen = chosen_part(manifest, splits, str(folder))
    part = without_images(chosen) if index_only else chosen

    def check_folder() -> None:
        decode = check == "decode"
        problems = verify_folder(folder, (), Problems(), name=folder, decode=decode, workers=workers).problems
        if problems.total():
            raise damaged_folder(folder, problems)
        click.echo(f"verified {folder}" + ("" if decode else "; no image was decoded (--check fast)"))

    with scratch_folder("push") as scratch, hub_settings():
        document = Publication(
            repository=Repository(repo, log),
            folder=folder,
            manifest=part,
            version=version,
            private=private,
            gated=gated,
            allow_demo=allow_demo,
            allow_moved_tags=allow_moved_tags,
            allow_withdrawn=allow_withdrawn,
            max_files=max_files,
            dry_run=dry_run,
            scratch=scratch,
            log=log if as_json else result,
        ).run(check_folder)
    if as_json:
        print_document("push", document)
    elif not dry_run or document["published_already"]:
        example = configs_to_load(part)[0]
        click.echo(f'load_dataset("{repo}", "{example.config}", split="{example.shown}", revision="{tag}")')
    return 0


main = functools.partial(exit_code, command, stopped="stopped; run the same command again, and it resumes.")
"""Runs the command line; returns its exit code."""


if __name__ == "__main__":
    sys.exit(main())
