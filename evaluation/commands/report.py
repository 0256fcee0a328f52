"""`python -m evaluation report`: a paper's figures for scores.

Tested by `tests/evaluation/report/test_compose.py`.
"""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.commands import options
from evaluation.extras import need
from evaluation.progress import bar
from evaluation.releases import open_release
from evaluation.report.tables import aligned


@click.command(
    epilog="Example: python -m evaluation report --scores scores.parquet --release build/unknown-detection --config "
    "cifar --out build/report",
)
@click.option(
    "--scores",
    "first",
    metavar="[VARIANT=]FILE",
    multiple=True,
    required=True,
    help="Scores file, .parquet or .csv; may be repeated, and followed by more. VARIANT names the way of training.",
)
@click.argument("more", metavar="[FILE...]", nargs=-1)
@options.release(required=True)
@click.option("--config", "configs", metavar="CONFIG", multiple=True, help="Config to judge; may be repeated.")
@click.option(
    "--protocol",
    "protocols",
    metavar="NAME[=CONFIG,...]",
    multiple=True,
    help="Protocol, and the configs that it judges; may be repeated. Default: the one that each config is made for.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder to write; a report that is there is replaced.",
)
@click.option("--no-plots", is_flag=True, help="Draw nothing; needs no matplotlib.")
@click.option("--quiet", is_flag=True, help="No progress bars.")
@click.option("--dry-run", is_flag=True, help="Check files and ids, print what would be computed, write nothing.")
def command(
    first: tuple[str, ...],
    more: tuple[str, ...],
    release: str,
    revision: str | None,
    configs: tuple[str, ...],
    protocols: tuple[str, ...],
    out: Path,
    *,
    no_plots: bool,
    quiet: bool,
    dry_run: bool,
) -> None:
    """Give the papers' figures for scores of any detector: tables, plots, a summary.

    A scores file needs the columns id and score (higher = more unknown); predictions, as a column prediction (class
    index) or class (name), are needed for misclassification, unknown and error detection only, and a column detector
    where a file has several. Each row of the release must have one score; validation, external_validation and train
    may be left out.
    """
    from evaluation.report.compose import (
        choose_protocols,
        duplicates_left_out,
        judge,
        left_out,
        load,
        source,
        tabulate,
        titles,
    )
    from evaluation.report.folder import Contents, check_out, write_report
    from evaluation.scoring.duplicates import sentence

    if not no_plots:
        need("matplotlib", to="draw plots", instead="give --no-plots")
    sources = [source(text) for text in (*first, *more)]
    check_out(out)
    opened = open_release(release, revision)
    with bar(len(sources), "joining", quiet=quiet, unit="files") as progress:
        scored = load(sources, opened, configs, progress.update)
    wanted = choose_protocols(protocols, scored, configs)
    click.echo(f"release  {opened.name}, digest {opened.digest[:12]}")
    lines = [["run", "way of training", "detectors", "configs"]]
    for one in scored:
        lines.append([one.run.name, one.run.variant or "-", str(len(one.rows)), ", ".join(one.configs)])
    click.echo("\n".join(aligned(lines, left=(0, 1, 3))))
    for name, of in wanted.items():
        click.echo(f"{name}: {', '.join(of)}")
    duplicates = duplicates_left_out(scored, wanted)
    notes = [*left_out(scored, wanted), *([] if duplicates is None else [sentence(duplicates)])]
    click.echo("".join(f"note: {note}\n" for note in notes), nl=False)
    if dry_run:
        click.echo(f"dry run: nothing was written; the report would be in {out}")
        return
    with bar(sum(len(one.rows) for one in scored), "judging", quiet=quiet, unit="detectors") as progress:
        figures = tabulate(judge(scored, wanted, progress.update), opened)
    names = titles(scored)
    drawn = []
    if not no_plots:
        from evaluation.report.pictures import pictures

        drawn = pictures(scored, figures, wanted, names)
    with bar(len(drawn), "drawing", quiet=quiet, unit="pictures") as progress:
        contents = Contents(figures, drawn, sources, names, wanted, notes, duplicates)
        write_report(out, contents, progress.update)
    click.echo(f"{len(figures):,} figures, {len(drawn)} pictures: see {out / 'README.md'}")
