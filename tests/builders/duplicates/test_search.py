import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image
from sklearn.datasets import load_sample_images

from benchmarks.near_duplicates import CHANGES, COMBINED, changed, coloured_noise, disjoint, patches
from builders.duplicates import search as near_duplicates
from builders.duplicates.search import THRESHOLD, Pairs, distance, find

seeds = st.integers(0, 2**32 - 1)


def search(queries, references, **options):
    return find(queries, references, advance=lambda count: None, **options)


def as_set(pairs):
    return set(zip(pairs.queries.tolist(), pairs.references.tolist(), pairs.distances.tolist(), strict=True))


def by_loops(query, reference):
    """The distance as `builders.duplicates.distance` states it, in levels and one number after the other."""
    centre = reference[2:30, 2:30]
    crops = [query[y : y + 28, x : x + 28] for y in range(5) for x in range(5)]
    return min(terms(crop, centre) for upright in crops for crop in (upright, upright[:, ::-1]))


def terms(crop, centre):
    blocks, others = block_means(crop), block_means(centre)
    pattern = sum((s - t) ** 2 for s, t in zip(vector(blocks), vector(others), strict=True))
    colour = plain = 0.0
    for i, j, c in itertools.product(range(7), range(7), range(3)):
        colour += ((blocks[i][j][c] - grey(blocks[i][j])) - (others[i][j][c] - grey(others[i][j]))) ** 2 / 49 / 100**2
        plain += (blocks[i][j][c] - others[i][j][c]) ** 2 / (49 * 3) / 20**2
    weight = max(0.0, 1 - max(roughness(blocks), roughness(others)) / 6)
    return (pattern + colour + weight * plain) ** 0.5


def block_means(crop):
    return [
        [crop[4 * i : 4 * i + 4, 4 * j : 4 * j + 4].mean(axis=(0, 1)).tolist() for j in range(7)] for i in range(7)
    ]


def grey(block):
    return sum(block) / 3


def vector(blocks):
    values = [grey(blocks[i + 1][j]) - grey(blocks[i][j]) for i in range(6) for j in range(7)]
    values += [grey(blocks[i][j + 1]) - grey(blocks[i][j]) for i in range(7) for j in range(6)]
    length = max(84.0, sum(abs(value) for value in values)) ** 0.5
    return [np.sign(value) * abs(value) ** 0.5 / length for value in values]


def roughness(blocks):
    level = [[grey(block) for block in row] for row in blocks]
    bends = [abs(level[i - 1][j] - 2 * level[i][j] + level[i + 1][j]) for i in range(1, 6) for j in range(7)]
    bends += [abs(level[i][j - 1] - 2 * level[i][j] + level[i][j + 1]) for i in range(7) for j in range(1, 6)]
    return sum(bends) / len(bends)


def constant(*colour):
    return np.broadcast_to(np.array(colour, np.uint8), (32, 32, 3)).copy()


def ramp(angle, rise, middle=(128, 128, 128)):
    """A linear gradient that rises by so many levels from edge to edge."""
    y, x = np.mgrid[:32, :32] / 31 - 0.5
    slope = np.cos(angle) * x + np.sin(angle) * y
    return np.clip(np.rint(np.array(middle) + rise * slope[..., None]), 0, 255).astype(np.uint8)


def white_noise(count, deviation, random):
    return np.clip(random.normal(128, deviation, (count, 32, 32, 3)), 0, 255).astype(np.uint8)


def assorted(seed):
    """Images of all kinds: coloured and white noise, gradients, constant ones and ones that are nearly so."""
    random = np.random.default_rng(seed)
    levels = [constant(*random.integers(0, 256, 3)) for _ in range(2)]
    faint = [
        rgb + random.integers(0, 2, rgb.shape, dtype=np.uint8) for rgb in (constant(0, 0, 0), constant(90, 90, 99))
    ]
    ramps = [ramp(random.uniform(0, 7), rise) for rise in (20, 120)]
    kinds = [coloured_noise(2, slope, random) for slope in (1, 2)]
    return np.concatenate([*kinds, white_noise(2, 40, random), np.stack([*levels, *faint, *ramps])])


