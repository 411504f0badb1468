"""Made data: words of errors, the loader, and runs in a trainer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import quiet
import torch
from lightning.pytorch import LightningModule, Trainer
from made_data import SMALL, every_kind, same
from torch import Tensor, nn
from versions import STRICT

from lightning_evalkit.data import (
    BalancedDataModule,
    ImbalancedDataModule,
    MulticlassDataModule,
    MultilabelDataModule,
    PoorFeaturesDataModule,
    TensorDataModule,
    TensorLoader,
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

QUIET = {**quiet.QUIET, "num_sanity_val_steps": 0}


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
        **STRICT,
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
