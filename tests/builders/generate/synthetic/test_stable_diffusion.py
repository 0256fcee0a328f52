"""Stable Diffusion 2, by a tiny pipeline that the real code saves and loads: images, and folders that are refused."""

import collections
import dataclasses
import hashlib
import json
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra generate is not installed")
diffusers = pytest.importorskip("diffusers", reason="the extra generate is not installed")

from safetensors.torch import load_file, save_file  # noqa: E402

from builders.errors import BuildError  # noqa: E402
from builders.generate.contract import SourceImage  # noqa: E402
from builders.generate.synthetic import demo as tiny  # noqa: E402
from builders.generate.synthetic import stable_diffusion as sd  # noqa: E402
from builders.generate.synthetic.stable_diffusion import load_pipeline  # noqa: E402
from tests.sentences import assert_sentence, stops  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A whole pipeline; read only."""
    return tiny.write_pipeline(tmp_path_factory.mktemp("pipeline") / "sd2")


def row(wnid, number):
    return SourceImage(f"stable_diffusion/{wnid}/{number:02d}#stable-diffusion-2", wnid, "", None, b"")


def quick(folder, steps=3):
    """The generator with fewer steps."""
    generator = sd.with_weights(str(folder), "cpu")
    return dataclasses.replace(generator, parameters={**generator.parameters, "steps": steps})


def test_images_depend_on_their_row_alone(folder):
    generator = quick(folder)
    generate = generator.start(generator)
    sources = [row("n01440764", 0), row("n01440764", 1), row("n02012849", 0)]
    images = generate(sources)
    alone = [generate([source])[0] for source in reversed(sources)][::-1]
    for source, image, other in zip(sources, images, alone, strict=True):
        assert image.pixels.shape == (64, 64, 3)
        # The same numbers in a batch of another size are rounded differently in their last bits.
        assert np.abs(image.pixels.astype(int) - other.pixels).max() <= 1
        assert image.values == other.values == {"prompt": sd.prompt_of(source), "seed": source.seed}
    reordered = generate(sources[::-1])[::-1]
    assert np.array_equal([image.pixels for image in images], [image.pixels for image in reordered])
    assert np.abs(images[0].pixels.astype(int) - images[1].pixels).mean() > 5


def test_images_are_those_of_a_plain_call_of_diffusers(folder):
    generator = quick(folder)
    source = row("n02012849", 3)
    (generated,) = generator.start(generator)([source])
    pipeline = diffusers.StableDiffusionPipeline.from_pretrained(folder, safety_checker=None)
    pipeline.set_progress_bar_config(disable=True)
    # diffusers draws the latents of one image of shape (1, 4, 8, 8) from its generator.
    image = pipeline(
        "High quality image of a crane.",
        num_inference_steps=3,
        guidance_scale=7.5,
        generator=torch.Generator("cpu").manual_seed(source.seed),
    ).images[0]
    assert np.array_equal(generated.pixels, np.asarray(image))


def test_the_prediction_is_of_velocity(folder):
    # One step of DDIM by hand (Song et al., equation 12; Salimans and Ho, appendix D), against the loaded scheduler.
    scheduler = load_pipeline(folder, sd.present_files(folder)).scheduler
    scheduler.set_timesteps(50)
    assert scheduler.timesteps[0] == 981  # leading spacing: 49 * 20, and the offset of 1
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2
    signal = torch.cumprod(1 - betas, 0)
    noisy, velocity = torch.randn(2, 1, 4, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    alpha, next_alpha = signal[981], signal[961]
    clean = alpha.sqrt() * noisy - (1 - alpha).sqrt() * velocity
    noise = alpha.sqrt() * velocity + (1 - alpha).sqrt() * noisy
    expected = next_alpha.sqrt() * clean + (1 - next_alpha).sqrt() * noise
    assert torch.allclose(scheduler.step(velocity, 981, noisy).prev_sample, expected, atol=1e-5)


def test_names_are_drawn_evenly_by_the_id():
    # The tench has two names, in WordNet and in ImageNet's list: tench, Tinca tinca.
    drawn = collections.Counter(sd.prompt_of(row("n01440764", number)) for number in range(2_000))
    assert set(drawn) == {"High quality image of a tench.", "High quality image of a Tinca tinca."}
    assert abs(drawn["High quality image of a tench."] - 1_000) < 4 * (2_000 / 4) ** 0.5
    tench = row("n01440764", 0)
    number = int.from_bytes(hashlib.sha256(tench.id.encode()).digest()[8:16], "big")
    assert sd.draw_name(tench) == ("tench", "Tinca tinca")[number % 2]
    assert sd.prompt_of(row("n02012849", 0)) == sd.prompt_of(row("n03126707", 0)) == "High quality image of a crane."


def test_what_is_recorded(folder):
    entry = sd.with_weights(str(folder), "cpu").entry()
    assert entry.reproducible == "recorded"
    assert {key: entry.parameters[key] for key in ("scheduler", "steps", "guidance", "safety_checker", "dtype")} == {
        "scheduler": "DDIM",
        "steps": 50,
        "guidance": 7.5,
        "safety_checker": "none",
        "dtype": "float32",
    }
    assert {"batch_size", "device", "side", "torch", "diffusers", "transformers"} <= set(entry.parameters)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert entry.weights == {
        f"stable-diffusion-2/{path.relative_to(folder).as_posix()}": hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def refused(folder):
    with pytest.raises(BuildError) as caught:
        generator = quick(folder)
        generator.start(generator)
    message = str(caught.value)
    assert str(folder) in message and "--stable-diffusion" in message and "\n" not in message
    return message


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


PARTS = ["tokenizer", "scheduler", "unet", "vae", "text_encoder", "model_index.json"]
FILES = ["tokenizer/vocab.json", "tokenizer/merges.txt", "unet/config.json"]


@pytest.mark.parametrize("name", PARTS + FILES)
def test_a_folder_without_a_part_or_a_file_is_refused(copy, name):
    shutil.rmtree(copy / name) if (copy / name).is_dir() else (copy / name).unlink()
    assert name.split("/")[0] in refused(copy)


WEIGHTS = {
    "unet": "diffusion_pytorch_model.safetensors",
    "vae": "diffusion_pytorch_model.safetensors",
    "text_encoder": "model.safetensors",
}


@pytest.mark.parametrize(
    ("part", "change"),
    [
        *((part, "missing") for part in WEIGHTS),
        *(("unet", how) for how in ("unknown", "another shape", "cut", "code")),
    ],
)
def test_other_tensors_are_refused(copy, part, change):
    path = copy / part / WEIGHTS[part]
    tensors = load_file(path)
    name = sorted(tensors)[0]
    if change == "missing":
        del tensors[name]
    elif change == "unknown":
        tensors["extra.weight"] = torch.zeros(2)
    elif change == "another shape":
        tensors[name] = torch.zeros(3, 5)
    save_file(tensors, path, metadata={"format": "pt"})
    if change == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    if change == "code":
        torch.save({"a": print}, path)
    message = refused(copy)
    assert part in message
    if change in ("missing", "unknown"):
        assert_sentence(message, change)


def edited(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_another_model_of_the_family_is_refused(copy):
    edited(copy / "scheduler" / "scheduler_config.json", prediction_type="epsilon")
    assert "its prediction_type is epsilon instead of v_prediction" in refused(copy)
    edited(copy / "model_index.json", _class_name="StableDiffusionXLPipeline")
    assert "StableDiffusionXLPipeline" in refused(copy)
    (copy / "model_index.json").write_text("{")
    assert "is not JSON" in refused(copy)


def test_another_tokenizer_is_refused(copy):
    vocabulary = json.loads((copy / "tokenizer" / "vocab.json").read_text())
    (copy / "tokenizer" / "vocab.json").write_text(json.dumps(vocabulary | {"more": len(vocabulary)}))
    assert "has 191 words, and the text encoder knows 190" in refused(copy)


def test_files_that_changed_since_the_start_are_refused(copy):
    generator = quick(copy)
    edited(copy / "unet" / "config.json", sample_size=16)
    with stops(BuildError, "stable-diffusion-2/unet/config.json"):
        generator.start(generator)


def test_only_the_recorded_files_are_read(folder, copy):
    """Weights in shards beside the recorded file took its place, and the manifest named the file."""
    file = copy / "unet" / WEIGHTS["unet"]
    shard = file.with_name("diffusion_pytorch_model-00001-of-00001.safetensors")
    tensors = {name: 2 * tensor for name, tensor in load_file(file).items()}
    save_file(tensors, shard, metadata={"format": "pt"})
    index = {"metadata": {"total_size": shard.stat().st_size}, "weight_map": dict.fromkeys(tensors, shard.name)}
    file.with_name(f"{file.name}.index.json").write_text(json.dumps(index))
    alone, beside_shards = quick(folder, 1), quick(copy, 1)
    assert alone.identity() == beside_shards.identity()
    (expected,), (generated,) = (
        generator.start(generator)([row("n01440764", 0)]) for generator in (alone, beside_shards)
    )
    assert np.array_equal(generated.pixels, expected.pixels)


def test_a_published_layout_loads(copy):
    # The published files have old names in the decoder's attention, and the text encoder's positions.
    path = copy / "vae" / WEIGHTS["vae"]
    old = {"to_q.": "query.", "to_k.": "key.", "to_v.": "value.", "to_out.0.": "proj_attn."}
    tensors = {}
    for name, value in load_file(path).items():
        for new, before in old.items():
            name = name.replace(new, before)
        tensors[name] = value
    assert any(".query." in name for name in tensors)
    save_file(tensors, path, metadata={"format": "pt"})
    path = copy / "text_encoder" / WEIGHTS["text_encoder"]
    tensors = {f"text_model.{name.removeprefix('text_model.')}": value for name, value in load_file(path).items()}
    tensors["text_model.embeddings.position_ids"] = torch.arange(77)[None]
    save_file(tensors, path, metadata={"format": "pt"})
    load_pipeline(copy, sd.present_files(copy))


def test_a_repository_is_taken_from_the_hub_or_refused(folder, tmp_path, monkeypatch):
    import huggingface_hub

    # A cache as `huggingface_hub` leaves it, and no network.
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    place = tmp_path / "models--someone--sd2"
    commit = "0123456789" * 4
    shutil.copytree(folder, place / "snapshots" / commit)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit)
    for location in ("someone/sd2", f"someone/sd2@{commit}"):
        assert sd.with_weights(location, "cpu").weights == sd.with_weights(str(folder), "cpu").weights
    with pytest.raises(BuildError, match=r"^Cannot download someone/other from the Hub .*--stable-diffusion"):
        sd.with_weights("someone/other", "cpu")
    for location in ("nothing", "../none/here", "a/b/c"):
        with pytest.raises(BuildError, match=r"^There is no folder .*--stable-diffusion"):
            sd.with_weights(location, "cpu")
