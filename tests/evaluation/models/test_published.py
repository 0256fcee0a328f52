"""Published weights: timm's from the stand-in for the Hub, torchvision's from an address with a hash in its name."""

import hashlib
import io
import pickle

import pytest

from tests.evaluation.extra import safetensors, timm, torch, torchvision
from tests.evaluation.models.test_weights import Executes
from tests.evaluation.samples import picture
from tests.evaluation.small_models import images_of, of_seed
from tests.hf_scripts.samples import make_release
from tests.sentences import assert_sentence, stops
from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.store import FeatureStore
from unknown_detection.evaluation.models.models import open_model
from unknown_detection.evaluation.scoring.scores import read_scores

NAME = "test_resnet.r160_in1k"  # a tenth of a megabyte in timm's own tests, with ImageNet-1k's 1,000 classes
REPOSITORY = f"timm/{NAME}"
WNIDS = ("n01494475", "n01440764", "n15075141")  # logits 4, 0 and 999
SMALL = torchvision.models.ShuffleNet_V2_X0_5_Weights.IMAGENET1K_V1


pytestmark = pytest.mark.usefixtures("one_thread", "only_loopback")


@pytest.fixture(scope="module")
def module():
    return of_seed(timm.create_model, model_name="test_resnet", num_classes=1000)


@pytest.fixture
def published(hub, api, module):
    """The commit with the weights in timm's repository."""
    hub.create(REPOSITORY)
    return hub.commit(REPOSITORY, {"model.safetensors": safetensors.save(module.state_dict())})


def test_weights_of_timm(hub, module, published):
    """The logits are the chosen ones of the model whose weights were published; the commit is recorded."""
    model = open_model(f"timm:{NAME}", None, WNIDS, pretrained=True, device="cpu")
    images = images_of(160)
    with torch.no_grad():
        expected = module(images)[:, [4, 0, 999]]
    assert torch.equal(model.forward(images).logits, expected)
    assert torch.equal(model.logits(images), expected)
    assert (model.head.weight == module.get_classifier().weight[[4, 0, 999]].detach().numpy()).all()
    data = hub.read(REPOSITORY, "model.safetensors")
    assert model.source == {
        "address": f"{hub.endpoint}/{REPOSITORY}",
        "revision": published.id,
        "file": "model.safetensors",
        "sha256": hashlib.sha256(data).hexdigest(),
        "logits": "4,0,999",
        "width": "1000",
    }
    # Without the tag it is the default one; other classes are another model.
    untagged = open_model("timm:test_resnet", None, WNIDS, pretrained=True, device="cpu")
    assert (untagged.name, untagged.digest) == (model.name, model.digest)
    assert open_model(f"timm:{NAME}", None, WNIDS[:2], pretrained=True, device="cpu").digest != model.digest


def test_all_classes_in_their_order_are_not_chosen(published):
    names = timm.data.ImageNetInfo("imagenet-1k").label_names()
    assert "logits" not in open_model(f"timm:{NAME}", None, names, pretrained=True, device="cpu").source
    other = open_model(f"timm:{NAME}", None, names[::-1], pretrained=True, device="cpu")
    assert other.source["logits"].startswith("999,998,")


def test_a_label_map_for_classes_of_other_names(published, module, tmp_path):
    """With published weights, and with the same from a file."""
    (tmp_path / "map.csv").write_text("class,index\nred,7\ngreen,20\n")
    with stops(EvaluationError, "1,000"):
        open_model(f"timm:{NAME}", None, ("red", "green"), pretrained=True, device="cpu")
    names, flags = ("red", "green"), {"classes": tmp_path / "map.csv", "device": "cpu"}
    torch.save(module.state_dict(), tmp_path / "weights.pt")
    images = images_of(160)
    for path in (None, tmp_path / "weights.pt"):
        model = open_model(f"timm:{NAME}", path, names, pretrained=path is None, **flags)
        with torch.no_grad():
            assert torch.equal(model.forward(images).logits, module(images)[:, [7, 20]])
    assert open_model(f"timm:{NAME}", tmp_path / "weights.pt", WNIDS, device="cpu").source["logits"] == "4,0,999"


