"""Images for boards: they look as the figures do, and their texts are whole, apart and large enough."""

from __future__ import annotations

from io import BytesIO
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import torch
from drawn_curves import binary, evaluation, updated
from matplotlib import rc_context
from PIL import Image
from torch import Tensor

from lightning_evalkit.evaluation.curve_panels import panels, thresholds
from lightning_evalkit.sinks import figures, thumbnails
from lightning_evalkit.sinks.panels import Line, Panel
from lightning_evalkit.sinks.png import png_of
from lightning_evalkit.sinks.raster import Raster, mask_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

TITLE = "val/curves · epoch 3"
ODD = ["$x_1$", "_hidden", r"$\alpha{$", "two\nlines", "a name that is much too long for any legend 17", "100 % $"]


def scored() -> Any:
    torch.manual_seed(0)
    return updated(evaluation("binary"), *binary(2000))


def classes(number: int) -> Any:
    torch.manual_seed(0)
    y = torch.arange(600) % number
    names = [*ODD, *map(str, range(number))][:number]
    scores = torch.randn(600, number) + 3 * torch.nn.functional.one_hot(y, number)
    return updated(evaluation("multiclass", num_classes=number, class_names=names), scores, y)


def unseen() -> Any:
    return updated(evaluation("binary"), torch.tensor([-1.0, 2.0]), torch.tensor([1, 1]))


LINES = [
    Line((0.2, 0.4), (0.0, 1.0), "band", "band"),
    Line((0.5, 0.7), (0.5, 0.7), "bars", "bars"),
    Line((0.0, 0.5, 1.0), (0.1, 0.9, 0.2), "points", "solid", 1, (0.1, 0.3, 0.6), ((0.0, 0.7, 0.1), (0.3, 1.0, 0.4))),
    Line((0.0, 1.0), ((0.2, 0.3), (0.5, 0.1)), "thin", "thin"),
    Line((0.0, 1.0), (0.4, 0.4), "mean", "mean"),
    Line((0.9,), (0.9,), "mark", "mark", 3),
]
PANELS: dict[str, Callable[[], Panel]] = {
    **{
        f"binary_{place}": lambda place=place: panels(scored())[place]  # type: ignore[misc]
        for place in range(4)
    },
    "costs": lambda: thresholds(scored(), {"fp": 1, "fn": 20}),
    "odd_names": lambda: panels(classes(6))[0],
    "thirty_classes": lambda: panels(classes(30))[2],
    "undefined": lambda: panels(unseen())[0],
    "every_kind": lambda: Panel("every kind of line", "x", "y", LINES, "heading"),
}


def table(number: int) -> Tensor:
    torch.manual_seed(0)
    return torch.randint(0, 9, (number, number)) + 80 * torch.eye(number, dtype=torch.long)


def tables(number: int) -> Tensor:
    torch.manual_seed(0)
    return torch.randint(0, 99, (number, 2, 2)) * torch.tensor([[9000, 1], [1, 1]])


COUNTS = {
    "two_classes": lambda: table(2),
    "ten_classes": lambda: table(10),
    "forty_classes": lambda: table(40),
    "three_labels": lambda: tables(3),
    "fifty_labels": lambda: tables(50),
    "many_labels": lambda: tables(101),
}


def named(number: int) -> list[str]:
    return [*ODD, *(f"name {place}" for place in range(number))][:number]


