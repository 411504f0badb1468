"""The samples with the largest losses: a table of fixed size that can be merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torchmetrics import Metric

from lightning_evalkit.counts import real_dtype
from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.inputs.declaration import refuse_large
from lightning_evalkit.ranks import rank_and_world_size
from lightning_evalkit.state.synchronise import gathered
from lightning_evalkit.state.unscripted import Unscripted

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


class Hard(NamedTuple):
    """A sample: its number in the data, its loss, its true class or label, and the probability given to that."""

    sample: int
    loss: float
    group: int
    chance: float


class Hardest(Unscripted, Metric):
    """Keeps the k samples with the largest losses, on the device; ranks are gathered by one collective."""

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    table: Tensor
    seen: Tensor

    def __init__(self, k: int, **kwargs: Any) -> None:
        # Merging would leave a cache unchanged.
        super().__init__(compute_with_cache=False, **{"dist_sync_fn": gathered, **kwargs})
        self.k = k
        refuse_large(3 * k, f"the {k:,} hardest samples")
        empty = torch.full((k, 3), -torch.inf, dtype=real_dtype(self._device))
        self.add_state("table", empty, dist_reduce_fx=self._merged)  # loss, number, group
        self.add_state("seen", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, losses: Tensor, groups: Tensor, used: Tensor, indices: Tensor | None) -> None:
        """Look at a batch, elements of a sample in one row; without indices, samples are numbered as they come.

        On several ranks they are numbered in turns, as a distributed sampler or our loader yields them.
        """
        if indices is None:
            rank, ranks = rank_and_world_size()
            indices = (self.seen + torch.arange(len(losses), device=losses.device)) * ranks + rank
        self.seen = self.seen + len(losses)
        numbers = indices.reshape(-1, *[1] * (losses.ndim - 1)).expand(losses.shape)
        kept = torch.where(used, losses.to(self.table.dtype), -torch.inf)
        rows = torch.stack([part.flatten().to(self.table.dtype) for part in (kept, numbers, groups)], -1)
        self.table = self._merged(torch.stack((self.table, *self._parts(rows))))

    def _parts(self, rows: Tensor) -> list[Tensor]:
        """The largest of a batch in the form of the table."""
        missing = self.table.new_full((self.k, 3), -torch.inf)
        return [self._largest(torch.cat((rows, missing)))]

    def _merged(self, tables: Tensor) -> Tensor:
        return self._largest(tables.flatten(0, -2))

    def _largest(self, rows: Tensor) -> Tensor:
        places = rows.select(-1, 0).topk(self.k).indices
        return rows.index_select(0, places)

    @property
    def update_called(self) -> bool:
        """Always true: a rank without samples takes part too, and the profile reports if nothing was counted."""
        return True

    def compute(self) -> list[Hard]:
        """The samples from the largest loss down; fewer if there are fewer samples."""
        rows = [row for row in self.table.tolist() if row[0] > -torch.inf]
        return [Hard(int(number), loss, int(group), _chance(loss)) for loss, number, group in rows]

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> Hardest:
        """Follow a move to another device, never a cast: numbers of samples are exact."""
        device = fn(torch.empty(0, dtype=torch.int64, device=self._device)).device
        moved = super()._apply(lambda tensor: tensor.to(device), *args, **kwargs)
        assert isinstance(moved, Hardest)
        return moved

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Refuse a table of another size."""
        found = len(state_dict.get(f"{prefix}table", self.table))
        if found != self.k:
            raise DeclarationError(
                f"the state holds the {found} hardest samples, not {self.k}: declare hardest={found}."
            )
        super()._load_from_state_dict(state_dict, prefix, *args)

    def set_dtype(self, dst_type: str | torch.dtype) -> Hardest:
        """Do nothing: losses and numbers keep their precision."""
        return self


def _chance(loss: float) -> float:
    return float(torch.tensor(-loss, dtype=torch.float64).exp())
