"""Publish a release on the Hugging Face Hub: `python -m hf_scripts.push DIR --repo ORG/NAME --tag v1.0.0`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from builders.card.front_matter import front_matter
from builders.cli.runner import exit_code
from builders.errors import BuildError
from builders.executors.cores import usable_cores
from builders.release.entries import Manifest
from builders.release.manifest import read_manifest
from builders.storage.scratch import scratch_folder
from hf_scripts import verify
from hf_scripts.hub.repo_id import is_repository
from hf_scripts.publish.merge import chosen_configs, without_images
from hf_scripts.publish.versions import requested_version


@click.command(
    name="python -m hf_scripts.push",
    epilog="Example: python -m hf_scripts.push build/unknown-detection --repo org/unknown-detection --tag v1.0.0 "
    "--private",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--repo", required=True, metavar="ORG/NAME", help="Dataset repository; created if it does not exist.")
@click.option(
    "--tag",
    required=True,
    metavar="vX.Y.Z",
    help="The version: changed rows are major, new splits minor, others patch.",
)
@click.option("--private", is_flag=True, help="Create the repository as private.")
@click.option("--configs", metavar="NAME,...", default="", help="Publish only these configs; others stay unchanged.")
@click.option("--index-only", is_flag=True, help="Publish rows without images.")
@click.option("--allow-demo", is_flag=True, help="Publish a release of demo sources in a public or gated repository.")
@click.option("--allow-moved-tags", is_flag=True, help="Publish although a version tag was moved on the Hub.")
@click.option("--dry-run", is_flag=True, help="Print what would be uploaded, and change nothing.")
@click.option("--no-decode", is_flag=True, help="Check bytes and digests of the folder, but decode no image.")
@click.option(
    "--max-files",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Refuse to upload more files than this.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=usable_cores,
    show_default="all usable cores",
    help="Processes that check the folder.",
)
def command(
    folder: Path,
    repo: str,
    tag: str,
    private: bool,
    configs: str,
    index_only: bool,
    allow_demo: bool,
    allow_moved_tags: bool,
    dry_run: bool,
    no_decode: bool,
    max_files: int,
    workers: int,
) -> int:
    """Publish the release in DIR as a version of a dataset repository on the Hub.

    Splits that only the repository has stay. After an interruption, run the same command again: it uploads no file
    twice. The Hub is that of HF_ENDPOINT, the token that of `hf auth login` or HF_TOKEN.
    """
    # Imported here because huggingface_hub takes half a second, for which --help should not wait.
    from tqdm import tqdm

    from hf_scripts.hub.client import hub_settings
    from hf_scripts.hub.repository import Repository
    from hf_scripts.publish.commit import PublishRequest, publish

    version = requested_version(tag)
    if not is_repository(repo):
        raise BuildError(f"{repo} is not the name of a repository. Give ORG/NAME with --repo.")
    manifest = read_manifest(folder)
    chosen = chosen_configs(manifest, [name.strip() for name in configs.split(",") if name.strip()])
    ours = without_images(chosen) if index_only else chosen
    request = PublishRequest(folder, ours, version, private, allow_demo, max_files, dry_run, allow_moved_tags)

    def check_folder() -> None:
        _check_folder(folder, manifest, decode=not no_decode, workers=workers)

    # disable=None hides the bar where stderr is no terminal.
    bar = tqdm(desc="uploading", unit="B", unit_scale=True, disable=None, leave=False)

    def progress(size: int, total: int) -> None:
        bar.total = total
        bar.update(size)

    with scratch_folder("push") as scratch, hub_settings(), bar:
        repository = Repository(repo, lambda line: click.echo(line, err=True))
        done = publish(repository, request, check_folder, scratch, click.echo, progress)
    if done:
        config = front_matter(ours)["configs"][0]
        split = config["data_files"][0]["split"]
        click.echo(f'load_dataset("{repo}", "{config["config_name"]}", split="{split}", revision="{tag}")')
    return 0


def _check_folder(folder: Path, manifest: Manifest, *, decode: bool, workers: int) -> None:
    from hf_scripts.publish.merged_release import damaged_folder

    problems, _ = verify.verify(folder, manifest, decode=decode, workers=workers, advance=lambda _: None)
    if problems.total():
        raise damaged_folder(folder, problems)
    click.echo(f"verified {folder}" + ("" if decode else "; no image was decoded (--no-decode)"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    return exit_code(command, argv, stopped="stopped; run the same command again, and it resumes.")


if __name__ == "__main__":
    sys.exit(main())
