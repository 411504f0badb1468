"""One method for the hooks of all stages: each is called with its stage, in Lightning's order."""

from __future__ import annotations

from typing import Any

from evaluated import Plain, loader
from quiet import quiet_trainer

from lightning_evalkit.callbacks.parts.stage_hooks import StageHooks


class Noting(StageHooks):
    """Notes every call; those of the sanity check in capitals."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def note(self, trainer: Any, stage: str, *what: Any) -> None:
        self.seen.append((stage.upper() if trainer.sanity_checking else stage, *what))

    def epoch_start(self, trainer: Any, module: Any, stage: str) -> None:
        self.note(trainer, stage, "epoch starts")

    def batch_start(self, trainer: Any, module: Any, stage: str, batch: Any, number: int, dataloader: int) -> None:
        self.note(trainer, stage, "starts", number, dataloader)

    def batch_end(
        self, trainer: Any, module: Any, stage: str, outputs: Any, batch: Any, number: int, dataloader: int
    ) -> None:
        assert len(outputs["logits"]) == len(batch[0])
        self.note(trainer, stage, "ends", number, dataloader)

    def epoch_end(self, trainer: Any, module: Any, stage: str) -> None:
        self.note(trainer, stage, "epoch ends")


def epoch(stage: str, batches: int, loaders: int = 1) -> list[tuple[Any, ...]]:
    steps = [(number, place) for place in range(loaders) for number in range(batches)]
    return [
        (stage, "epoch starts"),
        *((stage, when, *step) for step in steps for when in ("starts", "ends")),
        (stage, "epoch ends"),
    ]


def test_every_stage_and_dataloader_is_named() -> None:
    """Validation runs inside the training epoch, after its last batch."""
    noting = Noting()
    limits = {"limit_train_batches": 3, "limit_val_batches": 2, "limit_test_batches": 1, "num_sanity_val_steps": 1}
    trainer = quiet_trainer(noting, max_epochs=1, **limits)
    trainer.fit(Plain(), loader(1), [loader(2), loader(3)])
    trainer.test(Plain(), loader(4), verbose=False)
    training = epoch("train", 3)
    expected = [*epoch("VAL", 1, 2), *training[:-1], *epoch("val", 2, 2), training[-1], *epoch("test", 1)]
    assert noting.seen == expected


def test_a_callback_may_leave_all_of_them_out() -> None:
    trainer = quiet_trainer(StageHooks(), max_epochs=1, limit_train_batches=1, limit_val_batches=1)
    trainer.fit(Plain(), loader(1), loader(2))
    assert trainer.global_step == 1
