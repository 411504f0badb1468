"""A trainer on the CPU that prints, logs and saves nothing, unless a test says otherwise."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, Trainer

QUIET: dict[str, Any] = {
    "accelerator": "cpu",
    "logger": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "enable_checkpointing": False,
}


def quiet_trainer(*callbacks: Callback, **options: Any) -> Trainer:
    return Trainer(**{**QUIET, "callbacks": [*callbacks], **options})