def planted(seed):
    """Queries and references: assorted images, and copies of some references with each change there is."""
    random = np.random.default_rng(seed)
    references = np.concatenate([assorted(seed), coloured_noise(6, 1, random)])
    copies = [changed(references[i % len(references)], [name], random) for i, name in enumerate(CHANGES)]
    return np.concatenate([assorted(seed + 1), np.stack(copies)]), references


@pytest.fixture(scope="module")
def brute_force():
    """Queries, references and the distance of every pair."""
    queries, references = planted(0)
    return queries, references, np.array([[distance(query, image) for image in references] for query in queries])


@pytest.fixture(scope="module")
def photographs():
    """Patches of scikit-learn's two photographs, with their squares."""
    return [patches(Image.fromarray(image)) for image in load_sample_images().images]


def test_distance_is_the_one_defined():
    queries, references = planted(1)
    for query, reference in itertools.islice(zip(queries, references, strict=False), 16):
        assert distance(query, reference) == pytest.approx(by_loops(query, reference), abs=1e-9)


@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.25, THRESHOLD, 0.6, 0.9, 1.1, 5.0])
def test_exactly_the_pairs_of_brute_force_are_found(brute_force, threshold):
    queries, references, distances = brute_force
    pairs = search(queries, references, threshold=threshold)
    rows, columns = np.nonzero(distances <= threshold)
    assert as_set(pairs) == set(
        zip(rows.tolist(), columns.tolist(), distances[rows, columns].astype(np.float32).tolist(), strict=True)
    )
    assert len(pairs.queries) == len(rows)


