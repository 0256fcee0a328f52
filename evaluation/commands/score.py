"""`python -m evaluation score`: fits detectors on features and scores every row.

Tested by `tests/evaluation/scoring/test_fit.py`.
"""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.commands import options
from evaluation.errors import EvaluationError
from evaluation.features.store import Store
from evaluation.progress import bar, log
from evaluation.releases import open_release


class _Score(click.Command):
    """Lists the hyperparameters in its help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from evaluation.scoring.settings import describe_settable

        super().format_options(ctx, formatter)
        with formatter.section("Hyperparameters, their defaults and what a search tries"):
            formatter.write_dl(describe_settable())


@click.command(
    cls=_Score,
    epilog="Example: python -m evaluation score --features build/features --detectors msp,energy,knn --out "
    "build/scores.parquet",
)
@click.option(
    "--features",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder written by `extract`.",
)
@click.option(
    "--config",
    "configs",
    metavar="CONFIG",
    multiple=True,
    help="Config to score; may be repeated. Default: all with rows to evaluate.",
)
@click.option(
    "--detectors",
    metavar="NAMES",
    help="Comma-separated built-in detectors, or all. Default: all; none with --detector.",
)
@click.option(
    "--detector",
    "own",
    metavar="FILE.py:NAME",
    multiple=True,
    help="A detector of your own: a Method or a function in a Python file; may be repeated.",
)
@click.option(
    "--fit-config",
    "fit_configs",
    metavar="CONFIG",
    multiple=True,
    help="Config to fit on; may be repeated. Default: CONFIG-train if it was extracted, else half of validation.",
)
@click.option(
    "--no-search", is_flag=True, help="Use the default hyperparameters, without a search on external_validation."
)
@click.option(
    "--set",
    "settings",
    metavar="DETECTOR.NAME=VALUE[,VALUE...]",
    multiple=True,
    help="Set a hyperparameter, or the values to search among, the default first; may be repeated. See below.",
)
@click.option(
    "--member",
    "members",
    type=click.Path(path_type=Path, file_okay=False),
    multiple=True,
    help="Features of another model of the same release, for ensembles; may be repeated.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="Scores file to write, .parquet."
)
@options.release(required=False)
@options.model(required=False)
@options.run_options
def command(
    features: Path,
    configs: tuple[str, ...],
    detectors: str | None,
    own: tuple[str, ...],
    fit_configs: tuple[str, ...],
    no_search: bool,
    settings: tuple[str, ...],
    members: tuple[Path, ...],
    seed: int,
    out: Path,
    release: str | None,
    revision: str | None,
    model: str | None,
    weights: Path | None,
    device: str,
    batch_size: int,
    workers: int,
    quiet: bool,
) -> None:
    """Fit detectors on features, and score every row of a release.

    Hyperparameters are chosen by the AUROC of validation rows against external_validation rows, and by nothing else;
    every trial is written next to the scores. ODIN, MC-dropout, CADet and RankFeat run the model on the images
    again, and need --release, --model and --weights.
    """
    from evaluation.detectors.nearest import on_device
    from evaluation.detectors.own import choose, load_own
    from evaluation.features.cache import FeatureCache
    from evaluation.features.extract import Runner, prepared_splits
    from evaluation.models.models import open_model
    from evaluation.scoring.fit import Scorer, expand
    from evaluation.scoring.fit_splits import find_fit_splits
    from evaluation.scoring.run import (
        choose_configs,
        describe_fitted,
        fit_all,
        run_provenance,
        score_all,
        warn_about_environments,
        write_trials,
    )
    from evaluation.scoring.scores import write_scores
    from evaluation.scoring.settings import parse_settings

    if out.suffix != ".parquet":
        raise EvaluationError(f"--out must end in .parquet, found {out}. Rename it.")
    wanted = options.parse_list(detectors) or (() if own else ("all",))
    listed, mine = choose([*wanted, *map(load_own, own)])
    names = expand(listed, mine)
    given = parse_settings(settings, names, mine)
    store = Store.open(features)
    here = store.splits()
    chosen = choose_configs(store, configs, fit_configs)
    sources = find_fit_splits(here, chosen, fit_configs)
    opened = None if release is None else open_release(release, revision)
    if opened is not None:
        store.check_release(opened.digest)
    runner = None
    if model is not None or weights is not None:
        if opened is None or model is None or weights is None:
            raise EvaluationError(
                "--release, --model and --weights belong together, but only some were given. Give all three or none."
            )
        ready = open_model(model, weights, len(store.identity.label_names), device=device)
        store.check_model(ready.name, ready.digest)
        store.check_prepared(prepared_splits(opened, ready))
        runner = Runner(opened, ready, batch_size, workers)
    cache = FeatureCache(store, [Store.open(member) for member in members], runner, seed, quiet)
    scorer = Scorer(cache, sources, search=not no_search, settings=given, own=mine, log=log)
    keys = [(config, split) for config in chosen for split in here[config]]
    warn_about_environments(log, cache, keys)
    halved = bool(scorer.fit_half.any())
    fit_rows = sources.fit_name if halved or not sources.halved else ""
    external = "/".join(sources.external or ())
    for what, which in (
        ("fitted", fit_rows),
        ("tuned", sources.tune_name(halved=halved)),
        ("tuned against", external),
    ):
        click.echo(f"{what}: {which or 'no rows'}")
    if halved:
        log(
            "There are no features of training rows, so detectors are fitted on half of the validation rows and tuned "
            "on the other half. The rows fitted on get no scores"
        )
    with on_device(device), bar(len(names), "fitting", quiet=quiet, unit="detectors") as progress:
        fitted = fit_all(scorer, names, leave_out="all" in wanted, progress=progress.update)
    for one in fitted:
        click.echo(describe_fitted(one))
    with on_device(device), bar(len(keys), "scoring", quiet=quiet, unit="splits") as progress:
        scores = score_all(scorer, fitted, keys, progress.update)
    write_trials(out.with_suffix(".search.csv"), fitted)
    write_scores(out, scores, run_provenance(scorer, chosen, fitted))
    click.echo(f"{len(scores):,} scores of {len(fitted)} detectors are in {out}")