def image_and_figure(case: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    if case in PANELS:
        shown = PANELS[case]()
        return thumbnails.panel(shown, TITLE), figures.thumbnail(figures.panels([shown], TITLE))
    matrix = COUNTS[case]()
    draw = figures.confusion_matrix if matrix.ndim == 2 else figures.label_counts
    names = named(len(matrix))
    return thumbnails.counts(matrix, names, TITLE), figures.thumbnail(draw(matrix, names, TITLE))


def difference(image: NDArray[np.uint8], figure: NDArray[np.uint8]) -> float:
    """Of blurred pictures of one size: where letters and lines are moved by a pixel, little is left."""
    blurred = [
        np.asarray(Image.fromarray(each).resize((35, 40), Image.Resampling.BOX)).astype(float)
        for each in (image, figure)
    ]
    return float(np.abs(blurred[0] - blurred[1]).mean())


@pytest.fixture(scope="module")
def drawn() -> dict[str, tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    return {case: image_and_figure(case) for case in [*PANELS, *COUNTS]}


@pytest.mark.parametrize("case", [*PANELS, *COUNTS])
def test_an_image_looks_as_its_figure_does_and_not_as_another(case: str, drawn: dict[str, Any]):
    image, figure = drawn[case]
    assert image.shape[1] == figure.shape[1]
    assert image.shape[0] == pytest.approx(figure.shape[0], rel=0.06)
    others = [difference(image, other) for name, (_, other) in drawn.items() if name != case]
    assert difference(image, figure) < min(12, 0.9 * min(others))


# ---- texts


class Text(NamedTuple):
    text: str
    left: int
    top: int
    right: int
    bottom: int

    def overlaps(self, other: Text) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


class Written(NamedTuple):
    image: NDArray[np.uint8]
    texts: list[Text]


@pytest.fixture(params=[*PANELS, *COUNTS])
def written(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Written:
    """An image and the boxes of the ink of its texts."""
    texts: list[Text] = []
    write, names = Raster.text, []

    def noting(self: Raster, x: float, y: float, text: str, *options: Any, **more: Any) -> None:
        names.append(text)
        write(self, x, y, text, *options, **more)

    finish = Raster.pixels

    def noting_boxes(self: Raster) -> NDArray[np.uint8]:
        for text, (mask, _, (x, y)) in zip(names, self._texts, strict=True):
            left, top, right, bottom = mask.getbbox() or (0, 0, 0, 0)
            texts.append(Text(text, x + left, y + top, x + right, y + bottom))
        return finish(self)

    monkeypatch.setattr(Raster, "text", noting)
    monkeypatch.setattr(Raster, "pixels", noting_boxes)
    case = request.param
    if case in PANELS:
        return Written(thumbnails.panel(PANELS[case](), TITLE), texts)
    matrix = COUNTS[case]()
    return Written(thumbnails.counts(matrix, named(len(matrix)), TITLE), texts)


def test_texts_are_inside_the_image_and_apart(written: Written):
    height, width, _ = written.image.shape
    assert len(written.texts) >= 9
    for text in written.texts:
        assert 0 <= text.left < text.right <= width, text
        assert 0 <= text.top < text.bottom <= height, text
    assert [(a.text, b.text) for a, b in combinations(written.texts, 2) if a.overlaps(b)] == []


def test_an_image_is_small_and_a_multiple_of_what_tensorboard_shows(written: Written):
    assert written.image.shape[1] % 350 == 0 or written.image.shape[1] < 350
    assert len(png_of(written.image)) <= 100_000
    lines = (written.image < 255).any(-1)
    assert lines[:, -30:].any() or written.image.shape[1] % 350, "no empty side"
    assert lines[-30:].any()


def test_the_ground_of_a_file_is_white(written: Written):
    """A palette of means would tint it."""
    with Image.open(BytesIO(png_of(written.image))) as image:
        seen = np.asarray(image.convert("RGB"))
    assert (seen[0] == 255).all()
    assert np.abs(seen.astype(int) - written.image).mean() < 3


@pytest.mark.parametrize("number", [201, 700, 1000])
def test_no_cell_of_many_classes_is_left_out_and_the_file_is_small(number: int):
    """A tenth of the samples is confused at random, as of a thousand classes with 50 samples each."""
    torch.manual_seed(0)
    names = [str(place) for place in range(number)]
    alone = thumbnails.counts(torch.eye(number), names)
    dark = (alone < (20, 60, 120)).all(-1) & (alone[..., 2] > 60)  # the darkest blue
    height, width = (dark.any(side).sum() for side in (1, 0))
    assert min(height, width) >= number
    confused = 45 * torch.eye(number, dtype=torch.long)
    rows, columns = torch.randint(0, number, (2, 5 * number))
    confused.index_put_((rows, columns), torch.ones(5 * number, dtype=torch.long), accumulate=True)
    assert len(png_of(thumbnails.counts(confused, names))) <= 100_000
    assert len(png_of(thumbnails.counts(tables(number), names))) <= 100_000


def test_the_legend_is_below_the_axes():
    shown = PANELS["every_kind"]()
    image, bare = thumbnails.panel(shown), thumbnails.panel(shown._replace(lines=[], heading=""))
    rows = (bare < 128).all(-1).any(1).nonzero()[0]
    assert len(image) > len(bare) + 6 * 15
    assert rows[-1] < len(bare), "without a legend the label of x is the last"


def test_letters_that_the_first_font_lacks_come_from_another(recwarn: pytest.WarningsRecorder):
    """STIX, which matplotlib brings along, has no Armenian letters; DejaVu has."""
    with rc_context({"font.family": ["STIXGeneral", "DejaVu Sans"]}):
        mask = mask_of("ԱԲԳ", 8.5, 110)
    assert mask.getbbox() is not None
    assert not [each for each in recwarn if "missing" in str(each.message)]


def test_a_letter_of_no_font_is_told():
    with pytest.warns(UserWarning, match="missing from"):
        mask_of("\U000f0000", 8.5, 110)


def test_another_font_is_used_at_once():
    sans = mask_of("name", 8.5, 110)
    with rc_context({"font.family": ["DejaVu Sans Mono"]}):
        mono = mask_of("name", 8.5, 110)
    assert sans.tobytes() != mono.tobytes()
