"""Rows by number: an evaluation in buckets has one fingerprint whatever the batches, the epoch or the ids' place."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

from lightning_evalkit import BinaryEvaluation
from lightning_evalkit.callbacks import Evaluate, KeepCounts
from lightning_evalkit.evaluation.saved import saved

pytestmark = pytest.mark.filterwarnings("ignore:The '[a-z_]+_dataloader' does not have many workers")

SIZE = 50
LOGITS, TARGET = torch.randn(SIZE, generator=torch.Generator().manual_seed(0)), torch.arange(SIZE) % 2


class Given(LightningModule):
    """Predicts what it is given, and may tell the ids of rows."""

    def __init__(self, first_id: int | None = None) -> None:
        super().__init__()
        self.first_id = first_id
        self.evaluation = BinaryEvaluation("logits")  # of the name of a method of this package's modules

    def validation_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        logits, target, place = batch
        ids = {} if self.first_id is None else {"sample": place + self.first_id}
        return {"logits": logits, "target": target, **ids}


def validated(batch_size: int, times: int = 1, first_id: int | None = None) -> BinaryEvaluation:
    evaluate = Evaluate(BinaryEvaluation("logits", buckets=16), stages=["val"])
    quiet: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
    trainer = Trainer(accelerator="cpu", callbacks=[evaluate, KeepCounts()], **quiet)
    for _ in range(times):
        rows = DataLoader(TensorDataset(LOGITS, TARGET, torch.arange(SIZE)), batch_size=batch_size)
        trainer.validate(Given(first_id), rows, verbose=False)
    evaluation = evaluate.evaluation("val")
    assert isinstance(evaluation, BinaryEvaluation)
    return evaluation


def fingerprint(evaluation: BinaryEvaluation) -> int:
    buckets = evaluation.tally.evidence.buckets
    assert buckets is not None
    return buckets.fingerprint


def test_rows_are_counted_by_their_number_or_by_the_ids_that_a_step_returns() -> None:
    by_hand = BinaryEvaluation("logits", buckets=16)
    by_hand.update(LOGITS, TARGET, sample=torch.arange(SIZE))
    expected = fingerprint(by_hand)
    assert fingerprint(validated(7)) == expected
    assert fingerprint(validated(20, times=2)) == expected  # each epoch begins with row 0
    assert fingerprint(validated(20, first_id=0)) == expected
    assert fingerprint(validated(20, first_id=1000)) != expected


class Declared(Given):
    """Tells its evaluation as this package's modules do, and declares another one from some epoch on."""

    def __init__(self, changes_at: int | None = None) -> None:
        super().__init__()
        del self.evaluation
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.kept, self.changes_at = BinaryEvaluation("logits"), changes_at

    def evaluation(self, stage: str, dataloader_idx: int) -> BinaryEvaluation:  # type: ignore[override]
        return self.kept

    def on_validation_epoch_start(self) -> None:
        if self.current_epoch == self.changes_at and not self.trainer.sanity_checking:
            self.kept = BinaryEvaluation("logits", threshold=0.75)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self.weight**2

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)


@pytest.mark.parametrize(("changes_at", "threshold", "declared"), [(None, 0.5, 1), (2, 0.75, 2)])
def test_counts_are_kept_of_the_last_epoch_and_declared_anew_only_where_the_module_does(
    monkeypatch: pytest.MonkeyPatch, changes_at: int | None, threshold: float, declared: int
) -> None:
    made: list[Any] = []
    stock = BinaryEvaluation.replace
    monkeypatch.setattr(BinaryEvaluation, "replace", lambda own, **new: made.append(new) or stock(own, **new))
    rows = DataLoader(TensorDataset(LOGITS, TARGET, torch.arange(SIZE)), batch_size=20)
    keep = KeepCounts()
    quiet: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
    trainer = Trainer(max_epochs=4, accelerator="cpu", callbacks=[keep], enable_model_summary=False, **quiet)
    trainer.fit(Declared(changes_at), rows, rows)
    assert len(made) == declared
    by_hand = BinaryEvaluation("logits", threshold=threshold, buckets=1024)
    for part in torch.arange(SIZE).split(20):
        by_hand.update(LOGITS[part], TARGET[part], sample=part)
    expected = saved(by_hand, "val.0")
    kept = keep.state_dict()
    assert kept.keys() == expected.keys()
    for name, entry in expected.items():
        assert torch.equal(kept[name].to_dense(), entry.to_dense()), name
