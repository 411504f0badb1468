"""Where a log loss comes from: against torch's own losses, sorting, and a minimiser; by laws; over ranks."""

from __future__ import annotations

import copy
import os
from typing import Any

import numpy as np
import pytest
import ranks
import torch
from device import DEVICE, Operators, pretend_on_device
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.linear_model import LogisticRegression
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torchmetrics import MetricCollection

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.diagnosis import explain_confidence, explain_loss
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.metrics import LossProfile
from lightning_evalkit.rescaling import PriorCorrection, TemperatureScaling, VectorScaling

ROWS, CLASSES = 400, 4
TASKS: dict[str, dict[str, int]] = {
    "binary": {},
    "classes": {"num_classes": CLASSES},
    "labels": {"num_labels": CLASSES},
}
every_task = pytest.mark.parametrize("task", TASKS)


def batch(task: str, seed: int = 0, rows: int = ROWS, scale: float = 3.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that are too large by a factor, and targets drawn from what they would be without it."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn((rows,) if task == "binary" else (rows, CLASSES), generator=generator) * 1.5
    if task == "classes":
        target = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    else:
        target = (torch.rand(logits.shape, generator=generator) < logits.sigmoid()).long()
    return logits * scale, target


def losses(task: str, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """By torch, in double precision."""
    if task == "classes":
        return cross_entropy(logits.double(), target, reduction="none")
    return binary_cross_entropy_with_logits(logits.double(), target.double(), reduction="none")


def profiled(task: str, *batches: tuple[torch.Tensor, torch.Tensor], **options: Any) -> LossProfile:
    profile = LossProfile(**TASKS[task], **options)
    for each in batches:
        profile.update(*each)
    return profile


def right(task: str, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return logits.argmax(1) == target if task == "classes" else (logits > 0) == (target == 1)


# ---- against other ways


@every_task
def test_sums_are_those_of_torchs_losses(task: str) -> None:
    logits, target = batch(task)
    values = profiled(task, (logits[:150], target[:150]), (logits[150:], target[150:])).compute()
    expected = losses(task, logits, target)
    assert float(values["loss"]) == pytest.approx(float(expected.mean()), rel=1e-5)
    groups = torch.arange(CLASSES).expand_as(target) if task == "labels" else target
    names = ["no", "yes"] if task == "binary" else [*map(str, range(CLASSES))]
    for place, name in enumerate(names):
        assert float(values[f"loss/{name}"]) == pytest.approx(float(expected[groups == place].mean()), rel=1e-5)
    wrong = ~right(task, logits, target)
    assert float(values["loss_of_wrong"]) == pytest.approx(float(expected[wrong].sum() / expected.sum()), rel=1e-5)


@every_task
def test_the_worst_share_is_that_of_sorted_losses(task: str) -> None:
    logits, target = batch(task)
    expected = losses(task, logits, target).flatten().sort(descending=True).values
    for worst in (0.01, 0.25, 1.0):
        share = expected[: round(worst * len(expected))].sum() / expected.sum()
        assert float(profiled(task, (logits, target), worst=worst).compute()["loss_of_worst"]) == pytest.approx(
            float(share), rel=1 / 64
        )


@every_task
@pytest.mark.parametrize("scale", [0.4, 1.0, 3.0, 9.0])
def test_the_best_temperature_is_that_of_a_minimiser(task: str, scale: float) -> None:
    logits, target = batch(task, scale=scale)
    found = minimize_scalar(
        lambda log: float(losses(task, logits.double() / np.exp(log), target).mean()), bounds=(-3, 3), method="bounded"
    )
    profile = profiled(task, (logits, target)).profile()
    assert not profile.at_the_end
    assert profile.temperature == pytest.approx(np.exp(found.x), rel=1e-3)
    assert profile.refinement == pytest.approx(found.fun, rel=1e-5)
    assert profile.calibration == pytest.approx(profile.loss - profile.refinement, abs=1e-12)
    assert profile.calibration >= 0


@every_task
def test_the_hardest_samples_are_those_with_the_largest_losses(task: str) -> None:
    logits, target = batch(task)
    numbers = torch.randperm(10**6)[:ROWS]
    profile = LossProfile(**TASKS[task], hardest=7)
    for part in (slice(0, 100), slice(100, 103), slice(103, 103), slice(103, ROWS)):
        profile.update(logits[part], target[part], numbers[part])
    every = losses(task, logits, target).view(ROWS, -1)
    places = every.flatten().topk(7).indices
    found = profile.hardest()
    assert [each.sample for each in found] == numbers[places // every.shape[1]].tolist()
    assert [each.loss for each in found] == pytest.approx(every.flatten()[places].tolist(), rel=1e-5)
    assert [each.chance for each in found] == pytest.approx((-every.flatten()[places]).exp().tolist(), rel=1e-4)
    columns = places % CLASSES if task == "labels" else target[places]
    assert [each.group for each in found] == columns.tolist()
    unnumbered = profiled(task, (logits[:100], target[:100]), (logits[100:], target[100:]), hardest=3).hardest()
    assert [each.sample for each in unnumbered] == (places[:3] // every.shape[1]).tolist()


def test_the_histogram_counts_every_sample_once() -> None:
    logits, target = batch("binary")
    profile = profiled("binary", (logits, target)).profile()
    expected, _ = np.histogram(
        losses("binary", logits, target).clamp(profile.edges[0], profile.edges[-1] * 0.999).numpy(), profile.edges
    )
    assert sum(profile.histogram) == ROWS == profile.samples
    assert np.abs(np.cumsum(profile.histogram) - np.cumsum(expected)).max() <= 4  # edges to 1/128
    assert sum(profile.wrong) == int((~right("binary", logits, target)).sum())
    assert sum(profile.carried) == pytest.approx(profile.loss * ROWS)


# ---- laws


@every_task
def test_probabilities_are_read_as_the_logits_they_come_from(task: str) -> None:
    logits, target = batch(task, scale=1.0)
    chances = logits.double().softmax(1) if task == "classes" else logits.double().sigmoid()
    one = profiled(task, (logits.double(), target)).compute()
    other = profiled(task, (chances, target), inputs="probabilities").compute()
    for name, value in one.items():
        torch.testing.assert_close(other[name], value, rtol=1e-4, atol=1e-6)


@every_task
def test_order_batches_and_merging_do_not_matter(task: str) -> None:
    logits, target = batch(task)
    order = torch.randperm(ROWS)
    one, other = profiled(task, (logits, target)), profiled(task, (logits[order[:77]], target[order[:77]]))
    other.hardest()
    other.merge_state(profiled(task, (logits[order[77:]], target[order[77:]])))
    torch.testing.assert_close(other.totals.reals, one.totals.reals, rtol=1e-5, atol=1e-5)
    largest = [each.loss for each in one.hardest()]
    assert [each.loss for each in other.hardest()] == pytest.approx(largest, rel=1e-6)
    again = copy.deepcopy(one)
    again.reset()
    assert again.hardest() == []
    again.update(logits, target)
    assert again.hardest() == one.hardest()


@every_task
def test_weights_are_repetitions_and_ignored_targets_are_not_there(task: str) -> None:
    logits, target = batch(task)
    times = torch.arange(ROWS) % 3
    weighted = LossProfile(**TASKS[task], weighted=True)
    weighted.update(logits, target, sample_weight=times.double())
    repeated = profiled(task, (logits.repeat_interleave(times, 0), target.repeat_interleave(times, 0)))
    for name, value in repeated.compute().items():
        torch.testing.assert_close(weighted.compute()[name], value, rtol=1e-5, atol=1e-6)
    ignoring = profiled(
        task,
        (logits, target.masked_fill(torch.arange(target.numel()).view(target.shape) % 5 == 0, -1)),
        ignore_index=-1,
    )
    assert ignoring.profile().samples == target.numel() - -(-target.numel() // 5)


@given(st.lists(st.tuples(st.floats(-60, 60, width=32), st.booleans()), min_size=1, max_size=30))
def test_numbers_are_within_their_bounds(rows: list[tuple[float, bool]]) -> None:
    profile = profiled(
        "binary", (torch.tensor([z for z, _ in rows]), torch.tensor([int(y) for _, y in rows]))
    ).profile()
    assert 0 <= profile.refinement <= profile.loss * (1 + 1e-6) + 1e-9
    assert 1 / 16 <= profile.temperature <= 16
    assert profile.at_the_end or 1 / 16 < profile.temperature < 16
    for share in (profile.of_wrong, profile.of_worst, profile.accuracy):
        assert -1e-9 <= share <= 1 + 1e-9 or share != share


def test_being_sure_and_wrong_is_infinite_and_no_samples_are_no_number() -> None:
    logits, target = torch.tensor([torch.inf, -torch.inf, torch.inf, 2.0]), torch.tensor([1, 0, 0, 1])
    certain = profiled("binary", (logits, target), worst=0.25).profile()
    assert certain.loss == certain.refinement == certain.by_class["no"] == torch.inf
    assert (certain.infinite, certain.calibration, certain.of_wrong, certain.of_worst) == (1, 0, 1, 1)
    others = logits[[0, 1, 3]], target[[0, 1, 3]]
    assert certain.otherwise == pytest.approx(np.log1p(np.exp(-2.0)) / 3), "certain and right costs nothing"
    assert certain.temperature == profiled("binary", others).profile().temperature, "of what it can change"
    finding = explain_loss(certain, before=profiled("binary", others).profile())
    assert finding.code == "infinite-loss"
    assert "1 of 4 samples gave the truth a probability of 0" in finding.text()
    assert "nan" not in finding.text()
    masked = profiled("classes", (torch.tensor([[-torch.inf, 1.0, 2.0, 3.0]] * 2), torch.tensor([0, 1]))).profile()
    assert (masked.loss, masked.infinite) == (torch.inf, 1)
    with pytest.raises(InputError, match="expected every preds to be finite where it is largest, got inf"):
        profiled("classes", (torch.tensor([[torch.inf, 1.0, 2.0, 3.0]]), torch.tensor([0])))
    right = profiled("binary", (torch.tensor([torch.inf, 0.0]), torch.tensor([1, 1]))).profile()
    assert right.loss == pytest.approx(np.log(2) / 2)
    empty = LossProfile(num_classes=3)
    empty.update(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long))
    assert all(np.isnan(float(value)) for value in empty.compute().values())
    assert empty.hardest() == []


# ---- wrong use


def test_a_refused_batch_changes_nothing() -> None:
    profile = profiled("classes", batch("classes"))
    before, hardest = profile.totals.reals.clone(), profile.hardest()
    for logits, target in (
        (torch.full((2, CLASSES), torch.nan), torch.zeros(2, dtype=torch.long)),
        (torch.full((2, CLASSES), 99.0), torch.tensor([0, CLASSES])),
    ):
        with pytest.raises(InputError, match="expected every"):
            profile.update(logits, target)
    assert torch.equal(profile.totals.reals, before)
    assert profile.hardest() == hardest


REFUSED: dict[str, tuple[Any, str]] = {
    "both": (lambda: LossProfile(num_classes=3, num_labels=3), "expected num_classes or num_labels, got both"),
    "labels": (lambda: LossProfile(inputs="labels"), "labels have no loss, got 'labels'"),
    "worst": (lambda: LossProfile(worst=0.0), r"expected worst, a share of the samples, to be a number in \(0, 1\]"),
    "hardest": (lambda: LossProfile(hardest=0), "expected hardest to be a number of samples of at least 1, got 0"),
    "names": (lambda: LossProfile(class_names=["a"]), r"expected 2 different class_names, got \['a'\]"),
    "indices": (
        lambda: LossProfile().update(torch.zeros(3), torch.zeros(3), torch.zeros(2)),
        r"expected an index for each of 3 samples, got \(2,\)",
    ),
    "merged": (lambda: LossProfile().merge_state({}), "expected another LossProfile, got dict"),
    "temperature_of_labels": (
        lambda: TemperatureScaling().fit(torch.tensor([1, 0]), torch.tensor([1, 0])),
        "labels have no confidence that could be scaled",
    ),
    "nothing": (
        lambda: TemperatureScaling().fit(torch.zeros(0), torch.zeros(0)),
        "expected logits to fit to, got none",
    ),
    "prior": (lambda: PriorCorrection(), "expected what to correct"),
    "half": (lambda: PriorCorrection(trained_at=0.5), "expected trained_at and deployed_at together"),
    "weights": (lambda: PriorCorrection(2.0, [1.0, 2.0]), "expected pos_weight or class_weights, got both"),
    "negative": (lambda: PriorCorrection(pos_weight=-1.0), r"expected weights above 0 and finite, got \[-1.0\]"),
    "share": (lambda: PriorCorrection(trained_at=0.0, deployed_at=0.5), "expected trained_at between 0 and 1, got 0.0"),
    "sum": (lambda: PriorCorrection(trained_at=[0.5, 0.6], deployed_at=[0.5, 0.5]), "trained_at to add up to 1"),
    "kinds": (
        lambda: PriorCorrection(trained_at=0.5, deployed_at=[0.5, 0.5]),
        "trained_at and deployed_at of one kind",
    ),
    "widths": (
        lambda: PriorCorrection(class_weights=[1.0, 2.0, 3.0], trained_at=[0.5, 0.5], deployed_at=[0.1, 0.9]),
        "weights and shares of as many classes, got 2 and 3",
    ),
    "columns": (lambda: PriorCorrection(class_weights=[1.0, 2.0])(torch.zeros(2, 3)), "expected logits of 2 classes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_use_says_what_was_expected(name: str) -> None:
    call, words = REFUSED[name]
    with pytest.raises((InputError, DeclarationError), match=words):
        call()


# ---- scaling


@every_task
def test_a_fitted_temperature_restores_what_was_drawn(task: str) -> None:
    logits, target = batch(task, rows=20_000, scale=3.0)
    scaling = TemperatureScaling(**TASKS[task]).fit(logits, target)
    assert float(scaling.temperature) == pytest.approx(3.0, rel=0.05)
    assert torch.equal(right(task, scaling(logits), target), right(task, logits, target))
    assert scaling(logits.half()).dtype == torch.float16
    loaded = TemperatureScaling(**TASKS[task])
    loaded.load_state_dict(scaling.state_dict())
    assert torch.equal(loaded.to(torch.bfloat16).temperature, scaling.temperature), "a move casts nothing"


def test_vector_scaling_is_logistic_regression_on_the_logit() -> None:
    logits, target = batch("binary", rows=3_000)
    moved = logits + 2.0
    with torch.inference_mode():
        scaling = VectorScaling().fit(moved, target)
    expected = LogisticRegression(C=1e12, tol=1e-10).fit(moved[:, None].numpy(), target.numpy())
    assert float(scaling.scale) == pytest.approx(expected.coef_[0, 0], rel=1e-3)
    assert float(scaling.shift) == pytest.approx(expected.intercept_[0], rel=1e-3)
    labels, answers = batch("labels", rows=1_000)
    together = VectorScaling(num_labels=CLASSES).fit(labels, answers)
    apart = [VectorScaling().fit(labels[:, k], answers[:, k]) for k in range(CLASSES)]
    assert together.scale.tolist() == pytest.approx([float(each.scale) for each in apart], rel=1e-3)


def test_vector_scaling_of_classes_is_never_worse_than_a_temperature() -> None:
    logits, target = batch("classes", rows=2_000)
    moved = logits + torch.tensor([0.0, 4.0, -2.0, 1.0])
    vector, single = (kind(num_classes=CLASSES).fit(moved, target) for kind in (VectorScaling, TemperatureScaling))
    assert losses("classes", vector(moved), target).mean() < losses("classes", single(moved), target).mean() - 0.05


def test_a_temperature_at_the_end_is_said() -> None:
    with pytest.warns(UserWarning, match="at the end of what is looked at, and a lower one would still be better"):
        TemperatureScaling().fit(torch.tensor([1.0, -1.0]), torch.tensor([1, 0]))


def test_a_corrected_prior_is_bayes_rule() -> None:
    """Of two Gaussian classes one apart: ln of the likelihood ratio is x, to which a prior adds its logit."""
    x = torch.linspace(-4, 4, 9, dtype=torch.float64)
    for before, after in ((0.5, 0.01), (0.2, 0.7)):
        trained = x + np.log(before / (1 - before))
        expected = after * x.exp() / (after * x.exp() + 1 - after)
        corrected = PriorCorrection(trained_at=before, deployed_at=after)(trained)
        torch.testing.assert_close(corrected.sigmoid(), expected, rtol=1e-5, atol=1e-7)
        chances = torch.stack((torch.zeros_like(x), trained), -1)
        several = PriorCorrection(trained_at=[1 - before, before], deployed_at=[1 - after, after])(chances)
        torch.testing.assert_close(several.softmax(-1)[:, 1], expected, rtol=1e-5, atol=1e-7)
    assert float(PriorCorrection(pos_weight=3.0)(torch.zeros(1)).sigmoid()) == pytest.approx(1 / (1 + 3.0))
    weighted = PriorCorrection(class_weights=[2.0, 1.0, 4.0])(torch.tensor([[2.0, 1.0, 4.0]]).log())
    assert weighted.softmax(-1).tolist()[0] == pytest.approx([1 / 3] * 3)


# ---- in words


def test_a_loss_that_rises_by_confidence_is_told_from_one_that_rises_by_errors() -> None:
    (logits, target), before = batch("binary", rows=5_000, scale=1.0), BinaryEvaluation("logits", curves=True)
    before.update(logits, target)
    surer, worse = (BinaryEvaluation("logits", curves=True) for _ in range(2))
    surer.update(logits * 5, target)
    worse.update(logits * torch.tensor([1.0, -1.0]).repeat(2_500), target)
    finding = surer.explain("loss", "accuracy", before=before)
    assert finding.code == "loss-rises-by-confidence"
    assert "(refinement: the loss that no temperature removes)" in finding.text()
    exact = profiled("binary", (logits * 5, target)).profile()
    for name in ("loss", "accuracy", "refinement", "temperature"):
        assert finding.evidence[name] == pytest.approx(getattr(exact, name), rel=2e-3), "to the width of a bin"
    assert "(TemperatureScaling) lowers the loss to" in finding.text()
    assert worse.explain("loss", "accuracy", before=before).code == "loss-rises"
    assert surer.explain("log_loss", "accuracy").code == "too-sure"
    assert before.explain("accuracy", "loss").code == "loss-and-accuracy"


def test_other_tasks_explain_their_loss() -> None:
    logits, target = batch("labels", rows=2_000, scale=0.3)
    many = MultilabelEvaluation("logits", CLASSES, curves=True)
    many.update(logits, target)
    assert many.explain("loss", "hamming_accuracy").code == "too-cautious"
    surer = MultilabelEvaluation("logits", CLASSES, curves=True)
    surer.update(logits * 30, target)
    assert surer.explain("loss", "hamming_accuracy", before=many).code == "loss-rises-by-confidence"
    classes = MulticlassEvaluation("logits", CLASSES, curves=True)
    classes.update(*batch("classes"))
    finding = classes.explain("loss", "accuracy")
    assert finding.code == "too-sure"
    assert finding.evidence["loss"] == pytest.approx(float(losses("classes", *batch("classes")).mean()), rel=1e-5)
    with pytest.warns(UserWarning, match="nothing was counted"):
        assert explain_loss(LossProfile().profile()).code == explain_confidence(0, 0, 0, 0).code == "no-samples"
    for evaluation, words in ((BinaryEvaluation("logits"), "curves=True"), (many, "hamming_accuracy")):
        with pytest.raises((InputError, DeclarationError), match=words):
            evaluation.explain("loss", "accuracy")
    with pytest.raises(InputError, match="expected the loss together with 'accuracy', got 'f1'"):
        BinaryEvaluation("logits", curves=True).explain("loss", "f1")


def test_an_explained_loss_is_the_reported_one_however_sure() -> None:
    logits, target = batch("binary", rows=2_000, scale=60.0)
    assert (logits.abs() > 40).any(), "where probabilities next to 1 are equal in double precision"
    for resolution in (None, "bfloat16"):
        evaluation = BinaryEvaluation("logits", threshold=0.9, curves=True, resolution=resolution)
        evaluation.update(logits, target)
        finding, values = evaluation.explain("loss", "accuracy"), evaluation.compute()
        assert finding.evidence["loss"] == pytest.approx(float(losses("binary", logits, target).mean()), rel=1e-5)
        assert finding.evidence["accuracy"] == pytest.approx(float(values["accuracy"])), "at its own threshold"
    for other in ("loss", "log_loss"):
        with pytest.raises(InputError, match=f"expected the loss together with 'accuracy', got '{other}'"):
            evaluation.explain("loss", other)


def test_no_loss_and_nothing_before_are_said_without_numbers() -> None:
    _, target = batch("binary")
    certain = profiled("binary", ((2 * target - 1) * 1e6, target)).profile()
    assert "No sample has any loss" in explain_loss(certain).text()
    with pytest.warns(UserWarning, match="nothing was counted"):
        nothing = LossProfile().profile()
    assert "nan" not in explain_loss(certain, before=nothing).text()


# ---- beside other metrics


def test_profiles_in_a_stock_collection_keep_their_own_hardest_samples() -> None:
    batches = [batch("binary", seed, rows=20) for seed in range(3)]
    collection = MetricCollection({"few": LossProfile(hardest=2), "many": LossProfile(hardest=5)})
    for each in batches:
        collection.update(*each)
    every = torch.cat([losses("binary", *each) for each in batches])
    assert [hard.sample for hard in collection["many"].hardest()] == every.topk(5).indices.tolist()
    collection["many"].persistent(True)
    other = LossProfile(hardest=3)
    with pytest.raises(DeclarationError, match="declare hardest=5"):
        other.load_state_dict(collection["many"].state_dict())


def test_labels_are_no_logits_when_something_is_applied_to_them_either() -> None:
    for module in (PriorCorrection(pos_weight=3.0), TemperatureScaling(), VectorScaling()):
        with pytest.raises(InputError, match="labels have no confidence that could be"):
            module(torch.tensor([0, 1]))
    with pytest.raises(DeclarationError, match="expected class_weights of two classes or more"):
        PriorCorrection(class_weights=[])


def test_a_single_element_is_a_sample() -> None:
    profile = profiled("binary", (torch.tensor(-2.0), torch.tensor(1)))
    assert profile.hardest()[0].loss == pytest.approx(float(profile.compute()["loss"]))


# ---- over ranks


def over_ranks(rank: int, world: int) -> Any:
    """Rows in turns, as a sampler gives them out; the last rank of three has none."""
    torch.manual_seed(0)
    found = {}
    for task in TASKS:
        logits, target = batch(task)
        profile = LossProfile(**TASKS[task], hardest=5)
        if rank < 2:
            for first in (0, 64):
                rows = torch.arange(rank, ROWS, 2)[first : ROWS if first else 64]
                profile.update(logits[rows], target[rows], rows)
        with ranks.recorded() as collectives:
            values = ranks.plain(profile.compute())
        found[task] = values, collectives, [each.sample for each in profile.hardest()]
    return found


@pytest.mark.slow
def test_ranks_give_what_one_process_does(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("profile", numbered="PYTEST_XDIST_WORKER" not in os.environ)
    for world, scenes in ranks.run_once({"profile": over_ranks}, folder).items():
        for found in scenes["profile"]:
            assert not isinstance(found, str), found
            for task, (values, collectives, hardest) in found.items():
                alone = profiled(task, batch(task), hardest=5)
                expected = ranks.plain(alone.compute())
                assert values == pytest.approx(expected, rel=1e-6), (world, task)
                assert hardest == [each.sample for each in alone.hardest()]
                assert collectives == ["all_reduce"]


# ---- on an accelerator


@every_task
def test_an_update_on_a_device_reads_nothing_back(task: str) -> None:
    profile = LossProfile(**TASKS[task], hardest=3)
    with FakeTensorMode():
        pretend_on_device(profile)
        pretend_on_device(profile._hardest)
        shape = (16,) if task == "binary" else (16, CLASSES)
        logits = torch.zeros(shape, device=DEVICE)
        target = torch.zeros(shape[:1] if task == "classes" else shape, dtype=torch.int64, device=DEVICE)
        with Operators() as operators:
            profile.update(logits, target)
    assert operators.names
    assert operators.waiting == []
