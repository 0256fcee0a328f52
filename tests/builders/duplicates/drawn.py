"""Images of few shapes, made by code: what the search for near-duplicates was not made for, and line drawings."""

import numpy as np
from PIL import Image, ImageDraw
from sklearn.datasets import load_digits

COLOURS = ((220, 50, 47), (38, 139, 210), (133, 153, 0), (181, 137, 0))


def digits(count, random, of=range(10)):
    """Handwritten digits of scikit-learn, 8 x 8, enlarged to 32 x 32."""
    data = load_digits()
    chosen = random.permutation(np.flatnonzero(np.isin(data.target, list(of))))[:count]
    levels = (data.images[chosen] * 255 / 16).round().astype(np.uint8)
    return [Image.fromarray(image).resize((32, 32), Image.Resampling.BICUBIC) for image in levels]


def icons(count, random, of=range(4)):
    """A coloured shape on white with a white sign in it."""
    images = []
    for _ in range(count):
        image = Image.new("RGB", (64, 64), "white")
        draw, colour = ImageDraw.Draw(image), COLOURS[random.integers(4)]
        low, size, shape = int(random.integers(8, 16)), int(random.integers(3, 7)), random.choice(list(of))
        high = 63 - low
        if shape == 0:
            draw.ellipse((low, low, high, high), fill=colour)
        elif shape == 1:
            draw.rectangle((low, low, high, high), fill=colour)
        elif shape == 2:
            draw.polygon([(32, low), (high, high), (low, high)], fill=colour)
        else:
            draw.rounded_rectangle((low, low, high, high), 12, fill=colour)
        if random.integers(2):
            draw.line([(24, 32), (40, 32)], fill="white", width=size)
        else:
            draw.ellipse((32 - size, 32 - size, 32 + size, 32 + size), fill="white")
        images.append(image)
    return images


def textures(count, random):
    """Grey stripes of four directions, with a period, a phase and noise of their own."""
    y, x = np.mgrid[:64, :64]
    images = []
    for _ in range(count):
        angle = random.integers(4) * np.pi / 4 + random.normal(0, 0.05)
        waves = 2 * np.pi * (x * np.cos(angle) + y * np.sin(angle)) / random.uniform(6, 20) + random.uniform(0, 7)
        images.append(_grey(128 + 80 * np.sign(np.sin(waves)) + random.normal(0, 6, x.shape)))
    return images


def scans(count, random):
    """Soft grey ellipses where an X-ray of a chest has body, lungs and heart."""
    y, x = np.mgrid[:96, :96] / 95 - 0.5

    def ellipse(middle, radii):
        squares = ((x - middle[0]) / radii[0]) ** 2 + ((y - middle[1]) / radii[1]) ** 2
        return 1 / (1 + np.exp(np.minimum(20 * (squares - 1), 50)))

    images = []
    for _ in range(count):
        levels = 30 + 190 * ellipse((0, 0.1), (0.48, 0.6))
        for side in (-0.2, 0.2):
            moved, stretched = random.normal(0, 0.015, (2, 2))
            levels -= 120 * ellipse(moved + np.array([side, 0]), stretched + np.array([0.15, 0.3]))
        levels += 50 * ellipse(random.normal([0.05, 0.12], 0.015), (0.1, 0.14))
        images.append(_grey(levels + random.normal(0, 5, x.shape)))
    return images


def drawings(count, random):
    """Some black lines and a circle on white, all at random places."""
    images = []
    for _ in range(count):
        image = Image.new("L", (96, 96), 255)
        draw = ImageDraw.Draw(image)
        for _ in range(int(random.integers(2, 6))):
            draw.line([tuple(point) for point in random.integers(8, 88, (3, 2)).tolist()], fill=0, width=3)
        x, y, radius = random.integers(20, 70, 3).tolist()
        draw.ellipse((x - radius / 2, y - radius / 2, x + radius / 2, y + radius / 2), outline=0, width=3)
        images.append(image)
    return images


def _grey(levels):
    return Image.fromarray(levels.clip(0, 255).astype(np.uint8))
