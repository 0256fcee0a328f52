"""Models of transformers and open_clip from the stand-in for the Hub: their logits, at a commit, and no pickle."""

import hashlib
import json
import pickle

import numpy as np
import pytest

transformers = pytest.importorskip("transformers", reason="opens models of transformers, which no extra of ours has")

from PIL import Image  # noqa: E402

import unknown_detection as ud  # noqa: E402
from tests.evaluation import small_clips  # noqa: E402
from tests.evaluation.extra import safetensors, torch  # noqa: E402
from tests.evaluation.models.test_weights import Executes  # noqa: E402
from tests.evaluation.samples import CONFIG, LABELS  # noqa: E402
from tests.evaluation.small_models import of_seed  # noqa: E402
from tests.sentences import stops  # noqa: E402
from unknown_detection.evaluation.errors import EvaluationError  # noqa: E402
from unknown_detection.evaluation.models import libraries  # noqa: E402
from unknown_detection.evaluation.models.models import open_model  # noqa: E402
from unknown_detection.evaluation.models.text import PROMPTS, Texts  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "only_loopback")

REPOSITORY = "org/tiny"
NAMES = {0: "Grey", 1: "red", 2: "other", 3: "blue", 4: "green"}
"""Labels in another order than the release's classes, and one more."""

SMALL = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "image_size": 8, "patch_size": 4}


def vit(**changes):
    config = transformers.ViTConfig(hidden_size=16, **SMALL, num_labels=5, id2label=NAMES)
    return of_seed(lambda: transformers.ViTForImageClassification(config), **changes)


def resnet():
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}
    config = transformers.ResNetConfig(**sizes, num_labels=5, id2label=NAMES)
    return of_seed(lambda: transformers.ResNetForImageClassification(config))


def files_of(model):
    size = {"height": 8, "width": 8}
    processor = transformers.ViTImageProcessor(size=size, image_mean=[0.5, 0.4, 0.3], image_std=[0.2, 0.25, 0.5])
    config = {**model.config.to_dict(), "architectures": [type(model).__name__]}
    return {
        "config.json": json.dumps(config, default=str).encode(),
        "preprocessor_config.json": json.dumps(processor.to_dict(), default=str).encode(),
        "model.safetensors": safetensors.save({name: of.contiguous() for name, of in model.state_dict().items()}),
    }


@pytest.fixture
def publish(hub, api):
    def commit(model, repository=REPOSITORY, **changes):
        if repository not in created:
            hub.create(repository)
            created.append(repository)
        files = {**files_of(model), **changes}
        return hub.commit(repository, {name: data for name, data in files.items() if data is not None})

    created = []
    return commit


def opened(spec=f"transformers:{REPOSITORY}", names=LABELS):
    return open_model(spec, None, names, pretrained=True, device="cpu")


@pytest.mark.parametrize(("make", "blocks"), [(vit, "vit.layers"), (resnet, "resnet.encoder.stages")])
def test_logits_features_and_source(hub, publish, make, blocks):
    """Those of the classifier itself, for the classes that its labels name in any letters; blocks are its stages."""
    published, model = publish(make()), make()
    found = opened()
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = model(pixel_values=images).logits[:, [1, 4, 3, 0]]  # red, green, blue and grey
    outputs = found.forward(images)
    assert torch.allclose(outputs.logits, expected, atol=1e-6)
    assert found.layers.blocks == (f"model.{blocks}.0", f"model.{blocks}.1") and found.layers.linear
    if make is vit:  # the class token of the last block
        with torch.no_grad():
            tokens = model.vit(pixel_values=images, output_hidden_states=True).hidden_states[-1][:, 0]
        assert torch.allclose(outputs.blocks[f"model.{blocks}.1"], tokens, atol=1e-6)
    assert found.source == {
        "address": f"{hub.endpoint}/{REPOSITORY}",
        "revision": published.id,
        "file": "model.safetensors",
        "sha256": hashlib.sha256(hub.read(REPOSITORY, "model.safetensors")).hexdigest(),
        "logits": "1,4,3,0",
        "width": "5",
    }
    picture = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    by_hand = (picture / 255 - [0.5, 0.4, 0.3]) / [0.2, 0.25, 0.5]
    made = found.preprocessing(Image.fromarray(picture)).numpy().transpose(1, 2, 0)
    assert np.allclose(made, by_hand, atol=1e-5)
    assert found.preprocessing.of_channels("std") == (0.2, 0.25, 0.5)
    assert found.preprocessing.describe_prepared(16) == "16 x 16 pixels resized to 8 x 8 (bilinear)"


