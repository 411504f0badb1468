"""What ExactResume does with signals when a process of several fails."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from lightning.pytorch import Trainer
from lightning.pytorch.trainer.connectors.signal_connector import _HandlersCompose

from lightning_evalkit.callbacks import ExactResume, exact_resume

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A call of the hook in one of two processes, and the handler of SIGTERM as it was."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(exact_resume, "can_save_alone", lambda trainer: True)
    monkeypatch.setattr(exact_resume, "save_alone", lambda trainer, alone: None)
    trainer: Any = SimpleNamespace(world_size=2)
    module: Any = None
    yield lambda: ExactResume().on_exception(trainer, module, RuntimeError())
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("own", [signal.SIG_DFL, signal.SIG_IGN, lambda number, frame: None])
def test_handlers_that_lightning_does_not_take_away_are_left_alone(failing: Any, own: Any):
    signal.signal(signal.SIGTERM, own)
    failing()
    assert signal.getsignal(signal.SIGTERM) == own


def test_lightning_hears_of_sigterm_only_after_the_time_for_saving(failing: Any, monkeypatch: pytest.MonkeyPatch):
    heard: list[int] = []
    signal.signal(signal.SIGTERM, _HandlersCompose([lambda number, frame: heard.append(number)]))
    now = [0.0]
    monkeypatch.setattr(exact_resume, "monotonic", lambda: now[0])
    failing()
    os.kill(os.getpid(), signal.SIGTERM)
    assert heard == []
    now[0] = exact_resume.GRACE + 1
    os.kill(os.getpid(), signal.SIGTERM)
    assert heard == [signal.SIGTERM]


def test_a_run_of_lightning_leaves_the_handler_as_it_was(failing: Any):
    """The handlers are Lightning's while it runs, and are restored when it has ended."""
    trainer = Trainer(logger=False, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu")
    own = lambda number, frame: None  # noqa: E731
    signal.signal(signal.SIGTERM, own)
    trainer._signal_connector.register_signal_handlers()
    failing()
    assert signal.getsignal(signal.SIGTERM) is not own
    trainer._signal_connector.teardown()
    assert signal.getsignal(signal.SIGTERM) is own
