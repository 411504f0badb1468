"""Made data is what it says: exact counts, a best accuracy that no classifier beats, the same bits for the same seed.

Best accuracies are found again by drawing samples and deciding by their true densities, and by scikit-learn; tolerances
are standard errors of what is measured.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from lightning.pytorch import LightningModule, Trainer
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from lightning_evalkit.data import (
    BalancedDataModule,
    ImbalancedDataModule,
    MulticlassDataModule,
    MultilabelDataModule,
    PoorFeaturesDataModule,
    TensorDataModule,
    TensorLoader,
    gaussian,
    loader,
)
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.modules import BinaryClassifier

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    # About the tiny trainers of these tests.
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`"),
]

DRAWS = 1_000_000
SMALL: dict[str, Any] = {"train_size": 60, "val_size": 40, "test_size": 50, "num_features": 8}
KINDS: dict[str, Callable[..., Any]] = {
    "balanced": BalancedDataModule,
    "imbalanced": ImbalancedDataModule,
    "poor": PoorFeaturesDataModule,
    "multiclass": MulticlassDataModule,
    "multilabel": MultilabelDataModule,
}
every_kind = pytest.mark.parametrize("build", KINDS.values(), ids=KINDS)
QUIET: dict[str, Any] = {
    "accelerator": "cpu",
    "logger": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "enable_checkpointing": False,
    "num_sanity_val_steps": 0,
}


def same(one: Any, other: Any) -> bool:
    """Whether all tensors of two modules have the same bits."""
    pairs = zip(one.ready, other.ready, strict=True)
    return all(torch.equal(a, b) for split, again in pairs for a, b in zip(split, again, strict=True))


# ---- exact counts


@given(
    sizes=st.tuples(*[st.integers(2, 500)] * 3),
    prevalence=st.floats(0.01, 0.99),
    noise=st.sampled_from([0.0, 0.1, 0.33]),
)
def test_a_prevalence_is_exact_to_the_row(sizes: tuple[int, ...], prevalence: float, noise: float) -> None:
    assume(all(0.5 < prevalence * size < size - 0.5 for size in sizes))
    train, val, test = sizes
    data = ImbalancedDataModule(
        prevalence, label_noise=noise, num_features=2, train_size=train, val_size=val, test_size=test
    )
    for size, (features, target) in zip(sizes, data.ready, strict=True):
        assert features.shape == (size, 2)
        assert target.shape == (size,)
        assert target.dtype == torch.int64
        assert abs(int(target.sum()) - prevalence * size) <= 0.5
        assert set(target.tolist()) == {0, 1}


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_a_balanced_split_is_exactly_balanced(noise: float) -> None:
    data = BalancedDataModule(train_size=62, val_size=2, test_size=1_000, label_noise=noise)
    assert [int(target.sum()) * 2 for _, target in data.ready] == [62, 2, 1_000]


def test_the_test_split_may_have_another_prevalence() -> None:
    data = ImbalancedDataModule(prevalence=0.2, test_prevalence=0.6, train_size=50, val_size=10, test_size=30)
    assert [int(target.sum()) for _, target in data.ready] == [10, 2, 18]
    data = PoorFeaturesDataModule(prevalence=0.2, test_prevalence=0.5, train_size=50, val_size=10, test_size=30)
    assert [int(target.sum()) for _, target in data.ready] == [10, 2, 15]
    assert data.bayes_accuracy == 0.8


@given(
    rows=st.integers(50, 400),
    parts=st.lists(st.integers(1, 20), min_size=2, max_size=6),
    noise=st.sampled_from([0.0, 0.1, 0.4]),
)
def test_classes_have_their_shares(rows: int, parts: list[int], noise: float) -> None:
    shares = [part / sum(parts) for part in parts]
    assume(min(shares) * rows >= 1)
    sizes = {"train_size": rows, "val_size": rows + 1, "test_size": rows + 2}
    data = MulticlassDataModule(len(parts), shares, label_noise=noise, num_features=8, separability=0.7, **sizes)
    for size, (_, target) in zip(sizes.values(), data.ready, strict=True):
        counts = target.bincount(minlength=len(parts)).tolist()
        assert sum(counts) == size
        assert all(abs(count - size * share) < 1 for count, share in zip(counts, shares, strict=True))


@pytest.mark.parametrize("shares", [[0.5000004] * 2, [0.4999996] * 2, [0.2500002] * 4])
def test_shares_that_add_up_to_nearly_one_still_share_all_rows(shares: list[float]) -> None:
    data = MulticlassDataModule(len(shares), shares, train_size=10_000_000)
    assert [sum(counts) for counts in data.counts] == [10_000_000, 2_000, 10_000]
    assert max(data.counts[0]) - min(data.counts[0]) <= 1


@given(prevalences=st.lists(st.floats(0.02, 0.98), min_size=2, max_size=5), rows=st.integers(100, 300))
def test_every_label_has_its_prevalence(prevalences: list[float], rows: int) -> None:
    data = MultilabelDataModule(
        len(prevalences), prevalences, num_features=5, train_size=rows, val_size=100, test_size=101
    )
    for size, (features, target) in zip((rows, 100, 101), data.ready, strict=True):
        assert features.shape == (size, 5)
        assert target.shape == (size, len(prevalences))
        assert all(
            abs(count - share * size) <= 0.5 for count, share in zip(target.sum(0).tolist(), prevalences, strict=True)
        )


def test_one_prevalence_is_for_all_labels() -> None:
    data = MultilabelDataModule(num_labels=3, prevalence=0.25, train_size=40, num_features=4)
    assert data.ready.train[1].sum(0).tolist() == [10] * 3
    assert len({tuple(label) for label in data.ready.train[1].T.tolist()}) == 3


# ---- label noise


@given(rows=st.integers(2, 300), share=st.floats(0, 1), noise=st.floats(0, 0.499), seed=st.integers(0, 99))
def test_an_exact_share_of_the_labels_is_wrong(rows: int, share: float, noise: float, seed: int) -> None:
    positives = round(share * rows)
    told, shown = gaussian.exact_labels(rows, positives, noise, torch.Generator().manual_seed(seed))
    assert int(told.sum()) == positives
    assert int((told & (1 - shown)).sum()) == round(noise * positives)
    assert int((shown & (1 - told)).sum()) == round(noise * (rows - positives))


@given(counts=st.lists(st.integers(1, 60), min_size=2, max_size=6), noise=st.floats(0, 0.499))
def test_an_exact_share_of_every_class_is_wrong(counts: list[int], noise: float) -> None:
    told, shown = gaussian.exact_classes(counts, noise, torch.Generator().manual_seed(1))
    assert told.bincount(minlength=len(counts)).tolist() == counts
    wrong = [int((shown != told)[told == c].sum()) for c in range(len(counts))]
    assert wrong == [round(noise * count) for count in counts]
    assert shown.min() >= 0
    assert shown.max() < len(counts)


def test_wrong_labels_show_in_the_features() -> None:
    """Clouds so far apart that each row shows its side: just as many rows as asked for are on the other one."""
    data = ImbalancedDataModule(prevalence=0.3, separability=1 - 1e-9, label_noise=0.1, train_size=1_000)
    features, target = data.ready.train
    direction = features[target == 1].mean(0) - features[target == 0].mean(0)
    shown = (features @ direction > 0).long()
    assert [int((shown != target)[target == label].sum()) for label in (0, 1)] == [70, 30]


def test_wrong_classes_are_spread_over_the_others() -> None:
    told, shown = gaussian.exact_classes([30_000] * 4, 0.3, torch.Generator().manual_seed(1))
    wrong = shown[(told == 2) & (shown != told)].bincount(minlength=4)
    assert wrong[2] == 0
    assert all(abs(count - 3_000) < 5 * math.sqrt(3_000) for count in wrong[[0, 1, 3]].tolist())


# ---- the best possible accuracy


def drawn(prevalence: float, separability: float, noise: float, draws: int = DRAWS) -> tuple[Any, Any]:
    """What is told of each sample and what the true densities decide, for samples drawn along the direction."""
    generator = np.random.default_rng(7)
    told = generator.random(draws) < prevalence
    shown = told ^ (generator.random(draws) < noise)
    apart = 2 * norm.ppf(separability)
    x = generator.standard_normal(draws) + np.where(shown, apart / 2, -apart / 2)
    of_positives, of_negatives = norm.pdf(x, apart / 2), norm.pdf(x, -apart / 2)
    positive = prevalence * ((1 - noise) * of_positives + noise * of_negatives)
    negative = (1 - prevalence) * ((1 - noise) * of_negatives + noise * of_positives)
    return told, positive > negative


def error(share: float, number: float) -> float:
    """Five standard errors of a share."""
    return 5 * math.sqrt(max(share * (1 - share), 1e-9) / number)


@pytest.mark.parametrize(
    ("prevalence", "separability", "noise"),
    [
        (0.5, 0.9, 0.0),
        (0.5, 0.9, 0.2),
        (0.1, 0.9, 0.0),
        (0.9, 0.8, 0.05),
        (0.3, 0.75, 0.1),
        (0.02, 0.99, 0.01),
        (0.1, 0.9, 0.1),  # as much noise as positives: nothing is worth predicting
        (0.95, 0.9, 0.2),
        (0.4, 0.5, 0.1),
    ],
)
def test_the_best_rates_are_those_of_the_true_densities(prevalence: float, separability: float, noise: float) -> None:
    data = ImbalancedDataModule(prevalence, separability=separability, label_noise=noise)
    told, decided = drawn(prevalence, separability, noise)
    right, positives = (told == decided).mean(), told.sum()
    assert data.bayes_accuracy == pytest.approx(right, abs=error(right, DRAWS))
    recall, specificity = decided[told].mean(), (~decided)[~told].mean()
    assert data.best.recall == pytest.approx(recall, abs=error(recall, positives))
    assert data.best.specificity == pytest.approx(specificity, abs=error(specificity, DRAWS - positives))


@given(separability=st.floats(0.5, 0.9999), noise=st.floats(0, 0.499))
def test_separability_is_the_best_accuracy_of_balanced_data(separability: float, noise: float) -> None:
    assert BalancedDataModule(separability=separability).bayes_accuracy == pytest.approx(separability, abs=1e-12)
    noisy = BalancedDataModule(separability=separability, label_noise=noise)
    assert noisy.bayes_accuracy == pytest.approx(noise + (1 - 2 * noise) * separability, abs=1e-12)


@given(prevalence=st.floats(0.01, 0.99), separability=st.floats(0.5, 0.9999), noise=st.floats(0, 0.499))
def test_the_best_is_never_worse_than_a_constant(prevalence: float, separability: float, noise: float) -> None:
    data = ImbalancedDataModule(prevalence, separability=separability, label_noise=noise)
    constant = max(prevalence, 1 - prevalence)
    assert constant - 1e-12 <= data.bayes_accuracy <= 1
    assert data.bayes_accuracy == pytest.approx(
        prevalence * data.best.recall + (1 - prevalence) * data.best.specificity, abs=1e-12
    )
    other = ImbalancedDataModule(1 - prevalence, separability=separability, label_noise=noise)
    assert other.bayes_accuracy == pytest.approx(data.bayes_accuracy, abs=1e-9)


def fitted(features: Tensor, target: Tensor) -> LogisticRegression:
    return LogisticRegression(C=1e4, max_iter=500).fit(features.numpy(), target.numpy())


LEARNT = {"train_size": 20_000, "val_size": 2_000, "test_size": 100_000, "num_features": 6, "seed": 3}


@pytest.mark.parametrize(
    "data",
    [
        BalancedDataModule(**LEARNT),
        ImbalancedDataModule(0.1, **LEARNT),
        ImbalancedDataModule(0.3, separability=0.8, label_noise=0.15, **LEARNT),
        MulticlassDataModule(num_classes=4, separability=0.8, **LEARNT),
        MulticlassDataModule(3, [0.6, 0.3, 0.1], separability=0.75, label_noise=0.1, **LEARNT),
    ],
    ids=["balanced", "imbalanced", "noisy", "multiclass", "noisy_multiclass"],
)
def test_a_fitted_model_comes_near_the_best_and_does_not_beat_it(data: Any) -> None:
    reached = fitted(*data.ready.train).score(*(part.numpy() for part in data.ready.test))
    best, noise = data.bayes_accuracy, 5 * math.sqrt(0.25 / 200_000)
    assert best - 0.01 < reached < best + error(best, 100_000) + noise * isinstance(data, MulticlassDataModule)


def test_a_fitted_model_comes_near_the_best_of_every_label() -> None:
    data = MultilabelDataModule(3, [0.5, 0.1, 0.3], separability=0.85, label_noise=0.05, **LEARNT)
    (train, told), (test, truth) = data.ready.train, data.ready.test
    assert len(data.bayes_accuracy) == 3
    for label, best in enumerate(data.bayes_accuracy):
        reached = fitted(train, told[:, label]).score(test.numpy(), truth[:, label].numpy())
        assert best - 0.01 < reached < best + error(best, 100_000)


def test_the_clouds_are_standard_normal_around_their_centres() -> None:
    data = ImbalancedDataModule(0.5, separability=0.9, **LEARNT)
    features, target = data.ready.test
    for label, side in ((0, -1), (1, 1)):
        cloud = features[target == label].double()
        assert cloud.mean(0).norm().item() == pytest.approx(norm.ppf(0.9), abs=0.03)
        assert torch.allclose(torch.cov(cloud.T), torch.eye(6).double(), atol=0.03)
        assert side * (cloud.mean(0) @ (features[target == 1].mean(0)).double()) > 0


@pytest.mark.parametrize(("separability", "classes"), [(0.2, 5), (0.5, 5), (0.9, 5), (0.8, 2), (0.6, 50), (0.99, 3)])
def test_clouds_of_classes_are_as_far_apart_as_the_integral_says(separability: float, classes: int) -> None:
    """The own axis shows more than all the others: the integral of φ(z - a) Φ(z)^(C - 1)."""
    step = gaussian.class_distance(separability, classes)
    found, _ = quad(lambda z: norm.pdf(z - step) * norm.cdf(z) ** (classes - 1), -10, step + 10, limit=200)
    assert found == pytest.approx(separability, abs=1e-7)
    if classes == 2:  # whose axes are at a right angle: √2 steps apart
        assert step * math.sqrt(2) == pytest.approx(2 * norm.ppf(separability), abs=1e-6)


@pytest.mark.parametrize(
    ("shares", "separability", "noise"),
    [([0.25] * 4, 0.8, 0.0), ([0.25] * 4, 0.8, 0.2), ([0.7, 0.2, 0.1], 0.7, 0.1), ([0.9, 0.05, 0.05], 0.6, 0.3)],
)
def test_the_best_among_classes_is_that_of_the_true_densities(
    shares: list[float], separability: float, noise: float
) -> None:
    data, draws, classes = (
        MulticlassDataModule(len(shares), shares, separability=separability, label_noise=noise),
        400_000,
        len(shares),
    )
    generator = np.random.default_rng(5)
    told = generator.choice(classes, draws, p=shares)
    other = (told + generator.integers(1, classes, draws)) % classes
    shown = np.where(generator.random(draws) < noise, other, told)
    centres = np.eye(classes) * data.step
    x = generator.standard_normal((draws, classes)) + centres[shown]
    density = np.stack([norm.pdf(x - centre).prod(1) for centre in centres], 1)
    mixed = np.stack(
        [(1 - noise) * density[:, c] + noise * np.delete(density, c, 1).mean(1) for c in range(classes)], 1
    )
    right = ((mixed * shares).argmax(1) == told).mean()
    assert data.bayes_accuracy == pytest.approx(right, abs=error(right, draws) + error(right, 200_000))


def test_poor_features_carry_nothing() -> None:
    data = PoorFeaturesDataModule(0.3, **LEARNT)
    assert data.bayes_accuracy == 0.7
    assert tuple(data.best) == (0.0, 1.0)
    assert tuple(PoorFeaturesDataModule(0.7).best) == (1.0, 0.0)
    features, target = (part.numpy() for part in data.ready.test)
    score = roc_auc_score(target, fitted(*data.ready.train).decision_function(features))
    # The standard error of an AUROC of 0.5: sqrt((P + N + 1) / (12 P N)).
    assert score == pytest.approx(0.5, abs=5 * math.sqrt(100_001 / (12 * 30_000 * 70_000)))
    assert abs(features[target == 1].mean(0) - features[target == 0].mean(0)).max() < 0.04


# ---- directions and streams


@pytest.mark.parametrize(("number", "features"), [(1, 1), (1, 16), (5, 5), (7, 40)])
def test_directions_are_orthogonal_and_of_length_one(number: int, features: int) -> None:
    along = gaussian.directions(number, features, torch.Generator().manual_seed(2))
    assert along.shape == (number, features)
    torch.testing.assert_close(along @ along.T, torch.eye(number), atol=1e-6, rtol=0)


@every_kind
def test_the_same_seed_gives_the_same_bits(build: Callable[..., Any]) -> None:
    torch.manual_seed(1)
    one = build(seed=4, **SMALL)
    before = torch.get_rng_state()
    _ = one.ready
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert same(one, build(seed=4, batch_size=3, **SMALL))
    assert not same(one, build(seed=5, **SMALL))
    larger = build(seed=4, **{**SMALL, "val_size": 80})
    assert torch.equal(larger.ready.train[0], one.ready.train[0])
    assert torch.equal(larger.ready.test[0], one.ready.test[0])


@every_kind
def test_no_row_is_in_two_splits_or_seeds(build: Callable[..., Any]) -> None:
    rows = [split[0] for seed in (-1, 0, 1, 2**30, 2**32 - 1) for split in build(seed=seed, **SMALL).ready]
    together = torch.cat(rows)
    assert len(together.unique(dim=0)) == len(together) == 5 * 150
    noise = [part[:40] - part[:40].mean(0) for part in rows]
    for one, other in combinations(noise, 2):  # 320 pairs of numbers: a correlation has an error of 0.056
        assert abs(np.corrcoef(one.flatten(), other.flatten())[0, 1]) < 0.35


def test_rows_of_a_split_are_in_random_order() -> None:
    target = BalancedDataModule(train_size=10_000).ready.train[1]
    assert abs(int(target[:5_000].sum()) - 2_500) < 5 * math.sqrt(10_000 / 16)
    assert not torch.equal(target, target.sort().values)


def test_splits_share_their_directions() -> None:
    data = BalancedDataModule(separability=0.99, train_size=5_000, val_size=5_000, test_size=5_000)
    centres = [features[target == 1].mean(0) for features, target in data.ready]
    for one, other in combinations(centres, 2):
        assert torch.cosine_similarity(one, other, 0) > 0.99


@every_kind
def test_a_module_is_made_again_from_its_hyperparameters(build: Callable[..., Any]) -> None:
    data = build(seed=9, batch_size=7, **SMALL)
    assert same(data, build(**data.hparams))
    assert build(**data.hparams).batch_size == 7


@pytest.mark.parametrize("build", [ImbalancedDataModule, MulticlassDataModule, MultilabelDataModule])
def test_millions_of_rows_are_made_in_bulk(build: Callable[..., Any]) -> None:
    data = build(train_size=2_000_000, val_size=10, test_size=10, num_features=5)
    features, target = data.ready.train
    assert features.shape == (2_000_000, 5)
    assert len(target) == 2_000_000
    assert features.isfinite().all()


# ---- words of errors

WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "batch size": (lambda: BalancedDataModule(batch_size=0), r"expected a batch_size of at least 1, got 0\."),
    "rows": (lambda: BalancedDataModule(val_size=1), r"expected at least 2 rows in each split, got 1\."),
    "noise": (
        lambda: BalancedDataModule(label_noise=0.5),
        r"expected label_noise in \[0, 0\.5\), a share of wrong labels, got 0\.5\.",
    ),
    "negative noise": (lambda: MultilabelDataModule(label_noise=-0.1), r"expected label_noise in .* got -0\.1\."),
    "noise NaN": (lambda: BalancedDataModule(label_noise=math.nan), r"expected label_noise in .* got nan\."),
    "separability": (
        lambda: BalancedDataModule(separability=0.4),
        r"expected separability in \[0\.5, 1\), the best accuracy where classes are equally frequent, got 0\.4\.",
    ),
    "separability of one": (
        lambda: ImbalancedDataModule(separability=1.0),
        r"separability in \[0\.5, 1\), .* got 1\.0\.",
    ),
    "separability NaN": (lambda: MultilabelDataModule(separability=math.nan), r"separability in .* got nan\."),
    "separability of classes": (
        lambda: MulticlassDataModule(num_classes=4, separability=0.2),
        r"expected separability in \[0\.25, 1\), .* got 0\.2\.",
    ),
    "odd": (
        lambda: BalancedDataModule(val_size=7),
        r"expected an even number of rows, which two classes can share, got 7\.",
    ),
    "prevalence": (
        lambda: ImbalancedDataModule(prevalence=0.0),
        r"expected a prevalence in \(0, 1\) that gives 4000 rows of both classes, got 0\.0\.",
    ),
    "prevalence of one": (lambda: PoorFeaturesDataModule(prevalence=1.0), r"expected a prevalence in .* got 1\.0\."),
    "prevalence NaN": (lambda: ImbalancedDataModule(prevalence=math.nan), r"expected a prevalence in .* got nan\."),
    "prevalence too small": (
        lambda: ImbalancedDataModule(prevalence=0.1, val_size=4),
        r"expected a prevalence in \(0, 1\) that gives 4 rows of both classes, got 0\.1\.",
    ),
    "prevalence too large": (
        lambda: ImbalancedDataModule(prevalence=0.9, val_size=4),
        r"that gives 4 rows of both classes, got 0\.9\.",
    ),
    "test prevalence": (
        lambda: ImbalancedDataModule(test_prevalence=1.5),
        r"expected a prevalence in \(0, 1\) that gives 10000 rows of both classes, got 1\.5\.",
    ),
    "classes": (lambda: MulticlassDataModule(num_classes=1), r"expected num_classes of at least 2, got 1\."),
    "number of shares": (
        lambda: MulticlassDataModule(3, [0.5, 0.5]),
        r"expected class_shares to be 3 positive numbers that add up to 1, got \[0\.5, 0\.5\]\.",
    ),
    "sum of shares": (lambda: MulticlassDataModule(2, [0.5, 0.4]), r"add up to 1, got \[0\.5, 0\.4\]\."),
    "negative share": (lambda: MulticlassDataModule(2, [1.5, -0.5]), r"add up to 1, got \[1\.5, -0\.5\]\."),
    "share NaN": (lambda: MulticlassDataModule(2, [math.nan, 1.0]), r"add up to 1, got \[nan, 1\.0\]\."),
    "rows of classes": (
        lambda: MulticlassDataModule(2, [0.999, 0.001], test_size=100),
        r"expected rows of every class in every split, got .*\[100, 0\].* of \(4000, 2000, 100\) rows\.",
    ),
    "labels": (
        lambda: MultilabelDataModule(num_labels=1),
        r"expected at least 2 labels and a prevalence for each, got num_labels=1 and 1 prevalences\.",
    ),
    "number of prevalences": (
        lambda: MultilabelDataModule(3, [0.5, 0.1]),
        r"a prevalence for each, got num_labels=3 and 2 prevalences\.",
    ),
    "features": (
        lambda: MulticlassDataModule(num_classes=5, num_features=4).ready,
        r"expected num_features of at least 5, one direction for each class or label, got 4\.",
    ),
    "no features": (
        lambda: BalancedDataModule(num_features=0).ready,
        r"expected num_features of at least 1, .* got 0\.",
    ),
}


@pytest.mark.parametrize(("build", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_declaration_is_refused(build: Callable[[], Any], said: str) -> None:
    with pytest.raises(DeclarationError, match=f"{said}$"):
        build()


@pytest.mark.parametrize("lengths", [(5, 3), (3, 5), ()])
def test_tensors_of_unequal_lengths_are_refused(lengths: tuple[int, ...]) -> None:
    with pytest.raises(DeclarationError, match=r"expected .*tensors of one length"):
        TensorLoader(tuple(torch.zeros(length) for length in lengths), batch_size=2)


@pytest.mark.parametrize("size", [0, -1])
def test_a_loader_without_a_batch_size_is_refused(size: int) -> None:
    with pytest.raises(DeclarationError, match=rf"expected a batch_size of at least 1.*got {size}"):
        TensorLoader((torch.zeros(3),), batch_size=size)


# ---- the loader


def rows(batches: Any) -> list[list[int]]:
    return [batch[0].tolist() for batch in batches]


def on_rank(rank: int, world: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "rank_and_world_size", lambda: (rank, world))


@pytest.mark.parametrize("length", [0, 1, 2, 7, 8, 9, 40])
@pytest.mark.parametrize("size", [1, 3, 8, 100])
def test_one_process_gets_every_row_once_and_in_order(length: int, size: int) -> None:
    tensors = torch.arange(length), torch.arange(2 * length).view(length, 2)
    made = TensorLoader(tensors, size)
    for _ in range(2):
        batches = list(made)
        assert len(batches) == len(made) == math.ceil(length / size)
        assert [row for batch in rows(batches) for row in batch] == list(range(length))
        assert all(torch.equal(pairs[:, 0], 2 * single) for single, pairs in batches)
        assert all(len(batch[0]) == size for batch in batches[:-1])
    for number, batch in enumerate(batches):
        assert batch[0].data_ptr() == tensors[0][number * size :].data_ptr()  # a view: nothing is copied


@pytest.mark.parametrize("length", [1, 2, 40])
def test_shuffled_epochs_are_permutations_that_differ_and_come_back(length: int) -> None:
    tensors = torch.arange(length), torch.arange(length) * 3
    made, again, other = (TensorLoader(tensors, 7, shuffle=True, seed=seed) for seed in (5, 5, 6))
    epochs = []
    for epoch in range(4):
        made.sampler.set_epoch(epoch)
        epochs.append([row for batch in rows(made) for row in batch])
        assert sorted(epochs[-1]) == list(range(length))
        assert all(torch.equal(a * 3, b) for a, b in made)
    again.sampler.set_epoch(2)
    assert [row for batch in rows(again) for row in batch] == epochs[2]
    if length > 2:
        assert len({tuple(epoch) for epoch in epochs}) == 4
        assert [row for batch in rows(other) for row in batch] != epochs[0]
    torch.manual_seed(8)
    made.sampler.set_epoch(0)
    assert [row for batch in rows(made) for row in batch] == epochs[0]


def test_orders_of_other_seeds_and_epochs_are_other_orders() -> None:
    orders = set()
    for seed in (-1, 0, 1, 4096, 2**20, 2**32 - 1):  # torch itself reads only 32 bits of a seed
        made = TensorLoader((torch.arange(30),), 30, shuffle=True, seed=seed)
        for epoch in (0, 1, 2**20):
            made.sampler.set_epoch(epoch)
            orders.add(tuple(rows(made)[0]))
    assert len(orders) == 18


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("world", range(1, 6))
def test_ranks_evaluate_every_row_exactly_once(world: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for length in range(1, 41):
        shared, numbers = [], set()
        for rank in range(world):
            on_rank(rank, world, monkeypatch)
            made = TensorLoader((torch.arange(length), torch.zeros(length, 3)), size)
            batches = list(made)
            numbers |= {len(batches), len(made)}
            assert all(len(batch[0]) <= size and batch[1].shape == (len(batch[0]), 3) for batch in batches)
            shared += [row for batch in rows(batches) for row in batch]
        assert sorted(shared) == list(range(length))
        assert numbers == {math.ceil(math.ceil(length / world) / size)}


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("world", range(1, 6))
def test_ranks_train_on_equal_shares_that_cover_all_rows(
    world: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for length in range(1, 41):
        shares = []
        for rank in range(world):
            on_rank(rank, world, monkeypatch)
            made = TensorLoader((torch.arange(length),), size, shuffle=True, seed=3)
            made.sampler.set_epoch(length)
            batches = rows(made)
            assert len(batches) == len(made)
            assert all(batches)  # a rank never trains on nothing
            shares.append([row for batch in batches for row in batch])
        together = [row for share in shares for row in share]
        assert {len(share) for share in shares} == {math.ceil(length / world)}
        assert set(together) == set(range(length))
        assert max(map(together.count, together)) <= math.ceil(world / length) + 1


# ---- in a trainer


class Listening(LightningModule):
    """Notes the rows of each epoch, by their first feature."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.epochs, self.seen = nn.Linear(1, 1), dict[int, list[float]](), list[float]()

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        self.epochs.setdefault(self.current_epoch, []).extend(batch[0][:, 0].tolist())
        return self.layer(batch[0][:, :1]).sum()

    def validation_step(self, batch: tuple[Tensor, Tensor], _: int) -> None:
        self.seen += batch[0][:, 0].tolist()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_a_trainer_shuffles_every_epoch_anew_and_alike_after_a_restart(tmp_path: Path) -> None:
    data, module, stopped, resumed = BalancedDataModule(batch_size=16, **SMALL), *(Listening() for _ in range(3))
    Trainer(max_epochs=3, **QUIET).fit(module, datamodule=data)
    expected = data.ready.train[0][:, 0].sort().values.tolist()
    assert all(sorted(epoch) == expected for epoch in module.epochs.values())
    assert len({tuple(epoch) for epoch in module.epochs.values()}) == 3
    assert module.seen == data.ready.val[0][:, 0].tolist() * 3
    running = Trainer(max_epochs=2, **QUIET)
    running.fit(stopped, datamodule=BalancedDataModule(batch_size=16, **SMALL))
    running.save_checkpoint(tmp_path / "run.ckpt")
    Trainer(max_epochs=3, **QUIET).fit(
        resumed,
        datamodule=BalancedDataModule(batch_size=16, **SMALL),
        ckpt_path=tmp_path / "run.ckpt",
        weights_only=True,
    )
    assert {**stopped.epochs, **resumed.epochs} == module.epochs
    assert list(resumed.epochs) == [2]


