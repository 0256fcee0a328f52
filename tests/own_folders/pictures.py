"""Images in the forms that Pillow writes, of small pictures: formats, modes, compression, colour profiles, rotation.

Left out are values of more than 8 bits and EPS, which a build refuses by name.
"""

import io

import numpy as np
from PIL import Image, ImageCms

ICC = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/></x:xmpmeta>'


def exif(orientation):
    block = Image.Exif()
    block[0x0112], block[0x010F], block[0x011A] = orientation, "Maker \xe9", 72.0
    return block


def _written(image, kind, **options):
    data = io.BytesIO()
    image.save(data, kind, **options)
    return data.getvalue()


def _frames(image):
    return [image.rotate(90 * turn) for turn in (1, 2)]


def _see_through(image):
    image = image.convert("RGBA")
    image.putalpha(image.getchannel("R"))
    return image


def _palette(image, colours=16):
    return image.quantize(colours)


FORMS = {
    # JPEG
    "jpeg": lambda image, _: _written(image, "JPEG"),
    "jpeg-progressive": lambda image, _: _written(image, "JPEG", progressive=True, quality=60),
    "jpeg-optimized": lambda image, _: _written(image, "JPEG", optimize=True, quality=95),
    "jpeg-4:4:4": lambda image, _: _written(image, "JPEG", subsampling=0),
    "jpeg-4:2:2": lambda image, _: _written(image, "JPEG", subsampling=1),
    "jpeg-rgb": lambda image, _: _written(image, "JPEG", keep_rgb=True),
    "jpeg-grey": lambda image, _: _written(image.convert("L"), "JPEG"),
    "jpeg-grey-progressive": lambda image, _: _written(image.convert("L"), "JPEG", progressive=True),
    "jpeg-cmyk": lambda image, _: _written(image.convert("CMYK"), "JPEG"),
    "jpeg-ycbcr": lambda image, _: _written(image.convert("YCbCr"), "JPEG"),
    "jpeg-turned": lambda image, rng: _written(image, "JPEG", exif=exif(int(rng.integers(1, 9)))),
    "jpeg-icc": lambda image, _: _written(image, "JPEG", icc_profile=ICC),
    "jpeg-all": lambda image, rng: _written(
        image, "JPEG", exif=exif(int(rng.integers(1, 9))), icc_profile=ICC, xmp=XMP, comment=b"c", dpi=(72, 72)
    ),
    "jpeg-restarts": lambda image, _: _written(image, "JPEG", restart_marker_rows=1),
    "mpo": lambda image, _: _written(image, "MPO", save_all=True, append_images=_frames(image)),
    # PNG
    "png": lambda image, _: _written(image, "PNG"),
    "png-1": lambda image, _: _written(image.convert("1"), "PNG"),
    "png-grey": lambda image, _: _written(image.convert("L"), "PNG"),
    "png-grey-alpha": lambda image, _: _written(_see_through(image).convert("LA"), "PNG"),
    "png-alpha": lambda image, _: _written(_see_through(image), "PNG"),
    "png-palette": lambda image, _: _written(_palette(image), "PNG"),
    "png-palette-2-bits": lambda image, _: _written(_palette(image, 4), "PNG", bits=2),
    "png-palette-transparent": lambda image, _: _written(_palette(image), "PNG", transparency=1),
    "png-transparent-colour": lambda image, _: _written(image, "PNG", transparency=(0, 0, 0)),
    "png-turned": lambda image, rng: _written(image, "PNG", exif=exif(int(rng.integers(1, 9)))),
    "png-icc": lambda image, _: _written(image, "PNG", icc_profile=ICC),
    "png-stored": lambda image, _: _written(image, "PNG", compress_level=0),
    "png-animated": lambda image, _: _written(image, "PNG", save_all=True, append_images=_frames(image)),
    "png-animated-poster": lambda image, _: _written(
        image, "PNG", save_all=True, append_images=_frames(image), default_image=True
    ),
    # WebP
    "webp": lambda image, _: _written(image, "WebP"),
    "webp-lossless": lambda image, _: _written(image, "WebP", lossless=True),
    "webp-alpha": lambda image, _: _written(_see_through(image), "WebP"),
    "webp-turned": lambda image, rng: _written(image, "WebP", exif=exif(int(rng.integers(1, 9))), icc_profile=ICC),
    "webp-animated": lambda image, _: _written(image, "WebP", save_all=True, append_images=_frames(image)),
    # GIF
    "gif": lambda image, _: _written(image, "GIF"),
    "gif-grey": lambda image, _: _written(image.convert("L"), "GIF"),
    "gif-1": lambda image, _: _written(image.convert("1"), "GIF"),
    "gif-plain-rows": lambda image, _: _written(image, "GIF", interlace=False),
    "gif-transparent": lambda image, _: _written(_palette(image), "GIF", transparency=2),
    "gif-animated": lambda image, _: _written(
        image, "GIF", save_all=True, append_images=_frames(image), loop=0, duration=40, comment=b"c"
    ),
    # TIFF
    "tiff": lambda image, _: _written(image, "TIFF"),
    **{
        f"tiff-{compression}": lambda image, _, compression=compression: _written(
            image, "TIFF", compression=compression
        )
        for compression in ("packbits", "tiff_lzw", "tiff_adobe_deflate", "jpeg")
    },
    **{
        f"tiff-{compression}": lambda image, _, compression=compression: _written(
            image.convert("1"), "TIFF", compression=compression
        )
        for compression in ("raw", "group3", "group4", "tiff_ccitt")
    },
    "tiff-grey": lambda image, _: _written(image.convert("L"), "TIFF"),
    "tiff-grey-alpha": lambda image, _: _written(_see_through(image).convert("LA"), "TIFF"),
    "tiff-alpha": lambda image, _: _written(_see_through(image), "TIFF"),
    "tiff-palette": lambda image, _: _written(_palette(image), "TIFF"),
    "tiff-cmyk": lambda image, _: _written(image.convert("CMYK"), "TIFF"),
    "tiff-ycbcr": lambda image, _: _written(image.convert("YCbCr"), "TIFF"),
    "tiff-lab": lambda image, _: _written(image.convert("LAB"), "TIFF"),
    "tiff-turned": lambda image, rng: _written(image, "TIFF", exif=exif(int(rng.integers(1, 9)))),
    "tiff-pages": lambda image, _: _written(image, "TIFF", save_all=True, append_images=_frames(image)),
    "tiff-big": lambda image, _: _written(image, "TIFF", big_tiff=True),
    # BMP and Netpbm
    "bmp": lambda image, _: _written(image, "BMP"),
    "bmp-1": lambda image, _: _written(image.convert("1"), "BMP"),
    "bmp-grey": lambda image, _: _written(image.convert("L"), "BMP"),
    "bmp-palette": lambda image, _: _written(_palette(image), "BMP"),
    "bmp-alpha": lambda image, _: _written(_see_through(image), "BMP"),
    "ppm": lambda image, _: _written(image, "PPM"),
    "pgm": lambda image, _: _written(image.convert("L"), "PPM"),
    "pbm": lambda image, _: _written(image.convert("1"), "PPM"),
}
"""What writes an image in a form, from a picture and a generator, by the form's name."""


def picture(rng):
    """A picture of its own, of 1 to 40 pixels a side: blurred noise, so that lossy formats keep it apart."""
    size = tuple(int(side) for side in rng.integers(1, 41, 2))
    coarse = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
    return coarse.resize(size, Image.Resampling.BICUBIC)


def encoded(rng, form=None):
    """The bytes of an image in a form, or in one that is drawn."""
    form = form or list(FORMS)[int(rng.integers(len(FORMS)))]
    return FORMS[form](picture(rng), rng)
