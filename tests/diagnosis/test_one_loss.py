"""One loss: explanations, profiles, callbacks and figures state the loss and the accuracy that ``compute`` gives."""

from __future__ import annotations

import math
import re
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from printed import agrees, computed

from lightning_evalkit import BinaryEvaluation, MulticlassEvaluation, MultilabelEvaluation
from lightning_evalkit.callbacks import LossReport, TemperatureScaling
from lightning_evalkit.callbacks.loss_report import by_rank, over_epochs
from lightning_evalkit.callbacks.temperature_scaling import over_temperatures
from lightning_evalkit.evaluation.curve_panels import panels
from lightning_evalkit.evaluation.score_snapshot import score_snapshot
from lightning_evalkit.metrics import LossProfile
from lightning_evalkit.sinks import figures

inf = math.inf
NUMBER = r"(inf|nan|\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
KINDS = ("binary", "classes", "labels")
SCALES = (1e-30, 1.0, 40.0, 1000.0, 1e30)
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
pytestmark = pytest.mark.filterwarnings("ignore:best_f1_threshold is")  # of large logits, which tests of thresholds see
every_kind = pytest.mark.parametrize("kind", KINDS)


def evaluation_of(kind: str, **options: Any) -> Any:
    if kind == "binary":
        return BinaryEvaluation(curves=True, **options)
    if kind == "classes":
        return MulticlassEvaluation(num_classes=3, curves=True, **options)
    return MultilabelEvaluation(num_labels=3, curves=True, **options)


def profile_like(kind: str, inputs: str, **options: Any) -> LossProfile:
    sizes: dict[str, dict[str, int]] = {"binary": {}, "classes": {"num_classes": 3}, "labels": {"num_labels": 3}}
    return LossProfile(**sizes[kind], inputs=inputs, worst=0.3, **options)  # type: ignore[arg-type]


