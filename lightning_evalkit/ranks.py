"""This process among all processes of a run."""

from __future__ import annotations

import os
import warnings

import torch


def rank_and_world_size() -> tuple[int, int]:
    """The number of this process and the number of processes; (0, 1) outside of a distributed run."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def warn_on_rank_zero(message: str) -> None:
    """Warn on the first process only, also before they are connected; for parts that must not import torchmetrics."""
    if rank_and_world_size()[0] == 0 and int(os.environ.get("LOCAL_RANK", 0)) == 0:
        warnings.warn(message, UserWarning, stacklevel=3)
