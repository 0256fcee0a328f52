"""CLIPs of a few kilobytes with random weights: of open_clip, of transformers, and a module of the same interface."""

import zlib

import unknown_detection as ud
from tests.evaluation.extra import nn, torch
from tests.evaluation.small_models import PREPROCESSING

LENGTH, WORDS, WIDTH = 16, 64, 8


def tokenize(texts):
    """Words by their CRC-32, padded with 0; the last token is the greatest, as in CLIP."""
    rows = [[1 + zlib.crc32(word.encode()) % (WORDS - 2) for word in text.lower().split()] for text in texts]
    return torch.tensor([[*row[: LENGTH - 1], WORDS - 1, *[0] * LENGTH][:LENGTH] for row in rows])


class Tiny(nn.Module):
    """The interface alone: patches of 4 x 4 pixels and a mean of words."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, stride=4)
        self.words = nn.EmbeddingBag(WORDS, WIDTH, mode="mean")
        self.logit_scale = nn.Parameter(torch.tensor(3.0))

    def encode_image(self, images):
        """Embeddings (B, 8), of no unit length."""
        return torch.tanh(self.patches(images)).mean(dim=(2, 3))

    def encode_text(self, tokens):
        """Embeddings (B, 8), of no unit length."""
        return self.words(tokens)


def tiny_local(model, images):
    """Embeddings of the four patches."""
    return torch.tanh(model.patches(images)).flatten(2).mT


def of_open_clip():
    """A vision transformer of two blocks."""
    import open_clip

    vision = {"image_size": 8, "layers": 2, "width": 16, "head_width": 8, "patch_size": 4}
    text = {"context_length": LENGTH, "vocab_size": WORDS, "width": 16, "heads": 2, "layers": 2}
    return open_clip.CLIP(embed_dim=WIDTH, vision_cfg=vision, text_cfg=text)


def of_transformers():
    """The same size in transformers."""
    from transformers import CLIPConfig, CLIPModel

    shared = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {**shared, "vocab_size": WORDS, "max_position_embeddings": LENGTH, "bos_token_id": 0}
    text |= {"eos_token_id": WORDS - 1, "pad_token_id": 0}
    vision = {**shared, "image_size": 8, "patch_size": 4}
    return CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=WIDTH))


class Tokens(dict):
    """What a tokenizer of transformers returns."""

    def to(self, device):
        """On a device."""
        return Tokens({name: values.to(device) for name, values in self.items()})


def as_transformers(texts, padding, truncation, return_tensors, max_length):
    """`tokenize` as a tokenizer of transformers."""
    assert (padding, truncation, return_tensors, max_length) == ("max_length", True, "pt", LENGTH)
    return Tokens(input_ids=tokenize(texts))


def seeded(make):
    """The model of random weights that are the same every time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make().eval()


def text_model(make=Tiny, **options):
    """One of these as a `TextModel`."""
    tokenizer = as_transformers if make is of_transformers else tokenize
    local = {"encode_local": tiny_local} if make is Tiny else {}
    return ud.TextModel(seeded(make), tokenizer, PREPROCESSING, **local, **options)


def tiny():
    """For FILE.py:FUNCTION."""
    return text_model()
