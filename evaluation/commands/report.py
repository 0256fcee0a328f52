"""`python -m evaluation report`: computes a paper's figures from scores files.

Tested by `tests/evaluation/report/test_compose.py`.
"""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.commands import options
from evaluation.extras import require_packages
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
    help="Scores file, .parquet or .csv; may be repeated, and followed by more. VARIANT names the training method.",
)
@click.argument("more", metavar="[FILE...]", nargs=-1)
@options.release(required=True)
@click.option("--config", "configs", metavar="CONFIG", multiple=True, help="Config to evaluate; may be repeated.")
@click.option(
    "--protocol",
    "protocols",
    metavar="NAME[=CONFIG,...]",
    multiple=True,
    help=(
        "Protocol, and the configs to apply it to; may be repeated. Default: the protocol that each config was made "
        "for."
    ),
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder to write; an existing report there is replaced.",
)
@click.option("--no-plots", is_flag=True, help="Skip the plots; matplotlib is not needed then.")
@click.option("--quiet", is_flag=True, help="No progress bars.")
@click.option(
    "--dry-run", is_flag=True, help="Check the files and ids and print what would be computed; write nothing."
)
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
    """Compute the papers' figures from scores of any detector: tables, plots, a summary.

    A scores file needs the columns id and score (higher = more unknown). Predictions, as a column prediction (class
    index) or class (name), are needed for misclassification, unknown and error detection only; a column detector tells
    several detectors in one file apart. Each row of the release needs exactly one score; the splits validation,
    external_validation and train may be missing.
    """
    from evaluation.report.compose import (
        choose_protocols,
        compute_figures,
        duplicates_left_out,
        fitted_without_training_rows,
        load,
        missing_figures,
        of_demo,
        overlaps_left_out,
        parse_scores_file,
        resized_images,
        reversed_signs,
        tabulate,
        titles,
    )
    from evaluation.report.folder import ReportContents, check_output_folder, write_report
    from evaluation.scoring.duplicates import describe_left_out
    from evaluation.scoring.overlap import describe_overlaps

    if not no_plots:
        require_packages("matplotlib", to="draw plots", instead="give --no-plots")
    files = [parse_scores_file(text) for text in (*first, *more)]
    check_output_folder(out)
    opened = open_release(release, revision)
    with bar(len(files), "joining", quiet=quiet, unit="files") as progress:
        scored = load(files, opened, configs, progress.update)
    wanted = choose_protocols(protocols, scored, configs)
    click.echo(f"release  {opened.name}, digest {opened.digest[:12]}")
    lines = [["run", "training", "detectors", "configs"]]
    for one in scored:
        lines.append([one.run.name, one.run.variant or "-", str(len(one.rows)), ", ".join(one.configs)])
    click.echo("\n".join(aligned(lines, left=(0, 1, 3))))
    for name, of in wanted.items():
        click.echo(f"{name}: {', '.join(of)}")
    duplicates = duplicates_left_out(scored, wanted)
    notes = [*of_demo(opened), *missing_figures(scored, wanted), *resized_images(scored)]
    notes += fitted_without_training_rows(scored)
    notes += [] if duplicates is None else [describe_left_out(duplicates)]
    overlapping = overlaps_left_out(scored, wanted)
    notes += [] if overlapping is None else [describe_overlaps(overlapping)]
    click.echo("".join(f"note: {note}\n" for note in notes), nl=False)
    if dry_run:
        click.echo(f"dry run: nothing was written; the report would go to {out}")
        return
    with bar(sum(len(one.rows) for one in scored), "judging", quiet=quiet, unit="detectors") as progress:
        evaluated = compute_figures(scored, wanted, progress.update)
    figures = tabulate(evaluated, opened)
    hints = reversed_signs(evaluated)
    click.echo("".join(f"note: {hint}\n" for hint in hints), nl=False)
    notes += hints
    names = titles(scored)
    drawn = []
    if not no_plots:
        from evaluation.report.pictures import pictures

        drawn = pictures(scored, figures, wanted, names)
    with bar(len(drawn), "drawing", quiet=quiet, unit="pictures") as progress:
        contents = ReportContents(figures, drawn, files, names, wanted, notes, duplicates, overlapping)
        write_report(out, contents, progress.update)
    click.echo(f"{len(figures):,} figures, {len(drawn)} pictures: see {out / 'README.md'}")