def test_a_label_of_two_logits_names_no_class(publish):
    """As in classifiers of ImageNet whose labels are names: its first crane is a bird."""
    config = transformers.ViTConfig(hidden_size=16, **SMALL, num_labels=5, id2label={**NAMES, 2: "red"})
    publish(of_seed(lambda: transformers.ViTForImageClassification(config)))
    with stops(EvaluationError):
        opened()


def test_a_revision_pins_the_weights(publish):
    """An earlier commit has the weights of before, and both are models of one name."""
    first, second = publish(vit()), publish(vit(seed=1))
    old, new, pinned = (opened(f"transformers:{REPOSITORY}{at}") for at in (f"@{first.id}", "", f"@{second.id}"))
    assert old.name == new.name == f"transformers:{REPOSITORY}"
    assert old.digest != new.digest == pinned.digest
    assert (old.source["revision"], new.source["revision"]) == (first.id, second.id)


def test_no_pickle_and_no_code_is_run(publish, tmp_path, monkeypatch):
    """Weights in another file, a model whose code is in its repository, and an encoder without a classifier."""
    monkeypatch.chdir(tmp_path)
    publish(vit(), "org/pickle", **{"pytorch_model.bin": pickle.dumps({"a": Executes()}), "model.safetensors": None})
    with stops(EvaluationError, "org/pickle", "model.safetensors"):
        opened("transformers:org/pickle")
    config = json.loads(files_of(vit())["config.json"])
    own = {**config, "model_type": "own", "auto_map": {"AutoConfig": "own.Config"}}
    code = {"config.json": json.dumps(own).encode(), "own.py": b"open('executed', 'w')\nclass Config: pass\n"}
    publish(vit(), "org/code", **code)
    with stops(EvaluationError, "org/code"):
        opened("transformers:org/code")
    weights = {name: of for name, of in vit().state_dict().items() if not name.startswith("classifier")}
    publish(vit(), "org/encoder", **{"model.safetensors": safetensors.save(weights)})
    with stops(EvaluationError, "classifier.bias"):
        opened("transformers:org/encoder")
    assert not (tmp_path / "executed").exists()


def test_what_is_refused(publish, monkeypatch):
    publish(vit())
    with stops(EvaluationError, "org/none"):
        opened("transformers:org/none")
    with stops(EvaluationError, "5 logits"):
        opened(names=("a", "b"))
    for path in (None, "weights.pt"):
        with stops(EvaluationError, "pretrained="):
            open_model(f"transformers:{REPOSITORY}", path, LABELS, device="cpu")
    monkeypatch.setattr(libraries.importlib.util, "find_spec", lambda name: None)
    with stops(EvaluationError, "pip install transformers"):
        opened()


def test_a_list_of_it_and_of_a_module_from_images_to_ranks(publish, release, tmp_path):
    """Scores of detectors that read the head and blocks; a repository that lacks is named and left out."""
    publish(vit())
    publish(resnet(), "org/resnet")
    names = [f"transformers:{REPOSITORY}", "transformers:org/resnet", "transformers:org/none"]
    options = {"splits": f"{CONFIG},{CONFIG}-train", "search": False, "workers": 0, "quiet": True, "plots": False}
    with pytest.warns(UserWarning, match="there are no scores of transformers-org-none: Cannot download"):
        done = ud.run(names, release, ["msp", "vim", "react"], tmp_path / "run", device="cpu", **options)
    assert done.figures["model"].unique().tolist() == names[:2]
    assert done.figures["detector"].unique().tolist() == ["msp", "vim", "react"]


