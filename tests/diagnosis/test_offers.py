"""Errors that offer a name: what they offer is accepted in that place, and is never the word that was refused."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lightning_evalkit import BinaryEvaluation, Counts, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.cli.main import main
from lightning_evalkit.diagnosis import explain
from lightning_evalkit.errors import DeclarationError, InputError, listed, nearest
from lightning_evalkit.statistics import OVERALL, SCORE_STATISTICS, STATISTICS
from lightning_evalkit.statistics.score_statistics import auroc  # noqa: F401  (fills the table)

COUNTS = Counts(3, 1, 2, 4)
ENDS = ("", "/macro", "/micro", "/weighted", "/samples", "/ant", "/bee", "/", "/ants")
BASES = sorted(
    {*STATISTICS, *SCORE_STATISTICS, *OVERALL, "exact_match", "hamming_accuracy", "one_vs_rest_accuracy", "loss"}
)


def declare(kind: Callable[..., Any], name: str) -> Any:
    return kind(statistics=[name], curves=True)


def explained(name: str) -> Any:
    return explain(COUNTS, name, "f1" if name != "f1" else "recall")


PLACES: dict[str, Callable[[str], Any]] = {
    "explain": explained,
    "binary": partial(declare, partial(BinaryEvaluation, "logits")),
    "multiclass": partial(declare, partial(MulticlassEvaluation, "logits", 2, class_names=["ant", "bee"])),
    "multilabel": partial(declare, partial(MultilabelEvaluation, "logits", 2, label_names=["ant", "bee"])),
}
words = st.builds(
    lambda base, end, cut, letter: base[:cut] + letter + base[cut + 1 :] + end,
    st.sampled_from(BASES),
    st.sampled_from(ENDS),
    st.integers(0, 30),
    st.sampled_from(["", "k", "_", "A"]),
)


@pytest.mark.parametrize("place", PLACES)
@given(word=words)
@example(word="auroc")
@example(word="AUROC")
@example(word="acuracy")
@example(word="log_loss/macro")
def test_what_an_error_offers_is_accepted_there(place: str, word: str) -> None:
    try:
        PLACES[place](word)
    except (DeclarationError, InputError) as error:
        _, _, offers = str(error).partition("did you mean ")
        for offered in re.findall(r"'([^']*)'", offers):
            assert offered != word
            PLACES[place](offered)


@pytest.mark.parametrize("name", SCORE_STATISTICS)
@pytest.mark.parametrize("option", ["--first", "--second"])
def test_a_statistic_of_scores_is_said_to_need_them(name: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--counts", "1,2,3,4", option, name]) == 2
    said = capsys.readouterr().err
    assert f"'{name}' is a statistic of scores, which counts alone do not hold" in said
    assert "curves=True" in said
    assert "did you mean" not in said
    assert all(f" {known}" in said for known in STATISTICS), "every name that can be asked for"


def test_an_evaluation_without_scores_says_that_they_were_not_kept() -> None:
    multiclass = MulticlassEvaluation("logits", 3)
    for name in ("auroc/macro", "calibration_error"):
        with pytest.raises(DeclarationError, match="scores were not kept: construct the evaluation with curves=True"):
            multiclass.explain(name, "accuracy")
    with pytest.raises(DeclarationError, match="'auroc' is a statistic of scores"):
        BinaryEvaluation("logits").explain("auroc", "f1")


@given(st.text(max_size=8), st.lists(st.text(max_size=8), max_size=60))
def test_the_refused_word_is_never_offered(word: str, known: list[str]) -> None:
    offer = nearest(word, known)
    assert not re.search(rf"did you mean.*{re.escape(repr(word))}", offer) or repr(word) in map(repr, {*known} - {word})
    assert nearest(word, [word]) == "nothing else is known."


def test_many_names_are_not_all_listed() -> None:
    assert listed(map(str, range(100, 150))).endswith("139 and 10 more.")
