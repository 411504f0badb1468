"""This process among all processes of a run."""

from __future__ import annotations

import torch


def rank_and_world_size() -> tuple[int, int]:
    """The number of this process and the number of processes; (0, 1) outside of a distributed run."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1