def clip_of_transformers():
    """Its files: the tiny CLIP, and a tokenizer of whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: number for number, word in enumerate(["<pad>", "<unk>", "a", "photo", "of", *LABELS])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", model_max_length=small_clips.LENGTH
    )
    model = small_clips.seeded(small_clips.of_transformers)
    return model, fast, files_of(model)


def test_a_clip_of_transformers_is_a_text_model(publish, release, tmp_path):
    """Logits are those of its own forward pass, for the classes in the prompt, and MCM reads them."""
    model, tokenizer, files = clip_of_transformers()
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    kept = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
    beside = {path.name: path.read_bytes() for path in (tmp_path / "tokenizer").iterdir() if path.name in kept}
    published = publish(model, "org/clip", **files, **beside)
    texts = Texts(lambda: LABELS)
    found = open_model("transformers:org/clip", None, LABELS, pretrained=True, device="cpu", texts=texts)
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    tokens = tokenizer([PROMPTS[0].format(name) for name in LABELS], padding="max_length", return_tensors="pt")
    with torch.no_grad():
        expected = model(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"], pixel_values=images)
    assert torch.allclose(found.forward(images).logits, expected.logits_per_image, atol=1e-4)
    assert (found.name, found.source["revision"]) == ("transformers:org/clip", published.id)
    splits = f"{CONFIG}/test,{CONFIG}/near_ood"
    done = ud.run(["transformers:org/clip"], release, "mcm", splits=splits, device="cpu", workers=0, quiet=True)
    assert done.figures["detector"].unique().tolist() == ["mcm"]


def test_a_clip_of_open_clip(hub, publish):
    """By open_clip's own config, transforms and tokenizer; a pickle beside the weights is not read."""
    open_clip = pytest.importorskip("open_clip", reason="opens models of open_clip, which no extra of ours has")
    vision = {"image_size": 8, "layers": 2, "width": 16, "head_width": 8, "patch_size": 4}
    text = {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2}
    config = {"embed_dim": 8, "vision_cfg": vision, "text_cfg": text}
    model = small_clips.seeded(lambda: open_clip.CLIP(**config))
    mean_and_std = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.25, 0.5]}
    files = {
        "open_clip_config.json": json.dumps({"model_cfg": config, "preprocess_cfg": mean_and_std}).encode(),
        "open_clip_model.safetensors": safetensors.save(model.state_dict()),
        "open_clip_pytorch_model.bin": pickle.dumps({"a": Executes()}),
    }
    hub.create("org/open")
    published = hub.commit("org/open", files)
    texts = Texts(lambda: LABELS)
    found = open_model(f"open_clip:org/open@{published.id}", None, LABELS, pretrained=True, device="cpu", texts=texts)
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    tokens = open_clip.SimpleTokenizer(context_length=16)([PROMPTS[0].format(name) for name in LABELS])
    with torch.no_grad():
        embedded, of_texts, scale = model(images, tokens)
    assert torch.allclose(found.forward(images).logits, scale * embedded @ of_texts.T, atol=1e-4)
    assert found.source["file"] == "open_clip_model.safetensors" and found.source["revision"] == published.id
    assert found.preprocessing.of_channels("std") == pytest.approx((0.2, 0.25, 0.5), abs=1e-5)
    borrowed = {"model_cfg": {**config, "text_cfg": {**text, "hf_model_name": "org/other"}}}
    hub.commit("org/open", {"open_clip_config.json": json.dumps(borrowed).encode()})
    with stops(EvaluationError, "org/open"):
        open_model("open_clip:org/open", None, LABELS, pretrained=True, device="cpu", texts=texts)
    with stops(EvaluationError, "open_clip_model.safetensors"):
        hub.commit("org/open", {"open_clip_model.safetensors": None})
        open_model("open_clip:org/open", None, LABELS, pretrained=True, device="cpu", texts=texts)
