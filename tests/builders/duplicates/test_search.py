import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy import fft, ndimage
from sklearn.datasets import load_sample_images

from benchmarks.duplicates.near import CHANGES, COMBINED, changed, coloured_noise, disjoint, patches
from builders.duplicates import outlines
from builders.duplicates import search as near_duplicates
from builders.duplicates.distance import LEAST, SCALES, distances
from builders.duplicates.search import REACH, THRESHOLD, Pairs, distance, find_pairs

seeds = st.integers(0, 2**32 - 1)


def search(queries, references, **options):
    return find_pairs(queries, references, advance=lambda count: None, **options)


def as_set(pairs):
    return set(zip(pairs.queries.tolist(), pairs.references.tolist(), pairs.distances.tolist(), strict=True))


def stated(query, reference):
    """The distance as `builders.duplicates.distance` states it, by SciPy's filters and loops in levels."""
    contrast = min(
        np.sqrt(np.square(differences(image.astype(float))[5:27, 5:27]).mean()) for image in (query, reference)
    )
    by_detail = by_scipy(query, reference)
    distances = [by_detail * max(1, 10 / max(contrast, LEAST)) ** 2]
    if contrast <= 13 or by_detail <= 0.13:
        distances.append(0.6 * by_loops(query, reference))
    return max(LEAST, min(distances))


def by_scipy(query, reference):
    """The distance of detail, with SciPy's filters and one window after another."""
    centre = detail(reference.astype(float))[5:27, 5:27]
    best = -1.0
    for image, scale in itertools.product((query, query[:, ::-1]), SCALES):
        # In SciPy a pixel of the result is that of the image at place / scale + offset.
        offset = [15.5 - 15.5 / scale] * 2 + [0]
        enlarged = ndimage.affine_transform(
            image.astype(float), [1 / scale, 1 / scale, 1], offset, order=1, mode="nearest"
        )
        moved = detail(enlarged)
        for y, x in itertools.product(range(2, 9), range(2, 9)):
            window = moved[y : y + 22, x : x + 22]
            lengths = [np.square(part).sum() + window.size / 64**2 for part in (window, centre)]
            best = max(best, (window * centre).sum() / np.sqrt(lengths[0] * lengths[1]))
    return 1 - best


def detail(image):
    levels = differences(image)
    nearby = ndimage.gaussian_filter(np.square(levels).mean(axis=2), 4, mode="nearest")
    return levels / np.sqrt(nearby + 64)[..., None]


def differences(image):
    fine, coarse = (ndimage.gaussian_filter(image, (sigma, sigma, 0), mode="nearest") for sigma in (0.8, 2.5))
    return fine - coarse


def gap(query, reference):
    """The gap as `builders.duplicates.outlines` states it, one block after the other."""
    crops = [query[y : y + 28, x : x + 28] for y in (0, 2, 4) for x in (0, 2, 4)]
    variants = [crop for upright in crops for crop in (upright, upright[:, ::-1])]
    return min(np.linalg.norm(outline(crop) - outline(reference[2:30, 2:30])) for crop in variants)


def outline(crop):
    grey = crop.reshape(7, 4, 7, 4, 3).mean(axis=(1, 3, 4))
    steps = np.concatenate([(grey[1:] - grey[:-1]).ravel(), (grey[:, 1:] - grey[:, :-1]).ravel()])
    return np.sign(steps) * np.sqrt(np.abs(steps)) / np.sqrt(max(84, np.abs(steps).sum()))


def by_loops(query, reference):
    """The square that `builders.duplicates.outlines` states, in levels and one number after the other."""
    centre = reference[2:30, 2:30]
    crops = [query[y : y + 28, x : x + 28] for y in range(5) for x in range(5)]
    return min(terms(crop, centre) for upright in crops for crop in (upright, upright[:, ::-1]))


def terms(crop, centre):
    blocks, centre_blocks = block_means(crop), block_means(centre)
    pattern = np.square(outline(crop) - outline(centre)).sum()
    colour = plain = 0.0
    for i, j, c in itertools.product(range(7), range(7), range(3)):
        block, other = blocks[i][j], centre_blocks[i][j]
        colour += ((block[c] - grey(block)) - (other[c] - grey(other))) ** 2 / 49 / 100**2
        plain += (block[c] - other[c]) ** 2 / (49 * 3) / 20**2
    weight = max(0.0, 1 - max(roughness(blocks), roughness(centre_blocks)) / 6)
    return pattern + colour + weight * plain