def batch(kind: str, inputs: str, seed: int, scale: float, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores that are certain now and then, targets of which some are to be ignored."""
    generator = torch.Generator().manual_seed(seed)
    rows = int(torch.randint(1, 9, (), generator=generator))
    logits = torch.randn((rows,) if kind == "binary" else (rows, 3), generator=generator, dtype=torch.float64) * scale
    logits = torch.where(torch.rand(logits.shape, generator=generator) < 0.1, 0.0, logits)
    scores = logits.to(dtype)
    if inputs == "probabilities":
        scores = (logits.softmax(-1) if kind == "classes" else logits.sigmoid()).to(dtype)
    elif kind == "classes":
        scores = scores.clamp(torch.finfo(dtype).min, torch.finfo(dtype).max)  # of which a softmax is a number
    target = torch.randint(
        0, 3 if kind == "classes" else 2, (rows,) if kind != "labels" else (rows, 3), generator=generator
    )
    return scores, torch.where(torch.rand(target.shape, generator=generator) < 0.15, -1, target)


def stated(text: str, name: str) -> float:
    [found] = re.findall(rf"{re.escape(name)} {NUMBER}", text)
    return float(found)


cases = given(
    seed=st.integers(0, 10**6),
    inputs=st.sampled_from(["logits", "probabilities"]),
    scale=st.sampled_from(SCALES),
    dtype=st.sampled_from(DTYPES),
    resolution=st.sampled_from([None, "bfloat16", 8, 64]),
    weighted=st.booleans(),
    threshold=st.sampled_from([0.5, 0.2, 0.9]),
)


@every_kind
@cases
@example(seed=3, inputs="logits", scale=1.0, dtype=torch.float32, resolution=8, weighted=False, threshold=0.5)
@example(seed=0, inputs="logits", scale=1e3, dtype=torch.float32, resolution=None, weighted=False, threshold=0.9)
def test_explanations_and_profiles_state_the_reported_loss(
    kind: str,
    seed: int,
    inputs: str,
    scale: float,
    dtype: torch.dtype,
    resolution: Any,
    weighted: bool,
    threshold: float,
) -> None:
    options = {} if kind == "classes" else {"threshold": threshold}
    evaluation = evaluation_of(
        kind, inputs=inputs, resolution=resolution, weighted=weighted, ignore_index=-1, **options
    )
    profile = profile_like(kind, inputs, weighted=weighted, ignore_index=-1)
    scores, target = batch(kind, inputs, seed, scale, dtype)
    weight = torch.arange(len(target)).double() % 3 if weighted else None
    evaluation.update(scores, target, weight)
    profile.update(scores, target, sample_weight=weight)
    values, found = computed(evaluation), profile.profile()
    name = "hamming_accuracy" if kind == "labels" else "accuracy"
    finding = evaluation.explain("loss", name)
    if not found.samples:
        assert finding.code == "no-samples"
        return
    text = finding.headline.lower()
    assert agrees(stated(text, name), values[name], 4)
    if kind == "labels":
        macro = [reason for reason in finding.reasons if "log_loss/macro" in reason]
        reported = stated(macro[0], "own, is") if macro else stated(text, "log loss")
        assert agrees(reported, values["log_loss/macro"], 4)
    else:
        assert agrees(stated(text, "log loss"), values["log_loss"], 4)
        assert math.isclose(found.loss, values["log_loss"], rel_tol=1e-6, abs_tol=1e-12)
    assert agrees(stated(text, "log loss"), found.loss, 4), "the profile's loss is the evaluation's"
    assert found.refinement + found.calibration == pytest.approx(found.loss)
    if finding.evidence.get("refinement") is not None:
        parts = finding.evidence["refinement"] + finding.evidence["calibration"]
        assert parts == pytest.approx(finding.evidence["loss"]), "parts that are read from bins add up too"
    assert (found.loss == inf) == bool(found.infinite) == (finding.code == "infinite-loss")
    assert "nan" not in finding.text()
    shares = (found.of_worst, found.of_wrong)
    assert all(-1e-9 <= share <= 1 + 1e-9 for share in shares) or found.loss == 0


@every_kind
@cases
@settings(max_examples=10)
def test_figures_name_the_reported_numbers(
    kind: str,
    seed: int,
    inputs: str,
    scale: float,
    dtype: torch.dtype,
    resolution: Any,
    weighted: bool,
    threshold: float,
) -> None:
    evaluation = evaluation_of(kind, inputs=inputs, resolution=resolution, weighted=weighted, ignore_index=-1)
    scores, target = batch(kind, inputs, seed, scale, dtype)
    evaluation.update(scores, target, torch.ones(len(target)) if weighted else None)
    values, kept = computed(evaluation), score_snapshot(evaluation)
    assert kept is not None
    *_, reliability = shown = panels(kept)
    name = "calibration_error/macro" if kind == "labels" else "calibration_error"
    said = re.findall(rf"calibration error {NUMBER}", reliability.title)
    assert [float(each) for each in said] == pytest.approx([values[name]] if said else [], abs=6e-5)
    if kind == "binary":
        for panel, key in ((shown[0], "auroc"), (shown[1], "average_precision")):
            said = re.findall(rf"{NUMBER} in \[", " ".join(line.label for line in panel.lines))
            assert [float(each) for each in said] == pytest.approx([values[key]] if said else [], abs=6e-5)


class Run:
    """What a callback asks of a trainer and a module at the end of an epoch."""

    sanity_checking = False
    device = torch.device("cpu")

    fit_loop = SimpleNamespace(epoch_loop=SimpleNamespace(_batches_that_stepped=1))


@every_kind
@pytest.mark.parametrize("scale", [1.0, 1000.0, inf])
def test_callbacks_log_and_draw_the_reported_loss(kind: str, scale: float) -> None:
    scores, target = batch(kind, "logits", 5, 1.0, torch.float32)
    scores = (
        torch.where((scores < 0) & (torch.rand(scores.shape) < 0.5), -inf, scores) if scale == inf else scores * scale
    )
    if kind == "classes" and scale == inf:
        scores[:, 0] = 1.0
    target = target.clamp(min=0)
    target.view(-1)[0] = 1
    scores.view(-1)[1 if kind == "classes" else 0] = -scale
    evaluation = evaluation_of(kind, inputs="logits")
    evaluation.update(scores, target)
    expected = computed(evaluation)["log_loss/macro" if kind == "labels" else "log_loss"]
    assert (expected == inf) is (scale == inf)
    sizes: dict[str, Any] = {"binary": {}, "classes": {"num_classes": 3}, "labels": {"num_labels": 3}}[kind]
    report, scaling, run = LossReport(**sizes), TemperatureScaling(**sizes), Run()
    for callback in (report, scaling):
        callback.begin(run)  # type: ignore[arg-type]
        callback.count(scores, target)
    logged = report.learn(run, run)  # type: ignore[arg-type]
    assert logged["val/loss/refinement"] + logged["val/loss/calibration"] == pytest.approx(expected, rel=1e-5)
    assert report._shown is not None
    assert agrees(stated(report._shown.text.lower(), "log loss"), expected, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the best temperature of so few samples is far away
        raw = scaling.learn(run, run)["val/log_loss@raw"]  # type: ignore[arg-type]
    assert raw == pytest.approx(expected, rel=1e-6)
    assert scaling._shown is not None
    assert f"| val/log_loss@raw | {raw:.6g} |" in scaling._shown.text
    found = report.epochs[0]
    shown = [over_epochs([found]), by_rank(found), over_temperatures(report.profile, found)]
    assert agrees(stated(shown[-1].lines[1].label, "as it is:"), expected, 4) or expected < 0.001
    assert all(0 <= y <= 1 + 1e-9 for line in by_rank(found).lines for y in line.y)  # type: ignore[union-attr]
    figures.pixels(figures.panels(shown))
