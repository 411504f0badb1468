"""Batches of tensors in memory: slices of whole tensors, where a DataLoader would collect single rows."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import torch
from torchmetrics.utilities import rank_zero_warn

from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.ranks import rank_and_world_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor


class Order:
    """The order of rows in an epoch; Lightning calls ``set_epoch`` on a loader's ``sampler``."""

    def __init__(self, rows: int, shuffle: bool, seed: int) -> None:
        self.rows, self.shuffle, self.seed, self.epoch = rows, shuffle, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the shuffle of this epoch: the same for all ranks, and after a restart."""
        self.epoch = epoch

    def mine(self) -> Tensor | None:
        """The rows of this rank, in order; None for all rows unchanged."""
        rank, ranks = rank_and_world_size()
        if not self.shuffle:
            return None if ranks == 1 else torch.arange(self.rows)[rank::ranks]
        generator = stream("order", self.seed, self.epoch)
        order = torch.randperm(self.rows, generator=generator)
        if self.rows % ranks:  # a rank without a row to train on would keep the others waiting
            order = torch.cat((order, order.repeat(ranks)[: -self.rows % ranks]))
        return order if ranks == 1 else order[rank::ranks]


class TensorLoader:
    """Batches of rows from tensors of one length, on the device where they are.

    Every rank gets its own rows and the same number of batches. Shuffled rows are for training: some are repeated if
    they cannot be shared evenly. Rows in order are for evaluation: each is yielded exactly once across ranks, so the
    last batch of a rank may be empty. A checkpoint from the middle of an epoch stores the loader's position, and a
    resumed training continues there.

    >>> loader = TensorLoader((torch.arange(5),), batch_size=2)
    >>> [batch[0].tolist() for batch in loader]
    [[0, 1], [2, 3], [4]]
    """

    batch_sampler = None  # Lightning expects both attributes, as a DataLoader has them
    read_by: Any = None  # the trainer knows which batches are done; without one, all yielded ones are

    def __init__(self, tensors: tuple[Tensor, ...], batch_size: int, shuffle: bool = False, seed: int = 0) -> None:
        lengths = [len(tensor) for tensor in tensors]
        if batch_size < 1 or len(set(lengths)) != 1:
            raise DeclarationError(
                f"expected a batch_size of at least 1 and tensors of one length, got {batch_size} and {lengths}."
            )
        self.tensors, self.batch_size, self.order = tensors, batch_size, Order(lengths[0], shuffle, seed)
        if shuffle:
            self.sampler = self.order  # on which Lightning calls set_epoch
        self._given, self._resumed = 0, dict[str, int]()

    def __len__(self) -> int:
        return -(-self.order.rows // (rank_and_world_size()[1] * self.batch_size))

    def batch(self, tensors: tuple[Tensor, ...]) -> Any:
        """Return the batch of some rows."""
        return tensors

    def __iter__(self) -> Iterator[Any]:
        rows = self.order.mine()
        if rows is not None:
            rows = rows.to(self.tensors[0].device)
        for batch in range(self._first(), len(self)):
            self._given, first = batch + 1, batch * self.batch_size
            if rows is None:
                yield self.batch(tuple(tensor[first : first + self.batch_size] for tensor in self.tensors))
            else:
                chosen = rows[first : first + self.batch_size]
                yield self.batch(tuple(tensor[chosen] for tensor in self.tensors))

    # ---- resuming mid-epoch: Lightning saves and loads the state of loaders that have one

    def state_dict(self) -> dict[str, int]:
        """Return the position, which is the same on all ranks, and the settings it depends on."""
        return {"epoch": self.order.epoch, "batches_done": self._done(), **self._sharing()}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Start the next iteration at the saved position, if it is of the same epoch."""
        self._resumed = dict(state_dict)
        self.order.epoch = state_dict["epoch"]  # a batch may be fetched before Lightning sets the epoch

    def _done(self) -> int:
        """The number of batches of an epoch that are done; 0 if the epoch is over, as the next one begins.

        More may have been yielded: a batch in progress, or a prefetched one.
        """
        done = self._given
        if self.read_by is not None:
            progress = self.read_by.fit_loop.epoch_loop.batch_progress
            over = progress.is_last_batch and progress.current.ready == progress.current.processed
            done = 0 if over else progress.current.processed
        return done % max(len(self), 1)  # next to a longer loader, this one is read several times

    def _first(self) -> int:
        """The batch to begin with."""
        resumed, self._resumed = self._resumed, {}
        if resumed.get("epoch") != self.order.epoch:
            return 0
        sharing = self._sharing()
        changed = [f"{name}={resumed[name]}, now {sharing[name]}" for name in sharing if resumed[name] != sharing[name]]
        if changed:
            rank_zero_warn(
                f"{type(self).__name__} begins epoch {self.order.epoch} anew: the checkpoint was saved within it with "
                f"{'; '.join(changed)}. Some rows are given twice or not at all: resume with the same, or from the end "
                "of an epoch."
            )
        return 0 if changed else resumed["batches_done"]

    def _sharing(self) -> dict[str, int]:
        """The settings that decide which rows are in a batch."""
        order = self.order
        return {
            "rows": order.rows,
            "batch_size": self.batch_size,
            "shuffle": int(order.shuffle),
            "seed": order.seed,
            "processes": rank_and_world_size()[1],
        }


def stream(*name: int | str, device: torch.device | str = "cpu") -> torch.Generator:
    """A separate random stream for every name; torch reads 32 bits of a seed, so names are hashed to 32 bits."""
    mixed = sha256(repr(name).encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(mixed[:4], "big"))