def test_overfitting_sees_the_same_batch_in_every_epoch() -> None:
    module = Listening()
    data = BalancedDataModule(batch_size=16, **SMALL)
    Trainer(max_epochs=3, overfit_batches=1, **QUIET).fit(module, datamodule=data)
    assert [len(epoch) for epoch in module.epochs.values()] == [16] * 3
    assert len({tuple(epoch) for epoch in module.epochs.values()}) == 1


def test_every_stage_gets_its_split() -> None:
    data, running = ImbalancedDataModule(prevalence=0.3, batch_size=16, **SMALL), Trainer(max_epochs=1, **QUIET)
    module = BinaryClassifier(num_features=data.num_features, statistics=["accuracy"])
    running.fit(module, datamodule=data)
    running.test(module, datamodule=data, verbose=False)
    for stage, split in zip(("train", "val", "test"), data.ready, strict=True):
        counts = module.evaluation(stage).counts
        assert int(counts.tp + counts.fn) == int(split[1].sum())
        assert int(counts.tn + counts.fp) == int((1 - split[1]).sum())
    predicted = torch.cat(running.predict(module, datamodule=data))
    torch.testing.assert_close(predicted, module.predict_step(data.ready.test[0]).detach())


@pytest.mark.parametrize("on_device", [False, True])
def test_data_can_be_made_where_training_happens(on_device: bool) -> None:
    data = BalancedDataModule(on_device=on_device, **SMALL)
    Trainer(max_epochs=1, **QUIET).fit(Listening(), datamodule=data)
    assert same(data, BalancedDataModule(**SMALL))


