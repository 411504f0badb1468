"""A state never changes the names of its classes: under others, or none, it is refused."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.errors import InputError
from lightning_evalkit.evaluation import Slices
from lightning_evalkit.metrics import LossProfile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Names = list[str] | None
SCORES = torch.tensor([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0]])
ONE, MANY = torch.tensor([0, 2]), torch.tensor([[1, 0, 1], [0, 1, 1]])
NAMED: dict[str, tuple[Callable[[Names], Any], tuple[Any, ...]]] = {
    "classes": (lambda names: MulticlassEvaluation("logits", 3, names, zero_division=0.0), (SCORES, ONE)),
    "labels": (lambda names: MultilabelEvaluation("logits", 3, names, zero_division=0.0), (SCORES, MANY)),
    "groups": (
        lambda names: Slices(BinaryEvaluation("logits"), 3, names),
        (SCORES[:, 0], torch.tensor([0, 1]), torch.tensor([0, 2])),
    ),
    "classes_of_slices": (
        lambda names: Slices(MulticlassEvaluation("logits", 3, names), 2),
        (SCORES, ONE, torch.tensor([0, 1])),
    ),
    "profile": (lambda names: LossProfile(3, class_names=names), (SCORES, ONE)),
    "profile_of_labels": (lambda names: LossProfile(num_labels=3, class_names=names), (SCORES, MANY)),
}
some_names = st.one_of(st.none(), st.permutations(["a", "b", "c"]), st.just(["0", "1", "2"]), st.just(["a", "b", "d"]))


def merged(metric: Any, other: Any) -> None:
    metric.merge_state(other)


def loaded(metric: Any, other: Any) -> None:
    other.persistent(True)
    metric.load_state_dict(other.state_dict(), strict=False)


def merged_state(metric: Any, other: Any) -> None:
    tallies = [getattr(each, "tally", each) for each in (metric, other)]
    tallies[0].merge_state(tallies[1].metric_state)


def meaning(names: Sequence[str] | None) -> list[str]:
    return ["0", "1", "2"] if names is None else list(names)


@pytest.mark.parametrize("kind", NAMED)
@pytest.mark.parametrize("way", [merged, loaded, merged_state], ids=["merged", "loaded", "merged_state"])
@given(some_names, some_names)
def test_a_state_goes_on_under_its_own_names_alone(
    kind: str, way: Callable[[Any, Any], None], names: Names, others: Names
) -> None:
    if way is merged_state and "profile" in kind:
        return  # takes no plain states at all
    build, batch = NAMED[kind]
    metric, other = build(names), build(others)
    other.update(*batch)
    before = [part.clone() for part in getattr(metric, "tally", metric).totals if part is not None]
    if meaning(names) == meaning(others):
        way(metric, other)
        assert getattr(metric, "tally", metric).update_count == 1
        return
    with pytest.raises((InputError, RuntimeError), match=r"names=|expected a metric of this package"):
        way(metric, other)
    after = [part for part in getattr(metric, "tally", metric).totals if part is not None]
    assert all(map(torch.equal, before, after))


def test_of_many_names_the_first_other_one_is_said() -> None:
    names = [f"class {number}" for number in range(20)]
    pair = [MulticlassEvaluation("labels", 20, each) for each in (names, [*names[:5], "else", *names[6:]])]
    with pytest.raises(InputError, match=r"\(names\[5\]='else' there, 'class 5' here\)"):
        pair[0].merge_state(pair[1])


def test_names_of_classes_of_two_evaluations_stay_apart() -> None:
    """What only "a" was seen of must not be read as "c"."""
    for first, second in product([["a", "b", "c"]], [["c", "b", "a"], None]):
        seen, other = (MulticlassEvaluation("labels", 3, each, per_class=True) for each in (first, second))
        seen.update(torch.tensor([0, 0]), torch.tensor([0, 0]))
        with pytest.raises(InputError, match="only counts of one declaration"):
            other.merge_state(seen)
