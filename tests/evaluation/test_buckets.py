"""Counting in buckets: intervals of anything, clusters, pairs, and a state that depends on the samples alone."""

import copy
from hashlib import blake2b

import numpy as np
import pytest
import torch
from device import Operators, deferred, pretend_on_device
from scipy.special import stdtrit
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from lightning_evalkit import (
    BinaryEvaluation,
    Counts,
    MulticlassEvaluation,
    MultilabelEvaluation,
    Slices,
    compare,
)
from lightning_evalkit.counts.hashing import buckets_of, fingerprint, hashed
from lightning_evalkit.counts.numpy_path import BLOCK
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.evaluation.base import Evaluation
from lightning_evalkit.intervals.binomial import BINOMIAL, wilson

SAMPLES = 3_000


def drawn(samples: int = SAMPLES, seed: int = 0, labels: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (samples, labels) if labels else (samples,)
    target = torch.randint(2, shape, generator=generator)
    return torch.randn(shape, generator=generator) + 1.5 * target - 0.75, target


def built(kind: str, buckets: int = 256, **declared: object) -> tuple[Evaluation, tuple[Tensor, Tensor]]:
    if kind == "labels":
        return MultilabelEvaluation("logits", 3, buckets=buckets, **declared), drawn(labels=3)
    if kind == "classes":
        classes = drawn()[1] + torch.arange(SAMPLES) % 2
        return MulticlassEvaluation("logits", 3, buckets=buckets, **declared), (
            2 * torch.nn.functional.one_hot(classes, 3) + torch.randn(SAMPLES, 3, generator=torch.Generator()),
            classes,
        )
    return BinaryEvaluation("logits", buckets=buckets, **declared), drawn()


KINDS = pytest.mark.parametrize("kind", ["binary", "classes", "labels"])


# ---- the hash is fixed for ever


def _reference(number: int) -> int:
    """SplitMix64's finaliser on Python's integers."""
    whole = (1 << 64) - 1
    x = (number + 0x9E3779B97F4A7C15) & whole
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & whole
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & whole
    return x ^ (x >> 31)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def test_the_hash_is_the_documented_one():
    """The first outputs of SplitMix64 seeded with 0 are published: 0xE220A8397B1DCDAF comes first."""
    numbers = [0, 1, -1, 2**62, -(2**63), 123456789]
    expected = [_signed(_reference(number % (1 << 64))) for number in numbers]
    assert expected[0] == _signed(0xE220A8397B1DCDAF)
    assert hashed(torch.tensor(numbers)).tolist() == expected
    with deferred():
        assert hashed(torch.tensor(numbers)).tolist() == expected


@pytest.mark.parametrize("buckets", [2, 1000, 1024, 2**20])
def test_buckets_are_the_upper_half_of_the_hash(buckets: int):
    hashes = hashed(torch.arange(-500, 500))
    expected = [((number % (1 << 64)) >> 32) * buckets >> 32 for number in hashes.tolist()]
    assert buckets_of(hashes, buckets).tolist() == expected
    memory = torch.empty(2_000, dtype=torch.int64)
    assert buckets_of(hashed(torch.arange(-500, 500), memory), buckets, memory).tolist() == expected
    with deferred():
        assert buckets_of(hashes, buckets).tolist() == expected


@pytest.mark.parametrize("target", [[1, 0], [1, 7], [-100, 2**40], [[1, 0], [0, 1]], [[3, 0], [-1, 1]], [[1], [0]]])
def test_the_fingerprint_is_the_documented_sum(target: list[int] | list[list[int]]):
    ids, whole = [7, -8], 1 << 64
    rows = [row if isinstance(row, list) else [row] for row in target]
    expected = sum(
        _reference(number % whole) * _reference(position) * _reference(each % whole)
        for number, row in zip(ids, rows, strict=True)
        for position, each in enumerate(row)
    )
    hashes = hashed(torch.tensor(ids))
    assert fingerprint(hashes, torch.tensor(target)).item() == _signed(expected % whole)
    with deferred():
        assert fingerprint(hashes, torch.tensor(target)).item() == _signed(expected % whole)


def test_the_fingerprint_depends_on_ids_targets_and_how_often_they_occur_and_not_on_their_order():
    def of(ids: list[int], target: list[int] | list[list[int]]) -> int:
        return fingerprint(hashed(torch.tensor(ids)), torch.tensor(target)).item()

    assert of([1, 2, 3], [0, 1, 2]) == of([3, 1, 2], [2, 0, 1])
    rows = [
        ([1, 2, 3], [0, 1, 1]),
        ([1, 2, 3], [1, 0, 1]),  # two targets exchanged
        ([1, 2, 4], [0, 1, 1]),  # another sample
        ([1, 2, 3, 3], [0, 1, 1, 1]),  # one of them twice
        ([1, 2], [0, 1]),
        ([5, 5], [0, 2]),  # the targets of a cluster have the same sum, and
        ([5, 5], [1, 1]),  # the same number
        ([1, 2], [[0, 1], [1, 0]]),
        ([1, 2], [[1, 0], [0, 1]]),  # labels exchanged
        ([1, 2], [[1, 1], [0, 0]]),
    ]
    assert len({of(*each) for each in rows}) == len(rows)


def test_texts_are_ids_by_their_digest():
    scores, target = drawn(4)
    texts = ["a", "b", "ä", "patient 17"]
    numbers = [int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True) for text in texts]
    expected = _totals(scores, target, torch.tensor(numbers))
    pandas = pytest.importorskip("pandas")
    for ids in (texts, tuple(texts), np.array(texts), np.array(texts, dtype=object), pandas.Series(texts), numbers):
        assert torch.equal(_totals(scores, target, ids), expected)
        assert torch.equal(_totals(scores.numpy(), target.tolist(), ids), expected)
    assert torch.equal(_totals(scores, target, pandas.Series(numbers)), expected)