def block_means(crop):
    return [
        [crop[4 * i : 4 * i + 4, 4 * j : 4 * j + 4].mean(axis=(0, 1)).tolist() for j in range(7)] for i in range(7)
    ]


def grey(block):
    return sum(block) / 3


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


def on_white(texture):
    """A disc that shows a texture, on white: what a catalogue's photographs of different things have in common."""
    y, x = np.mgrid[:32, :32] - 15.5
    return np.where((np.hypot(y, x) < 12)[..., None], texture, 255).astype(np.uint8)


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


def all_distances(queries, references):
    """The distance of every query to every reference."""
    rows, columns = np.indices((len(queries), len(references))).reshape(2, -1)
    return distances(queries[rows], references[columns]).reshape(len(queries), len(references))


@pytest.fixture(scope="module")
def brute_force():
    """Queries, references, and the gap and the distance of every pair."""
    queries, references = planted(0)
    gaps = np.array([[gap(query, image) for image in references] for query in queries])
    return queries, references, gaps, all_distances(queries, references)


@pytest.fixture(scope="module")
def photographs():
    """Patches of scikit-learn's two photographs, with their squares."""
    return [patches(Image.fromarray(image)) for image in load_sample_images().images]


def test_distance_is_the_one_defined():
    queries, references = planted(1)
    for query, reference in itertools.islice(zip(queries, references, strict=False), 16):
        assert distance(query, reference) == pytest.approx(stated(query, reference), abs=1e-9)


def test_gaps_are_those_defined(brute_force):
    queries, references, expected, _ = brute_force
    rows, columns = np.indices(expected.shape).reshape(2, -1)
    assert outlines.gaps(queries[rows], references[columns]) == pytest.approx(expected.ravel(), abs=1e-5)


@pytest.mark.parametrize("threshold", [0.0, THRESHOLD, 0.6, 1.5])
def test_exactly_the_pairs_of_brute_force_are_found(brute_force, threshold):
    queries, references, gaps, distances = brute_force
    pairs = as_set(search(queries, references, threshold=threshold))
    rows, columns = np.nonzero((gaps <= REACH) & (distances <= threshold))
    assert pairs == set(
        zip(rows.tolist(), columns.tolist(), distances[rows, columns].astype(np.float32).tolist(), strict=True)
    )


def test_scipys_cosines_find_the_same_pairs_to_the_bit(brute_force, monkeypatch):
    """They differ in the last bit of float32, which the slack of the bounds covers."""
    queries, references, *_ = brute_force
    ours = search(queries, references)
    scipys = fft.dct(np.eye(22, dtype=np.float32), norm="ortho", axis=0)[[1, 3, 5, 7, 0, 2, 4, 6]]
    assert pytest.approx(scipys, rel=0, abs=1e-7) == near_duplicates._BASIS
    monkeypatch.setattr(near_duplicates, "_BASIS", scipys)
    other = search(queries, references)
    assert len(ours.queries) > 10
    for name in ("queries", "references", "distances"):
        assert getattr(ours, name).tobytes() == getattr(other, name).tobytes()


def test_a_threshold_that_is_the_distance_of_a_pair_includes_it(brute_force):
    queries, references, gaps, distances = brute_force
    reached = np.sort(distances[gaps <= REACH])
    for number in range(0, len(reached), 16):
        rows_found = search(queries, references, threshold=float(reached[number])).queries
        assert len(rows_found) == np.searchsorted(reached, reached[number], "right")


@given(seeds)
@settings(max_examples=5)
def test_brute_force_agrees_on_any_images(seed):
    queries, references = assorted(seed), assorted(seed + 1)
    references[0] = queries[3]
    pairs = {(query, reference) for query, reference, _ in as_set(search(queries, references, threshold=0.8))}
    assert pairs == {
        (i, j)
        for i, query in enumerate(queries)
        for j, image in enumerate(references)
        if gap(query, image) <= REACH and distance(query, image) <= 0.8
    }