def test_data_on_a_device_is_made_for_the_device_of_the_trainer() -> None:
    asked: list[torch.device] = []

    class Asked(BalancedDataModule):
        def splits(self, device: torch.device) -> Any:
            asked.append(device)
            return super().splits(torch.device("cpu"))

    class Elsewhere:
        class strategy:  # noqa: N801
            root_device = torch.device("meta")

    for on_device in (False, True):
        data = Asked(on_device=on_device, **SMALL)
        data.trainer = Elsewhere()
        data.setup("fit")
        data.setup("test")
        assert {part.device.type for split in data.ready for part in split} == {asked[-1].type}
    assert [device.type for device in asked] == ["cpu", "meta"]


@pytest.mark.gpu
@every_kind
def test_data_is_made_on_a_graphics_card(build: Callable[..., Any]) -> None:
    data = build(on_device=True, **SMALL)
    running = Trainer(max_epochs=1, **{**QUIET, "accelerator": "gpu", "devices": 1})
    running.fit(Listening(), datamodule=data)
    assert all(part.is_cuda for split in data.ready for part in split)
    assert all(part.is_cuda for batch in data.train_dataloader() for part in batch)
    on_cpu = build(**SMALL)
    for split, expected in zip(data.ready, on_cpu.ready, strict=True):
        assert torch.equal(split[1].cpu().sum(0), expected[1].sum(0))


def test_a_module_of_ones_own_says_only_what_its_splits_are() -> None:
    class Mine(TensorDataModule):
        num_features = 1

        def splits(self, device: torch.device) -> Any:
            rows = torch.arange(12.0).view(12, 1), torch.arange(12) % 2, torch.ones(12)
            return tuple(tuple(part[place::3] for part in rows) for place in range(3))

    data = Mine(batch_size=3, seed=0, on_device=False)
    assert [len(batch) for batch in data.val_dataloader()] == [3, 3]
    assert [batch[0].flatten().tolist() for batch in data.test_dataloader()] == [[2, 5, 8], [11]]
    assert sorted(row for batch in data.train_dataloader() for row in batch[0].flatten().tolist()) == [0, 3, 6, 9]