def test_a_published_pickle_is_not_executed(hub, published, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hub.commit(REPOSITORY, {"model.safetensors": None, "pytorch_model.bin": pickle.dumps({"a": Executes()})})
    with stops(EvaluationError, "pytorch_model.bin"):
        open_model(f"timm:{NAME}", None, WNIDS, pretrained=True, device="cpu")
    assert not (tmp_path / "executed").exists()


def test_weights_that_the_hub_does_not_have(hub, api, waits):
    def refused(*said, model=f"timm:{NAME}"):
        with stops(EvaluationError, *said):
            open_model(model, None, WNIDS, pretrained=True, device="cpu")

    refused(f"{hub.endpoint}/{REPOSITORY}", "weights=")
    hub.create(REPOSITORY)
    refused("model.safetensors", "pytorch_model.bin", "weights=")
    hub.commit(REPOSITORY, {"model.safetensors": safetensors.save({"conv1.weight": torch.ones(2)})})
    with pytest.raises(RuntimeError, match="Missing key"):
        open_model(f"timm:{NAME}", None, WNIDS, pretrained=True, device="cpu")
    refused("resnet10t.nothing", model="timm:resnet10t.nothing")


@pytest.fixture
def served(hub, api, tmp_path, monkeypatch):
    """Serve weights of torchvision's smallest model under an address whose name has the start of their SHA-256."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    hub.create("org/weights")

    def serve(module, digest=None):
        data = io.BytesIO()
        torch.save(module.state_dict(), data)
        name = f"shufflenet-{digest or hashlib.sha256(data.getvalue()).hexdigest()[:10]}.pth"
        hub.commit("org/weights", {name: data.getvalue()})
        monkeypatch.setattr(SMALL.value, "url", f"{hub.endpoint}/org/weights/resolve/main/{name}")
        return tmp_path / "torch" / "hub" / "checkpoints" / name

    return serve


def test_weights_of_torchvision(hub, served):
    """And the published accuracy is that of its metadata."""
    module = of_seed(torchvision.models.shufflenet_v2_x0_5)
    path = served(module)
    model = open_model("torchvision:shufflenet_v2_x0_5", None, WNIDS, pretrained=True, device="cpu")
    images = images_of(64)
    with torch.no_grad():
        assert torch.equal(model.forward(images).logits, module(images)[:, [4, 0, 999]])
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert model.source["sha256"] == digest
    assert model.source["address"] == SMALL.url
    # By the table of torchvision's documentation.
    assert model.source["accuracy"] == "60.552"
    asked = len(hub.asked("resolve"))
    open_model("torchvision:shufflenet_v2_x0_5.IMAGENET1K_V1", None, WNIDS, pretrained=True, device="cpu")
    assert len(hub.asked("resolve")) == asked
    path.write_bytes(b"damaged")
    with stops(EvaluationError, "SHA-256"):
        open_model("torchvision:shufflenet_v2_x0_5", None, WNIDS, pretrained=True, device="cpu")


def test_a_download_of_another_hash_is_refused(served):
    path = served(torch.nn.Linear(1, 1), digest="0123456789")
    with pytest.raises(EvaluationError, match=r"Cannot download .*0123456789\.pth: .*hash.*\. Try again"):
        open_model("torchvision:shufflenet_v2_x0_5", None, WNIDS, pretrained=True, device="cpu")
    assert not path.exists()


def test_no_address_and_no_choice():
    with stops(EvaluationError):
        open_model("model.py:make", None, WNIDS, pretrained=True, device="cpu")
    for path, pretrained in ((None, False), ("weights.pt", True)):
        with stops(EvaluationError):
            open_model("timm:test_resnet", path, WNIDS, pretrained=pretrained, device="cpu")


def test_the_command_takes_a_tag_and_records_where_the_weights_are_from(hub, published, tmp_path, capsys):
    """As a flag alone, or with the tag of the weights; `score` takes the same model for a second look."""
    release = make_release(tmp_path / "release", {"small/test": range(6)}, labels=WNIDS, picture=picture)
    features, scores = tmp_path / "features", tmp_path / "scores.parquet"
    where = ["--release", str(release), "--device", "cpu", "--batch-size", "6"]
    model = ["--model", "timm:test_resnet"]
    assert (
        main(["extract", *where, *model, "--pretrained=r160_in1k", "--splits", "small", "--out", str(features)]) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    identity = FeatureStore.open(features).identity
    assert (identity.model, identity.source["revision"]) == (f"timm:{NAME}", published.id)
    assert f"revision {published.id}" in next(line for line in lines if line.startswith("weights"))
    assert lines[-2] == "classes  3 of the model's 1,000 logits"
    scored = ["score", "--features", str(features), "--no-search", "--out", str(scores)]
    assert main([*scored, *where, *model, "--pretrained", "--detectors", "msp,odin"]) == 0
    assert read_scores(scores)[1].source["revision"] == published.id
    assert main([*scored, *where, *model, "--detectors", "odin"]) == 2
    assert_sentence(capsys.readouterr().err, "--weights", "--pretrained")
