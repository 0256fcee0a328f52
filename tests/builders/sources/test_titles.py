"""The keys and titles by which commands name sources before anything else of them is imported."""

from builders.registry import BENCHMARKS
from builders.sources.registry import SOURCES, declared_source
from builders.sources.titles import TITLES


def test_keys_and_titles_are_those_that_the_sources_have_themselves():
    assert {source.key: source.title for source in SOURCES.values()} == TITLES
    assert list(SOURCES) == list(TITLES)
    assert all(source.on_disk for source in SOURCES.values())


def test_splits_name_the_folders_that_their_sources_are_in():
    for benchmark in BENCHMARKS.values():
        for split in benchmark.parts.values():
            assert split.folders == {source.key: source.title for source in split.sources if source.on_disk}


def test_every_source_of_a_benchmark_is_declared_also_those_that_this_project_makes():
    sources = {source.key: source for benchmark in BENCHMARKS.values() for source in benchmark.sources()}
    assert {key: declared_source(key) for key in sources} == sources
    assert {"noise", "biggan", "stable_diffusion"} < sources.keys()
    assert declared_source("a source that nobody declared") is None