def test_a_threshold_that_is_the_distance_of_a_pair_includes_it(brute_force):
    queries, references, distances = brute_force
    for threshold in np.unique(distances)[:: distances.size // 20].tolist():
        assert len(search(queries, references, threshold=threshold).queries) == np.sum(distances <= threshold)


@given(seeds)
@settings(max_examples=5, deadline=None)
def test_brute_force_agrees_on_any_images(seed):
    queries, references = assorted(seed), assorted(seed + 1)
    references[0] = queries[3]
    found = {(query, reference) for query, reference, _ in as_set(search(queries, references, threshold=0.8))}
    expected = {
        (i, j)
        for i, query in enumerate(queries)
        for j, image in enumerate(references)
        if distance(query, image) <= 0.8
    }
    assert found == expected


@given(seeds, st.integers(1, 40), st.integers(1, 40), st.integers(1, 90), st.integers(1, 90))
@settings(max_examples=10, deadline=None)
def test_how_much_is_worked_on_at_once_changes_nothing(seed, queries_at_once, references_at_once, balls, candidates):
    queries, references = planted(seed)
    whole = search(queries, references, threshold=0.7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near_duplicates, "_QUERIES", queries_at_once)
        patch.setattr(near_duplicates, "_REFERENCES", references_at_once)
        patch.setattr(near_duplicates, "_BALLS", balls)
        patch.setattr(near_duplicates, "_CANDIDATES", candidates)
        parts = search(queries, references, threshold=0.7)
    assert parts.queries.tolist() == whole.queries.tolist()
    assert parts.references.tolist() == whole.references.tolist()
    assert parts.distances.tolist() == whole.distances.tolist()


@given(seeds)
@settings(max_examples=10, deadline=None)
def test_order_of_images_does_not_matter(seed):
    queries, references = planted(seed)
    random = np.random.default_rng(seed)
    rows, columns = random.permutation(len(queries)), random.permutation(len(references))
    pairs = search(queries[rows], references[columns], threshold=0.7)
    back = Pairs(rows[pairs.queries], columns[pairs.references], pairs.distances)
    assert as_set(back) == as_set(search(queries, references, threshold=0.7))


@given(seeds)
@settings(max_examples=10, deadline=None)
def test_an_image_is_at_no_distance_from_itself(seed):
    images = assorted(seed)
    pairs = search(images, images, threshold=0.0)
    assert {(i, i, 0.0) for i in range(len(images))} <= as_set(pairs)


@given(seeds, st.integers(0, 15), st.integers(0, 9))
@settings(max_examples=20, deadline=None)
def test_mirroring_the_query_changes_nothing(seed, row, column):
    query, reference = planted(seed)[1][row], assorted(seed + 1)[column]
    assert distance(query[:, ::-1], reference) == distance(query, reference)


@given(seeds, st.integers(-2, 2), st.integers(-2, 2), st.booleans())
@settings(max_examples=20, deadline=None)
def test_moves_of_two_pixels_are_at_no_distance_whatever_fills_the_edge(seed, down, right, mirrored):
    random = np.random.default_rng(seed)
    image = coloured_noise(1, 1.5, random)[0]
    moved = random.integers(0, 256, image.shape, dtype=np.uint8)
    moved[max(down, 0) : 32 + min(down, 0), max(right, 0) : 32 + min(right, 0)] = image[
        max(-down, 0) : 32 + min(-down, 0), max(-right, 0) : 32 + min(-right, 0)
    ]
    assert distance(moved[:, ::-1] if mirrored else moved, image) == 0


@given(seeds, st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_brightness_changes_nothing_where_nothing_clips(seed, more):
    image = coloured_noise(1, 1, np.random.default_rng(seed))[0] // 2 + 10
    assume(roughness(block_means(image[2:30, 2:30])) >= 6)  # smoother images are compared in levels as well
    assert distance(image + np.uint8(more), image) == 0


@given(seeds, st.sampled_from([2, 3]))
@settings(max_examples=20, deadline=None)
def test_contrast_changes_the_distance_by_its_colour_term_at_most(seed, times):
    image = coloured_noise(1, 1, np.random.default_rng(seed))[0] // 3
    blocks = np.array(block_means(image[2:30, 2:30]))
    saturation = np.sqrt(np.square(blocks - blocks.mean(axis=2, keepdims=True)).sum(axis=2).mean())
    assume(roughness(blocks.tolist()) > 2)  # steps of one level on average, so that none is at the floor
    smooth = max(0, 1 - times * roughness(blocks.tolist()) / 6) * np.mean(np.square((times - 1) * blocks)) / 20**2
    expected = np.sqrt(((times - 1) * saturation / 100) ** 2 + smooth)
    assert distance(image * np.uint8(times), image) <= expected + 1e-6


@pytest.mark.parametrize(
    "names", [*((name,) for name in CHANGES), *itertools.combinations(COMBINED, 2)], ids=" and ".join
)
def test_changed_copies_of_photographs_are_found(photographs, names):
    # Of 730 patches of 15 photographs with more contrast than this, at least 98.6 % were found after every change.
    random = np.random.default_rng(0)
    images = np.concatenate([found for found, _ in photographs])
    images = images[images.std(axis=(1, 2)).mean(axis=1) > 25]
    images = images[random.permutation(len(images))[:100]]
    copies = np.stack([changed(image, names, random) for image in images])
    pairs = search(copies, images)
    own = pairs.queries == pairs.references
    assert own.sum() >= 97
    if set(names) <= {"shifted, edge repeated", "shifted, wrapped", "mirrored"}:
        assert own.sum() == 100 and not pairs.distances[own].any()


def test_photographs_of_different_things_are_no_duplicates(photographs):
    (china, _), (flower, _) = photographs
    assert len(china) > 100 and len(flower) > 100
    assert not len(search(china, flower, threshold=0.5).queries)
    assert not len(search(flower, china, threshold=0.5).queries)


def test_parts_of_a_photograph_that_share_no_pixel_are_no_duplicates(photographs):
    for images, squares in photographs:
        pairs = search(images, images)
        apart = disjoint(squares[pairs.queries], squares[pairs.references])
        assert len(pairs.queries) >= len(images) and not apart.any()


@pytest.mark.parametrize("slope", [0.0, 1.0, 1.5, 2.0])
def test_independent_noise_is_no_duplicate(slope):
    random = np.random.default_rng(0)
    assert not len(search(coloured_noise(300, slope, random), coloured_noise(300, slope, random)).queries)


def test_faint_white_noise_is_not_blown_up_into_a_pattern():
    random = np.random.default_rng(0)
    for deviation in (1, 3, 10):
        queries, references = white_noise(50, deviation, random), coloured_noise(50, 1, random)
        assert not len(search(queries, references).queries)


@pytest.mark.parametrize(
    ("query", "reference"),
    [
        (constant(0, 0, 0), constant(2, 2, 2)),
        (constant(200, 30, 40), constant(203, 29, 44)),
        (constant(90, 90, 90) + np.tri(32, dtype=np.uint8)[..., None], constant(90, 90, 90)),
        (ramp(1, 90), ramp(1, 100)),
    ],
    ids=["blacks", "reds", "almost constant", "gradients"],
)
def test_featureless_images_of_the_same_levels_are_duplicates(query, reference):
    assert distance(query, reference) <= THRESHOLD


@pytest.mark.parametrize(
    ("query", "reference"),
    [
        (constant(0, 0, 0), constant(255, 255, 255)),
        (constant(0, 0, 0), constant(25, 25, 25)),
        (constant(120, 60, 60), constant(60, 120, 60)),
        (constant(128, 128, 128), ramp(0, 100)),
        (constant(128, 128, 128), white_noise(1, 20, np.random.default_rng(0))[0]),
        (constant(0, 0, 0), coloured_noise(1, 1, np.random.default_rng(0))[0]),
        (ramp(0, 100), ramp(np.pi / 2, 100)),
        (ramp(0, 40), ramp(0, 160)),
        (ramp(0, 60, (60, 120, 200)), ramp(0, 60, (200, 120, 60))),
    ],
)
def test_featureless_images_of_other_levels_are_not(query, reference):
    assert distance(query, reference) > 1.2 * THRESHOLD


def test_a_search_among_featureless_images_alone_is_exact():
    random = np.random.default_rng(0)
    images = np.stack([constant(*random.integers(0, 40, 3)) for _ in range(20)])
    found = {(query, reference) for query, reference, _ in as_set(search(images, images))}
    expected = {(i, j) for i in range(20) for j in range(20) if distance(images[i], images[j]) <= THRESHOLD}
    assert found == expected and 20 < len(found) < 400


def test_pairs_are_sorted_by_query_then_distance_then_reference():
    queries, references = planted(2)
    references = np.concatenate([references, references])
    pairs = search(queries, references, threshold=1.0)
    keys = list(zip(pairs.queries.tolist(), pairs.distances.tolist(), pairs.references.tolist(), strict=True))
    assert keys == sorted(keys) and len(keys) > len(queries)
    assert (pairs.queries.dtype, pairs.references.dtype, pairs.distances.dtype) == (np.int64, np.int64, np.float32)


def test_more_queries_than_one_step_are_told_apart_and_counted():
    images = coloured_noise(600, 1, np.random.default_rng(0))
    steps = []
    pairs = find(images, images[:300], advance=steps.append)
    assert pairs.queries.tolist() == pairs.references.tolist() == list(range(300))
    assert sum(steps) == 600 and len(steps) > 1


@pytest.mark.parametrize(("n", "m"), [(0, 0), (0, 3), (3, 0)])
def test_no_images_have_no_pairs(n, m):
    images = coloured_noise(3, 1, np.random.default_rng(0))
    steps = []
    pairs = find(images[:n], images[:m], advance=steps.append)
    assert (len(pairs.queries), len(pairs.references), len(pairs.distances)) == (0, 0, 0)
    assert (pairs.queries.dtype, pairs.distances.dtype) == (np.int64, np.float32)
    assert sum(steps) == n


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (
            np.zeros((2, 32, 32, 3)),
            r"queries must be a uint8 array \(n, 32, 32, 3\), not float64 \(2, 32, 32, 3\)",
        ),
        (np.zeros((2, 3, 32, 32), np.uint8), "not uint8"),
        (np.zeros((32, 32, 3), np.uint8), "not uint8"),
    ],
)
def test_arrays_of_another_kind_are_refused(queries, message):
    with pytest.raises(ValueError, match=message):
        search(queries, np.zeros((1, 32, 32, 3), np.uint8))


@pytest.mark.parametrize("threshold", [-0.1, float("nan")])
def test_a_threshold_below_zero_is_refused(threshold):
    images = np.zeros((1, 32, 32, 3), np.uint8)
    with pytest.raises(ValueError, match="threshold must be at least 0, not"):
        search(images, images, threshold=threshold)