@given(seeds, st.integers(1, 40), st.integers(1, 40), st.integers(1, 90))
@settings(max_examples=5)
def test_how_much_is_worked_on_at_once_changes_nothing(seed, queries_at_once, references_at_once, candidates):
    queries, references = planted(seed)
    expected = search(queries, references, threshold=0.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near_duplicates, "_QUERIES", queries_at_once)
        patch.setattr(near_duplicates, "_REFERENCES", references_at_once)
        patch.setattr(near_duplicates, "_CANDIDATES", candidates)
        in_parts = search(queries, references, threshold=0.5)
    assert in_parts.queries.tolist() == expected.queries.tolist()
    assert in_parts.references.tolist() == expected.references.tolist()
    assert in_parts.distances.tolist() == expected.distances.tolist()


@given(seeds)
@settings(max_examples=5)
def test_order_of_images_does_not_matter(seed):
    queries, references = planted(seed)
    random = np.random.default_rng(seed)
    rows, columns = random.permutation(len(queries)), random.permutation(len(references))
    pairs = search(queries[rows], references[columns], threshold=0.5)
    back = Pairs(rows[pairs.queries], columns[pairs.references], pairs.distances)
    assert as_set(back) == as_set(search(queries, references, threshold=0.5))


@given(seeds)
@settings(max_examples=5)
def test_no_distance_is_0_which_a_table_has_for_equal_pixels(seed):
    image = coloured_noise(1, 1, np.random.default_rng(seed))[0]
    assert LEAST <= distance(image[:, ::-1], image) == pytest.approx(distance(image, image), abs=1e-9)
    assert distance(image, image) < 1e-3
    assert not len(search(image[None], image[None], threshold=0.0).queries)


@given(seeds, st.integers(0, 15), st.integers(0, 9))
@settings(max_examples=10)
def test_mirroring_the_query_changes_nothing(seed, row, column):
    query, reference = planted(seed)[1][row], assorted(seed + 1)[column]
    assert distance(query[:, ::-1], reference) == pytest.approx(distance(query, reference), abs=1e-9)


@given(seeds, st.integers(-2, 2), st.integers(-2, 2), st.booleans())
@settings(max_examples=10)
def test_moves_of_two_pixels_are_at_no_distance_whatever_fills_the_edge(seed, down, right, mirrored):
    random = np.random.default_rng(seed)
    image = coloured_noise(1, 1.5, random)[0]
    moved = random.integers(0, 256, image.shape, dtype=np.uint8)
    moved[max(down, 0) : 32 + min(down, 0), max(right, 0) : 32 + min(right, 0)] = image[
        max(-down, 0) : 32 + min(-down, 0), max(-right, 0) : 32 + min(-right, 0)
    ]
    assert distance(moved[:, ::-1] if mirrored else moved, image) <= LEAST


@given(seeds, st.integers(0, 100))
@settings(max_examples=10)
def test_brightness_changes_nothing_where_nothing_clips(seed, more):
    image = coloured_noise(1, 1, np.random.default_rng(seed))[0] // 2 + 10
    assume(roughness(block_means(image[2:30, 2:30])) >= 6)  # smoother images are compared in levels as well
    assert distance(image + np.uint8(more), image) <= LEAST


