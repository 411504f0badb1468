"""Which epochs are drawn: few and spaced out, within a twentieth of the run's time, and always the last."""

from __future__ import annotations

import pytest
import torch
from tensorboard_runs import events, image_steps
from test_tensorboard_curves import Trained, fit

from lightning_evalkit import MulticlassEvaluation
from lightning_evalkit.callbacks import TensorBoardReport
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.reports.schedule import SHARE, Schedule
from lightning_evalkit.reports.snapshot import Snapshot, explanation


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def drawn(seconds_of_an_epoch: float, seconds_of_a_drawing: float, epochs: int) -> tuple[list[int], float, float]:
    """The epochs that are drawn before the end, the time that takes, and the time of the run."""
    clock = Clock()
    schedule, found, spent = Schedule(None, clock), [], 0.0
    for epoch in range(epochs):
        clock.now += seconds_of_an_epoch
        if schedule.is_due(epoch):
            with schedule.drawing():
                clock.now += seconds_of_a_drawing
            spent += seconds_of_a_drawing
            found.append(epoch + 1)
    return found, spent, clock.now


def test_epochs_are_spaced_out_where_there_is_time():
    assert drawn(60, 0.5, 20)[0] == [1, 2, 4, 8, 16]


@pytest.mark.parametrize("epoch", [0.01, 0.3, 2.0, 11.0])
@pytest.mark.parametrize("drawing", [0.1, 0.45])
def test_drawing_takes_a_twentieth_of_the_time_at_most(epoch: float, drawing: float):
    for epochs in (1, 2, 3, 5, 9, 300):
        found, spent, run = drawn(epoch, drawing, epochs)
        assert not found or spent + drawing <= SHARE * (run + drawing), "with what is drawn at the end"
        assert all(number & (number - 1) == 0 for number in found)


def test_a_short_run_is_drawn_at_its_end_alone():
    assert drawn(0.3, 1.0, 3)[0] == []


def test_every_n_th_epoch_is_drawn_whatever_it_takes():
    schedule = Schedule(3)
    assert [epoch for epoch in range(9) if schedule.is_due(epoch)] == [2, 5, 8]


def test_by_default_validation_is_drawn_once_in_a_short_run_and_training_never(tmp_path):
    class Both(Trained):
        def training_step(self, batch, number):
            self.of_training.update(self(batch[0]), batch[1])
            return super().training_step(batch, number)

        def __init__(self) -> None:
            super().__init__()
            self.of_training = self.evaluation.clone(prefix="train/")

    fit(tmp_path, Both(), report=TensorBoardReport())
    assert {tag.partition("/")[0] for tag in events(tmp_path).Tags()["images"]} == {"val"}
    assert len(image_steps(tmp_path, "val/roc")) == 1


def test_an_unknown_stage_is_refused():
    with pytest.raises(DeclarationError, match="'valid' in stages is not known: did you mean 'val'"):
        TensorBoardReport(stages=["valid"])


# ---- snapshots


@pytest.mark.parametrize("curves", [True, False])
def test_a_snapshot_reads_its_counts_and_changes_nothing(curves: bool):
    """It holds the totals themselves: those of curves are megabytes, and copies of them took longer than drawing."""
    evaluation = MulticlassEvaluation("logits", 3, curves=curves, confusion_matrix=True, zero_division=0.0)
    scores, target = torch.eye(3).repeat(20, 1), torch.arange(60) % 3
    evaluation.update(scores, target)
    expected = evaluation.compute()
    snapshot = Snapshot("val/", "", "", 0, evaluation, evaluation.tally.global_totals)
    evaluation.reset()
    evaluation.update(scores, (target + 1) % 3)
    now = evaluation.compute()
    counted = snapshot.counted
    assert counted.tally.sync_on_compute is False
    assert counted.tally.totals.integers is snapshot.totals.integers
    assert counted.confusion_matrix.tolist() == [[20, 0, 0], [0, 20, 0], [0, 0, 20]]
    assert {name: float(value) for name, value in counted.compute().items()} == expected
    assert "are equal" in explanation(counted)
    assert counted.tally.counter is evaluation.tally.counter
    assert evaluation.tally.sync_on_compute is True
    assert {name: float(value) for name, value in evaluation.compute().items()} == now
    assert evaluation.confusion_matrix.diagonal().sum() == 0
