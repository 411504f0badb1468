"""Turns pixels into small PNG files: 256 colours are enough for lines and letters, in a third of the bytes."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from lightning_evalkit.errors import required

with required("PIL"):
    from PIL import Image

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COLOURS = 256


def png_of(pixels: NDArray[np.uint8], **options: Any) -> bytes:
    """Encode an image of shape (height, width, 3) as PNG; options are Pillow's."""
    reduced = Image.fromarray(pixels).quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    file = BytesIO()
    reduced.save(file, "PNG", **options)
    return file.getvalue()
