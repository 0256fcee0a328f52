"""Speed of class similarity for 1,000 ImageNet and 365 Places365 classes against nltk, pair by pair.

Run as `python -m benchmarks.planning.class_similarity --wordnet /usr/share/wordnet`. All three measures (path,
Leacock-Chodorow, Wu-Palmer) are computed on both sides. Ours are timed on all 365,000 pairs, nltk's on a random sample
of them, with its synsets parsed beforehand; the ratio is that of the times per pair. Values are compared too. The last
line times the table of FACETS, from the class tables to each ImageNet class's nearest place, with WordNet loaded.
"""

import shutil
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import nltk
import numpy as np
from nltk.corpus.reader.wordnet import Synset, WordNetCorpusReader

from taxonomy import tables
from taxonomy.rules import facets_rules
from taxonomy.wordnet import nouns as wordnet
from taxonomy.wordnet import similarity

NLTK_FILES = ("data.*", "index.*", "*.exc", "cntlist.rev")


class NounReader(WordNetCorpusReader):
    """nltk's reader of a plain WordNet 3.0 folder, without its mapping of other versions, which needs a download."""

    def map_wn(self, version: str = "wordnet") -> None:
        """Map nothing, since the folder is version 3.0 itself."""


@contextmanager
def nltk_reader(folder: Path) -> Iterator[WordNetCorpusReader]:
    """Open a copy of a WordNet `dict` folder with nltk, which reads only below its data path and requires lexnames."""
    if not (folder / "data.noun").is_file():
        raise click.UsageError(f"{folder} holds no data.noun; give WordNet 3.0's `dict` folder.")
    with tempfile.TemporaryDirectory() as copy, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The multilingual functions")  # which are not used
        for pattern in NLTK_FILES:
            for file in folder.glob(pattern):
                shutil.copy(file, copy)
        # The names of the 45 lexicographer files are not used by the similarities, their number is.
        (Path(copy) / "lexnames").write_text("".join(f"{number:02d}\tfile.{number}\t1\n" for number in range(45)))
        nltk.data.path.append(copy)
        try:
            yield NounReader(copy, None)
        finally:
            nltk.data.path.remove(copy)


def three(first: Synset, second: Synset) -> tuple[float, float, float]:
    """Return nltk's three similarities of a pair."""
    return first.path_similarity(second), first.lch_similarity(second), first.wup_similarity(second)


def seconds(work: Callable[[], object], repeats: int) -> list[float]:
    """Time `work` several times."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return times


@click.command(epilog="Example: python -m benchmarks.planning.class_similarity --wordnet /usr/share/wordnet")
@click.option("--wordnet", "folder", type=click.Path(path_type=Path, exists=True), required=True, metavar="DIR")
@click.option("--pairs", default=1000, show_default=True, help="Pairs that nltk is timed on.")
@click.option("--repeats", default=5, show_default=True, help="Runs of each side; the median counts.")
def main(folder: Path, pairs: int, repeats: int) -> None:
    """Compare the array similarities with nltk's."""
    start = time.perf_counter()
    nouns = wordnet.load_wordnet()
    print(f"loading WordNet's nouns: {time.perf_counter() - start:.3f} s ({len(nouns):,} synsets)")
    imagenet = [item.wnid for item in tables.imagenet1k()]
    places = [item.wnid for item in tables.places365_wnids()]
    measures = (similarity.path, similarity.leacock_chodorow, similarity.wu_palmer)
    own = statistics.median(seconds(lambda: [measure(imagenet, places) for measure in measures], repeats))
    total = len(imagenet) * len(places)
    print(f"ours: {own:.3f} s for three measures of {total:,} pairs (median of {repeats})")

    random = np.random.default_rng(0)
    rows, columns = random.integers(len(imagenet), size=pairs), random.integers(len(places), size=pairs)
    with nltk_reader(folder) as reader:
        synsets = {wnid: reader.synset_from_pos_and_offset("n", int(wnid[1:])) for wnid in {*imagenet, *places}}
        sample = [(synsets[imagenet[row]], synsets[places[column]]) for row, column in zip(rows, columns, strict=True)]
        rival_values = np.array([three(*pair) for pair in sample])  # fills nltk's caches before the clock runs
        per_sample = statistics.median(seconds(lambda: [three(*pair) for pair in sample], repeats))
    own_values = np.stack([measure(imagenet, places)[rows, columns] for measure in measures], axis=1)
    rival = per_sample / pairs * total
    print(f"nltk: {per_sample:.3f} s for {pairs:,} pairs (median of {repeats}), about {rival:.0f} s for {total:,}")
    print(f"ratio: {rival / own:.0f} times; greatest difference {np.abs(own_values - rival_values).max():.1e}")
    table = statistics.median(seconds(facets_rules.compute_oodness.__wrapped__, repeats))
    print(f"OODness of {len(imagenet):,} classes with their nearest of {len(places)}: {table:.3f} s")


if __name__ == "__main__":
    main()