def _totals(scores: object, target: object, ids: object) -> Tensor:
    evaluation = BinaryEvaluation("logits", buckets=16)
    evaluation.update(scores, target, sample=ids)
    return evaluation.tally.totals.integers


# ---- law 5: the state depends on the samples alone


@KINDS
@pytest.mark.parametrize("curves", [False, True])
def test_order_batches_and_merging_change_nothing(kind: str, curves: bool):
    evaluation, batch = built(kind, curves=curves)
    parts, ids = [evaluation.clone() for _ in range(2)], torch.arange(SAMPLES) * 7 - 1000
    evaluation.update(*batch, sample=ids)
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(1))
    for place, part in enumerate(order.split(700)):
        parts[place % 2].update(*(each[part] for each in batch), sample=ids[part])
    parts[0].merge_state(parts[1])
    one, other = (each.tally.evidence.buckets for each in (evaluation, parts[0]))
    assert torch.equal(*(each.counter.rows.by_group(each.rows).integers for each in (one, other)))
    assert torch.equal(one.scores.integers, other.scores.integers)
    assert (one.fingerprint, one.samples) == (other.fingerprint, SAMPLES)
    for name, interval in evaluation.intervals().items():
        twin = parts[0].intervals()[name]
        assert (interval.low, interval.high) == pytest.approx((twin.low, twin.high), abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("clusters", [False, True])
def test_a_batch_that_is_counted_in_parts_is_counted_like_its_parts(clusters: bool):
    scores, target = drawn(BLOCK + 5_000)
    ids = {"sample": torch.arange(len(target)), **({"cluster": torch.arange(len(target)) // 3} if clusters else {})}
    whole, parts = (BinaryEvaluation("logits", threshold=[0.3, 0.5, 0.9], buckets=1000) for _ in range(2))
    whole.update(scores, target, **ids)
    for part in torch.arange(len(target)).split(999):
        parts.update(scores[part], target[part], **{name: each[part] for name, each in ids.items()})
    one, other = (each.tally.evidence.buckets for each in (whole, parts))
    assert torch.equal(*(each.counter.rows.by_group(each.rows).integers for each in (one, other)))
    assert one.fingerprint == other.fingerprint


@KINDS
@pytest.mark.parametrize("curves", [False, True])
def test_counting_without_looking_gives_the_same(kind: str, curves: bool):
    one, batch = built(kind, curves=curves)
    other = one.clone()
    one.update(*batch, sample=torch.arange(SAMPLES))
    with deferred():
        other.update(*batch, sample=torch.arange(SAMPLES))
    assert one.tally.evidence.buckets.fingerprint == other.tally.evidence.buckets.fingerprint
    for name, interval in one.intervals().items():
        # Logarithms of single precision, by NumPy here and by torch there, differ in their last bit.
        slack = 1e-8 if name.startswith("log_loss") else 1e-9
        assert other.intervals()[name].low == pytest.approx(interval.low, abs=slack, nan_ok=True)


@KINDS
@pytest.mark.parametrize("curves", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_an_update_on_a_device_waits_for_nothing(kind: str, curves: bool, weighted: bool):
    evaluation, batch = built(kind, curves=curves, weighted=weighted)
    with FakeTensorMode():
        pretend_on_device(evaluation)
        fake = [torch.zeros(each.shape, dtype=each.dtype, device="cuda:0") for each in batch]
        fake += [torch.zeros(SAMPLES, device="cuda:0")] * weighted
        ids = torch.zeros(SAMPLES, dtype=torch.int64, device="cuda:0")
        evaluation.update(*fake, sample=ids)  # which may bring the beginnings of bins to the device
        with Operators() as operators:
            evaluation.update(*fake, sample=ids)
            evaluation.update(*fake, cluster=ids)
    assert operators.names
    assert operators.waiting == []


def test_a_failed_update_changes_nothing():
    evaluation, (scores, target) = built("binary")
    evaluation.update(scores, target, sample=torch.arange(SAMPLES))
    before = evaluation.tally.totals.integers.clone()
    for wrong in ({"sample": torch.arange(3)}, {"sample": torch.rand(SAMPLES)}, {}):
        with pytest.raises(InputError):
            evaluation.update(scores, target, **wrong)
    with pytest.raises(InputError):
        evaluation.update(scores, target + 5, sample=torch.arange(SAMPLES))
    assert torch.equal(evaluation.tally.totals.integers, before)


# ---- intervals


@KINDS
def test_values_are_those_without_buckets_and_intervals_those_of_counts(kind: str):
    evaluation, batch = built(kind)
    plain = evaluation.replace(buckets=None)
    evaluation.update(*batch, sample=torch.arange(SAMPLES))
    plain.update(*batch)
    values = evaluation.compute()
    assert values == plain.compute()
    compared = 0
    for name, interval in evaluation.intervals().items():
        other, told = plain.interval(name), evaluation.interval(name, method="buckets")
        assert (told.method, told.n) == ("buckets", SAMPLES)
        assert told.low < told.value < told.high
        assert interval == (other if other.known else told)  # samples by their own ids are independent
        if other.known:
            compared += 1
            assert told.width == pytest.approx(other.width, rel=0.2)
    assert compared >= 1
    evaluation.update(*batch, cluster=torch.arange(SAMPLES))
    assert {interval.method for interval in evaluation.intervals().values()} == {"buckets"}
    assert evaluation.interval("exact_match" if kind == "labels" else "accuracy", method="wilson").method == "wilson"


@KINDS
def test_scores_have_intervals_too(kind: str):
    evaluation, batch = built(kind, curves=True)
    evaluation.update(*batch, sample=torch.arange(SAMPLES))
    over = {"binary": "", "classes": "/macro", "labels": "/macro"}[kind]
    sums = "" if kind == "classes" else over
    for name in (f"auroc{over}", f"average_precision{over}", f"brier{sums}", f"log_loss{sums}"):
        found = evaluation.interval(name)
        assert found.low < found.value < found.high, name
        assert found.width < 0.1
    assert "largest value" in evaluation.interval(f"best_f1{over}").reason


def test_auroc_from_buckets_is_as_wide_as_delongs():
    evaluation, batch = built("binary", curves=True)
    plain = evaluation.replace(buckets=None)
    evaluation.update(*batch, sample=torch.arange(SAMPLES))
    plain.update(*batch)
    found = evaluation.interval("auroc", method="buckets")
    assert found.width == pytest.approx(plain.interval("auroc").width, rel=0.12)


@pytest.mark.parametrize("name", ["average_precision", "brier", "log_loss", "f1"])
def test_buckets_of_weighted_samples_tell_the_spread_over_repetitions(name: str):
    """How much the number varies from data set to data set, and what buckets of one of them say about that."""
    found, errors = [], []
    for seed in range(40):
        evaluation = BinaryEvaluation("logits", statistics=[name], curves=name != "f1", weighted=True, buckets=256)
        weight = torch.rand(400, generator=torch.Generator().manual_seed(seed))
        evaluation.update(*drawn(400, seed), weight, sample=torch.arange(400))
        interval = evaluation.interval(name)
        found.append(interval.value)
        errors.append(interval.width / 2 / 1.97)
    assert np.mean(errors) == pytest.approx(np.std(found, ddof=1), rel=0.3)


# ---- law 8: clusters


@KINDS
@pytest.mark.parametrize("times", [2, 5])
def test_repeats_under_one_cluster_change_no_interval_and_without_it_shrink_them(kind: str, times: int):
    """Where hardly two samples share a bucket, what buckets say is not a matter of chance."""
    evaluation, batch = built(kind, buckets=2**17)
    repeated, alone = evaluation.clone(), evaluation.clone()
    ids = torch.arange(SAMPLES)
    evaluation.update(*batch, cluster=ids)
    many = [each.repeat_interleave(times, 0) for each in batch]
    repeated.update(*many, cluster=ids.repeat_interleave(times))
    alone.update(*many, sample=torch.arange(SAMPLES * times))
    for name, interval in evaluation.intervals().items():
        twin, narrow = repeated.intervals()[name], alone.intervals()[name]
        assert (twin.low, twin.high) == pytest.approx((interval.low, interval.high), abs=1e-9), name
        assert narrow.width == pytest.approx(interval.width / times**0.5, rel=0.02), name
        assert alone.interval(name, method="buckets").width == pytest.approx(interval.width / times**0.5, rel=0.02)


def test_without_errors_a_bucket_is_one_sample():
    evaluation = BinaryEvaluation("labels", statistics=["accuracy"], buckets=8)
    evaluation.update(torch.ones(500), torch.ones(500), cluster=torch.arange(500) // 100)
    filled = len(evaluation.by_bucket("accuracy").without)
    assert 2 <= filled <= 5
    assert 0.2 < evaluation.interval("accuracy").low < 0.8


def test_without_errors_only_buckets_count_that_hold_what_a_number_looks_at():
    """All four positives of 4,000 samples are found: as sure as four of four, whatever the number of buckets."""
    target = (torch.arange(4_000) % 1_000 == 0).long()
    evaluation = BinaryEvaluation("logits", curves=True, buckets=1024)
    evaluation.update(8.0 * target - 4, target, cluster=torch.arange(4_000))
    found = evaluation.intervals()
    for name in ("recall", "precision", "f1", "mcc", "balanced_accuracy", "auroc", "average_precision"):
        share = (found[name].low - evaluation[name].readout.statistic.bounds[0]) / (1 + (name == "mcc"))
        assert share == pytest.approx(wilson(4, 4, 0.95)[0], abs=0.01), name
    for name in ("accuracy", "specificity"):
        assert found[name].low > 0.99
    classes = MulticlassEvaluation("labels", 3, buckets=1024)
    classes.update(target * 2, target * 2, cluster=torch.arange(4_000))
    found = classes.intervals()
    assert found["accuracy"].low > 0.99
    assert found["mcc"].low < 0.6
    for name in ("recall/macro", "f1/macro", "balanced_accuracy"):
        assert "it averages has fewer than 5 buckets with samples" in found[name].reason


def test_an_average_by_buckets_is_no_surer_than_its_classes():
    """Six positives of a label, all found, say as little as six of six, though other labels have errors."""
    target = torch.zeros(4_000, 2).long()
    target[:6, 0], target[1_000:3_000, 1] = 1, 1
    preds = target.clone()
    preds[1_000:1_100, 1] = 0
    for ids in ({"sample": torch.arange(4_000)}, {"cluster": torch.arange(4_000)}):
        evaluation = MultilabelEvaluation("labels", 2, statistics=["recall/macro"], buckets=1024)
        evaluation.update(preds, target, **ids)
        found = evaluation.interval("recall/macro")
        assert found.method == "buckets"
        assert found.low == pytest.approx(0.975 - (1 - wilson(6, 6, 0.95)[0]) / 2, abs=0.01)


def test_balanced_accuracy_by_buckets_is_no_surer_than_recall():
    """Twenty positives, all found: half as far below as Wilson's interval of twenty of twenty goes."""
    target = (torch.arange(200) < 20).long()
    preds = target.clone()
    preds[20:25] = 1
    evaluation = BinaryEvaluation("labels", statistics=["balanced_accuracy", "informedness"], buckets=1024)
    evaluation.update(preds, target, cluster=torch.arange(200))
    found, twice = evaluation.interval("balanced_accuracy"), evaluation.interval("informedness")
    assert found.method == "buckets"
    assert found.low < found.value - (1 - wilson(20, 20, 0.95)[0]) / 2 + 0.005 < found.value
    assert found.high <= 1
    assert (twice.low, twice.high) == pytest.approx((2 * found.low - 1, 2 * found.high - 1), abs=0.01)


def test_too_few_buckets_say_so():
    evaluation = BinaryEvaluation("labels", statistics=["accuracy", "recall"], buckets=8)
    evaluation.update(torch.tensor([1, 0]), torch.tensor([1, 0]), cluster=torch.tensor([3, 3]))
    assert "fewer than two buckets" in evaluation.interval("accuracy").reason
    evaluation.update(torch.tensor([0]), torch.tensor([0]), cluster=torch.tensor([0]))
    assert "without one of the buckets" in evaluation.interval("recall").reason


@pytest.mark.parametrize("ids", ["sample", "cluster"])
@pytest.mark.parametrize("weighted", [False, True], ids=["ignored", "weightless"])
def test_buckets_without_any_sample_that_counts_say_so(weighted: bool, ids: str):
    evaluation = BinaryEvaluation("logits", curves=True, buckets=8, weighted=weighted, ignore_index=-1)
    target, more = (torch.tensor([0, 1]), (torch.zeros(2),)) if weighted else (torch.tensor([-1, -1]), ())
    evaluation.update(torch.tensor([1.0, -1.0]), target, *more, **{ids: torch.arange(2)})
    found = evaluation.intervals()
    assert not any(interval.known for interval in found.values())
    assert all(interval.reason for interval in found.values())
    assert len(evaluation.by_bucket("auroc").without) == 0


# ---- laws 6 and 7: pairs


def two_models(samples: int, seed: int = 0, agree: float = 0.9) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(2, (samples,), generator=generator)
    one, other = (target ^ (torch.rand(samples, generator=generator) > right) for right in (0.8, 0.85))
    same = torch.rand(samples, generator=generator) < agree
    return one, torch.where(same, one, other), target


def counted(predicted: Tensor, target: Tensor, buckets: int = 256, shift: int = 0) -> BinaryEvaluation:
    evaluation = BinaryEvaluation("labels", buckets=buckets)
    evaluation.update(predicted, target, sample=torch.arange(len(target)) + shift)
    return evaluation


def _joint_error(one: Tensor, other: Tensor, target: Tensor) -> float:
    """From the joint table of both predictions and the target, resampled: what storing all predictions would allow."""
    joint = np.bincount((target * 4 + one * 2 + other).numpy(), minlength=8)
    drawn_tables = np.random.default_rng(0).multinomial(len(target), joint / joint.sum(), 20_000)
    tables = torch.from_numpy(drawn_tables).double()

    def f1(place: int) -> Tensor:
        predicted = [code for code in range(4) if code >> place & 1]
        tp, fp = tables[:, [4 + code for code in predicted]].sum(1), tables[:, predicted].sum(1)
        return 2 * tp / (tp + fp + tables[:, 4:].sum(1))

    return float((f1(0) - f1(1)).std())


@pytest.mark.parametrize(("buckets", "outside"), [(256, 2), (512, 0), (1024, 0)])
def test_the_paired_error_is_that_of_the_joint_table(buckets: int, outside: int):
    """Within a tenth. An error that is estimated from G buckets has itself an error of about 1 / sqrt(2 (G - 1)), for
    256 buckets 4.4 %, and somewhat more as they hold unequally many samples: some of twelve may be farther off."""
    ratios = []
    for seed in range(12):
        one, other, target = two_models(20_000, seed)
        found = compare(counted(one, target, buckets), counted(other, target, buckets), ["f1"])["f1"]
        assert found.paired
        error = (found.high - found.low) / 2 / float(stdtrit(buckets - 1, 0.975))
        ratios.append(error / _joint_error(one, other, target))
    assert sum(not 0.9 <= ratio <= 1.1 for ratio in ratios) <= outside
    assert np.mean(ratios) == pytest.approx(1, abs=0.03)


def test_pairs_are_far_more_exact():
    one, other, target = two_models(20_000)
    found = compare(counted(one, target), counted(other, target), ["f1"])["f1"]
    apart = compare(counted(one, target), counted(other, target), ["f1"], paired=False)["f1"]
    assert apart.high - apart.low > 2 * (found.high - found.low)
    assert apart.reason == "paired=False was asked for"


def test_the_same_does_not_differ_and_swapping_negates():
    one, other, target = two_models(2_000)
    for margin, verdict in ((0.0, "undecided"), (0.05, "tied")):
        same = compare(counted(one, target), counted(one, target), ["f1", "mcc"], margin=margin)
        assert {(each.difference, each.p_value, each.verdict) for each in same.values()} == {(0, 1, verdict)}
    there, back = (compare(*pair) for pair in (_pair(one, other, target), _pair(other, one, target)))
    for name in there:
        assert there[name].difference == pytest.approx(-back[name].difference, abs=1e-12)
        assert there[name].low == pytest.approx(-back[name].high, abs=1e-12)
        assert there[name].p_value == pytest.approx(back[name].p_value)
    assert compare(*_pair(*two_models(20_000, agree=0.5)), ["accuracy"])["accuracy"].verdict == "better"


def test_samples_that_all_agree_are_not_certain():
    """Two models that agree on all of n samples may differ on others: Clopper and Pearson's interval of 0 of n. Where
    all of n speak for one of them, the sign test has the p-value 2 / 2^n."""
    target = torch.tensor([0, 0, 1, 1, 1])
    same = compare(*_pair(target, target, target), ["accuracy", "mcc"], margin=0.1)
    reach = BINOMIAL["clopper-pearson"](0, 5, 0.95)[1]
    assert (same["accuracy"].low, same["accuracy"].high) == pytest.approx((-reach, reach))
    assert same["mcc"].high == pytest.approx(2 * BINOMIAL["clopper-pearson"](0, 2, 0.95)[1])  # of two negatives
    assert {each.verdict for each in same.values()} == {"undecided"}
    for samples, verdict in ((3, "undecided"), (12, "worse")):
        target = torch.arange(samples) % 2
        found = compare(*_pair(target, 1 - target, target), ["accuracy"])["accuracy"]
        filled = len(counted(target, target).by_bucket("accuracy").without)
        assert (found.difference, found.p_value, found.verdict) == (-1, 2 / 2**filled, verdict)
        assert (found.high < 0) == (found.p_value < 0.05)


def test_largest_values_are_not_compared_by_buckets():
    one, other = (built("binary", curves=True)[0] for _ in range(2))
    scores, target = drawn()
    one.update(scores, target, sample=torch.arange(SAMPLES))
    other.update(scores + torch.randn(SAMPLES, generator=torch.Generator()), target, sample=torch.arange(SAMPLES))
    found = compare(one, other, ["best_f1", "auroc"])
    assert (found["best_f1"].verdict, found["auroc"].verdict) == ("undecided", "worse")
    assert found["best_f1"].low != found["best_f1"].low


def _pair(one: Tensor, other: Tensor, target: Tensor) -> tuple[BinaryEvaluation, BinaryEvaluation]:
    return counted(one, target), counted(other, target)


def test_paired_tests_reject_as_often_as_they_say():
    rejected = 0
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        target = torch.randint(2, (400,), generator=generator)
        one, other = (target ^ (torch.rand(400, generator=generator) > 0.8) for _ in range(2))
        rejected += compare(counted(one, target), counted(other, target), ["f1"])["f1"].p_value < 0.05
    assert 0.015 <= rejected / 200 <= 0.09


def test_other_samples_are_not_paired():
    one, other, target = two_models(500)
    shifted = compare(counted(one, target), counted(other, target, shift=1), ["f1"])["f1"]
    assert not shifted.paired
    assert "fingerprints differ" in shifted.reason
    with pytest.raises(InputError, match="that can be paired: their fingerprints differ: they counted different"):
        compare(counted(one, target), counted(other, 1 - target), ["f1"], paired=True)
    with pytest.raises(InputError, match="different numbers of buckets, 256 and 512"):
        compare(counted(one, target), counted(other, target, 512), ["f1"], paired=True)
    plain = BinaryEvaluation("labels")
    plain.update(other, target)
    assert "declare buckets=1024" in compare(counted(one, target), plain, ["f1"])["f1"].reason
    table = Counts(tp=1, fp=1, fn=1, tn=1)
    with pytest.raises(InputError, match="counts do not say which samples they come from"):
        compare(table, table, ["f1"], paired=True)


# ---- declarations and copies


def test_a_checkpoint_and_copies_keep_the_buckets():
    evaluation, batch = built("binary")
    evaluation.update(*batch, sample=torch.arange(SAMPLES))
    evaluation.persistent(True)
    fresh, _ = built("binary")
    fresh.load_state_dict(evaluation.state_dict())
    for twin in (fresh, copy.deepcopy(evaluation), evaluation.clone()):
        assert twin.intervals() == evaluation.intervals()
    with pytest.raises(RuntimeError, match="buckets=256 in the checkpoint, 512 here"):
        BinaryEvaluation("logits", buckets=512).load_state_dict(evaluation.state_dict())


def test_forward_gives_the_batch_alone():
    evaluation, (scores, target) = built("binary")
    ids = torch.arange(SAMPLES)
    evaluation.update(scores[:9], target[:9], sample=ids[:9])
    alone = evaluation.replace()
    alone.update(scores[9:], target[9:], sample=ids[9:])
    assert evaluation(scores[9:], target[9:], sample=ids[9:]) == alone.compute()
    assert evaluation.tally.evidence.buckets.samples == SAMPLES


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"declared buckets=16, so update needs the ids of the samples \(sample=ids\), or of the groups"),
        ({"sample": torch.rand(4)}, r"expected sample to be ids of samples, whole numbers or texts, got torch.float32"),
        ({"cluster": torch.arange(3)}, r"expected one cluster id for every sample, shape \(4,\), got \(3,\)"),
        ({"cluster": ["a", "b"]}, r"expected one cluster id for every sample, shape \(4,\), got \(2,\)"),
        ({"sample": ["a", 1, "b", 2]}, r"to be ids of one kind, whole numbers or texts, got texts and 1"),
        ({"sample": ["a", None, "b", "c"]}, r"ids of one kind, whole numbers or texts, got texts and None"),
        ({"sample": [None] * 4}, r"expected sample to be ids of samples, whole numbers or texts, got list"),
    ],
)
def test_wrong_ids(given: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        BinaryEvaluation("logits", buckets=16).update(*drawn(4), **given)


def test_wrong_declarations():
    with pytest.raises(InputError, match="got sample, but the evaluation does not count by ids: construct it with"):
        BinaryEvaluation("logits").update(*drawn(4), sample=torch.arange(4))
    with pytest.raises(DeclarationError, match="expected buckets to be a whole number of at least 2, got 1"):
        BinaryEvaluation("logits", buckets=1)
    with pytest.raises(DeclarationError, match="expected an evaluation without buckets"):
        Slices(BinaryEvaluation("logits", buckets=16), 3)
    evaluation = BinaryEvaluation("logits")
    evaluation.update(*drawn(4))
    with pytest.raises(DeclarationError, match="method='buckets' needs samples counted in buckets: declare"):
        evaluation.interval("f1", method="buckets")
