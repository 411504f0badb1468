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
from made_data import SMALL, every_kind, same
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch import Tensor

from lightning_evalkit.data import (
    BalancedDataModule,
    ImbalancedDataModule,
    MulticlassDataModule,
    MultilabelDataModule,
    PoorFeaturesDataModule,
    gaussian,
)

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = [
    # About the tiny trainers of these tests.
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`"),
]

DRAWS = 1_000_000


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