@given(seeds, st.sampled_from([2, 3]))
@settings(max_examples=10)
def test_contrast_changes_the_distance_by_a_bound(seed, times):
    """More contrast scales each value of the detail by 1 to `times`, since it is divided by the contrast nearby.

    So the cosine is at least 2 sqrt(times) / (1 + times) (Cassels' inequality), apart from the floor of the lengths.
    """
    tiles = np.random.default_rng(seed).integers(0, 256 // times, (8, 8, 3), np.uint8)
    image = tiles.repeat(4, axis=0).repeat(4, axis=1)
    assume(np.sqrt(np.square(differences(image.astype(float))[5:27, 5:27]).mean()) > 10)  # below, D is multiplied
    assert distance(image * np.uint8(times), image) <= 1 - 2 * np.sqrt(times) / (1 + times) + 1e-3


def contrasted(photographs, count):
    """Patches that have contrast, drawn, and the generator that drew them."""
    random = np.random.default_rng(0)
    images = np.concatenate([squares for squares, _ in photographs])
    images = images[images.std(axis=(1, 2)).mean(axis=1) > 25]
    assert len(images) >= count
    return images[random.permutation(len(images))[:count]], random


@pytest.mark.parametrize("name", CHANGES)
def test_changed_copies_of_photographs_are_found(photographs, name):
    images, random = contrasted(photographs, 60)
    pairs = search(np.stack([changed(image, (name,), random) for image in images]), images)
    own = pairs.queries == pairs.references
    assert own.sum() >= 58
    if name in ("shifted, edge repeated", "shifted, wrapped", "mirrored"):
        assert own.sum() == 60 and pairs.distances[own].max() <= LEAST


@pytest.mark.slow
@pytest.mark.parametrize("names", [*itertools.combinations(COMBINED, 2)], ids=" and ".join)
def test_copies_of_each_pair_of_changes_are_found(photographs, names):
    images, random = contrasted(photographs, 100)
    pairs = search(np.stack([changed(image, names, random) for image in images]), images)
    assert (pairs.queries == pairs.references).sum() >= 97


def test_copies_that_were_changed_twice_are_found(photographs):
    """Ten images for each of the fifteen pairs of changes."""
    images, random = contrasted(photographs, 150)
    twice = itertools.cycle(itertools.combinations(COMBINED, 2))
    copies = [changed(image, names, random) for image, names in zip(images, twice, strict=False)]
    pairs = search(np.stack(copies), images)
    assert (pairs.queries == pairs.references).sum() >= 0.97 * 150


@pytest.mark.parametrize("side", [28, 36])
def test_enlarged_and_reduced_photographs_are_found(photographs, side):
    (china, _), _ = photographs
    before, after = abs(side - 32) // 2, abs(side - 32) - abs(side - 32) // 2
    near = 0
    for image in china[:40]:
        other = np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.BICUBIC))
        if side > 32:
            other = other[before:-after, before:-after]
        else:
            other = np.pad(other, ((before, after), (before, after), (0, 0)), mode="edge")
        near += distance(other, image) <= THRESHOLD
    assert near >= 39


def test_photographs_of_different_things_are_no_duplicates(photographs):
    (china, _), (flower, _) = photographs
    assert len(china) > 100 and len(flower) > 100
    assert not len(search(china, flower, threshold=0.2).queries)
    assert not len(search(flower, china, threshold=0.2).queries)


def test_parts_of_a_photograph_that_share_no_pixel_are_no_duplicates(photographs):
    for images, squares in photographs:
        pairs = search(images, images)
        apart = disjoint(squares[pairs.queries], squares[pairs.references])
        assert len(pairs.queries) >= len(images) and not apart.any()


def test_different_things_with_one_outline_are_rarely_duplicates():
    """Cups, pears and butterflies on white have nearly equal outlines; what is inside of them tells them apart."""
    random = np.random.default_rng(0)
    images = np.stack([on_white(texture) for texture in coloured_noise(12, 1, random)])
    rows, columns = np.triu_indices(len(images), 1)
    alike = np.sum(outlines.gaps(images[rows], images[columns]) <= REACH)
    pairs = search(images, images)
    assert alike > 20 and np.sum(pairs.queries < pairs.references) <= alike / 20


@pytest.mark.parametrize("slope", [0.0, 1.0, 1.5, 2.0])
def test_independent_noise_is_no_duplicate(slope):
    random = np.random.default_rng(0)
    assert not len(search(coloured_noise(200, slope, random), coloured_noise(200, slope, random)).queries)


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
    assert distance(query, reference) > 1.2**2 * THRESHOLD  # it is a square


def test_a_search_among_featureless_images_alone_is_exact():
    random = np.random.default_rng(0)
    images = np.stack([constant(*random.integers(0, 40, 3)) for _ in range(20)])
    pairs = {(query, reference) for query, reference, _ in as_set(search(images, images))}
    near = np.argwhere(all_distances(images, images) <= THRESHOLD)
    assert pairs == set(map(tuple, near.tolist())) and 20 < len(pairs) < 400


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
    pairs = find_pairs(images, images[300:], advance=steps.append)
    assert pairs.queries.tolist() == (pairs.references + 300).tolist() == list(range(300, 600))
    assert sum(steps) == 600 and len(steps) > 1


@pytest.mark.parametrize(("n", "m"), [(0, 0), (0, 3), (3, 0)])
def test_no_images_have_no_pairs(n, m):
    images = coloured_noise(3, 1, np.random.default_rng(0))
    steps = []
    pairs = find_pairs(images[:n], images[:m], advance=steps.append)
    assert (len(pairs.queries), len(pairs.references), len(pairs.distances)) == (0, 0, 0)
    assert (pairs.queries.dtype, pairs.distances.dtype) == (np.int64, np.float32)
    assert sum(steps) == n
