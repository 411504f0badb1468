"""Names are shown as they are: in Markdown, on a terminal and in figures, whatever they look like there."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from typing import Any

import markdown as python_markdown
import matplotlib as mpl
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from lightning_evalkit import MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.callbacks.parts.tuned import tuning_table
from lightning_evalkit.diagnosis import Finding, Table
from lightning_evalkit.diagnosis.literal import literal, one_line
from lightning_evalkit.evaluation.curve_panels import panels
from lightning_evalkit.evaluation.score_snapshot import score_snapshot
from lightning_evalkit.sinks import figures, terminal

HOSTILE = ("a|b", "two\nlines", "<script>alert(1)</script>", "[x](javascript:y)", "*s*", "_u_", "`c`", "$x$", "&lt;")
HOSTILE += (
    "[bold]",
    "[/]",
    ":skull:",
    "\x1b[31mred",
    "- item",
    "1. one",
    "# head",
    "~~gone~~",
    "back\\slash",
    "![i](u)",
)
hostile = pytest.mark.parametrize("name", HOSTILE)
# Letters that mean something to Markdown, HTML, rich or matplotlib, and some that mean nothing.
names = st.text(st.sampled_from("|\n\r<>&*_`[]()$~#!\\-+.:/ab1 ="), min_size=1, max_size=12).filter(str.strip)


class Read(HTMLParser):
    """The texts of cells, or of everything, as a browser shows them; and the elements that were used."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.cells: list[str] = []
        self.text, self.used = "", set[str]()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.used.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.cells:
            self.cells[-1] += data


def read(text: str) -> Read:
    """As TensorBoard renders texts, before it cleans them."""
    return Read(python_markdown.markdown(text, extensions=["tables"]))


@given(names, names)
@example("a|b", "c\nd")
@example("_", "__")
def test_a_markdown_table_has_a_cell_for_each_and_shows_it_as_it_is(first: str, second: str) -> None:
    shown = read(Table((first, "value"), ((second, "0.5"), ("x", "1"))).markdown())
    assert [one_line(cell) for cell in shown.cells] == [one_line(first), "value", one_line(second), "0.5", "x", "1"]
    assert shown.used <= {"table", "thead", "tbody", "tr", "td", "th"}


@given(names)
@example("- item")
@example("1. one")
def test_a_finding_shows_names_as_they_are(name: str) -> None:
    shown = read(Finding("code", f"Of {name}.", (f"{name} is one", f"of ({name})")).markdown())
    assert one_line(shown.text) == one_line(f"Of {name}. {name} is one of ({name})")
    assert shown.used <= {"p", "strong", "ul", "li"}


@given(names)
def test_ordinary_names_stay_readable(name: str) -> None:
    assert literal("balanced_accuracy f1/macro val/log_loss@0.5 -0.25 +1") == (
        "balanced_accuracy f1/macro val/log_loss@0.5 -0.25 +1"
    )
    assert "\n" not in literal(name)


@hostile
def test_texts_keep_one_line_for_each_row(name: str) -> None:
    finding = Finding("code", f"Of {name}", (name, "second"), Table(("name", "value"), ((name, "0.5"),)))
    lines = finding.text().splitlines()
    assert lines == [f"Of {one_line(name)}", f"- {one_line(name)}", "- second", "", *lines[-2:]]
    assert lines[-1].split() == [*one_line(name).split(), "0.5"]
    assert "\x1b" not in finding.text()


@hostile
@pytest.mark.parametrize("interactive", [True, False])
def test_a_terminal_prints_names_as_they_are(name: str, interactive: bool) -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=interactive, width=200, color_system=None)
    terminal.show(Finding("code", f"Of {name}", (name,), Table(("name", name), ((name, "0.5"),))), console)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", written.getvalue())
    assert shown.count(one_line(name)) == 4
    assert "0.5" in shown


def scored(labels: list[str]) -> MultilabelEvaluation:
    evaluation = MultilabelEvaluation("logits", len(labels), labels, curves=True, per_label=True, zero_division=0.0)
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(40, len(labels), generator=generator)
    evaluation.update(logits, (torch.rand(logits.shape, generator=generator) < logits.sigmoid()).long())
    return evaluation


def test_explanations_lose_no_label() -> None:
    evaluation = scored([*HOSTILE])
    finding = evaluation.explain()
    shown = read(finding.markdown())
    expected = [(one_line(name), f"{float(evaluation[f'accuracy/{name}'].compute()):.4g}") for name in HOSTILE]
    cells = [one_line(cell) for cell in shown.cells[2:]]
    assert [(name, f"{float(value):.4g}") for name, value in zip(cells[::2], cells[1::2], strict=True)] == expected
    assert shown.used <= {"p", "strong", "ul", "li", "table", "thead", "tbody", "tr", "td", "th"}
    tuned = read(tuning_table({f"val/threshold/{name}": place / 64 for place, name in enumerate(HOSTILE)}))
    assert len(tuned.cells) == 2 * len(HOSTILE) + 2


def test_figures_write_names_as_they_are() -> None:
    names = ["_hidden", "$\\nothing$", "$", "two\nlines", "100%"]
    kept = score_snapshot(scored(names))
    assert kept is not None
    drawn = figures.panels(panels(kept), "$\\title$")
    figures.pixels(drawn)
    for axes in drawn.axes[:2]:
        texts = [text.get_text() for text in axes.get_legend().get_texts()]
        assert all(any(text.startswith(one_line(name)) for text in texts) for name in names), texts
    figures.pixels(figures.confusion_matrix(torch.eye(5), names, "$\\title$"))
    classes = MulticlassEvaluation("labels", 2, ["$\\nothing$", "b"], statistics=["recall/$\\nothing$"])
    classes.update(torch.tensor([0, 1]), torch.tensor([0, 1]))
    with mpl.rc_context({"backend": "agg"}):
        figure, _ = classes["recall/$\\nothing$"].plot()
        figure.canvas.draw()
