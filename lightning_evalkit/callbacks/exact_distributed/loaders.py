"""Decides which rows a rank reads.

A padded sampler gives rank r of W the positions r, r + W, … of one list that is padded to a multiple of W. So at most
one row of a rank is also another's, and it is the last. That row is removed from its batch. If it is alone in its batch
it stays, so that every rank has the same number of batches, and the number of that batch is noted.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, Sampler

from lightning_evalkit.trainer import padded_samplers

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTHING: Any = object()


class SplitRows(Sampler[Any]):
    """The rows of a rank without its last one, a repeat that becomes known once the sampler has been read."""

    def __init__(self, sampler: Any) -> None:
        self.sampler, self.repeat = sampler, NOTHING

    def __iter__(self) -> Iterator[Any]:
        self.repeat = NOTHING
        *own, last = self.sampler
        yield from own
        self.repeat = last
        yield last

    def __len__(self) -> int:
        return len(self.sampler)

    def set_epoch(self, epoch: int) -> None:
        """Pass the epoch on to the wrapped sampler."""
        self.sampler.set_epoch(epoch)

    @property
    def repeated(self) -> set[int]:
        """The numbers of the batches that are repeats, if every row is a batch."""
        return {len(self) - 1}


class Batches(Sampler[list[Any]]):
    """The batches of a rank without its repeat, and as many as with it."""

    def __init__(self, batches: Any) -> None:
        self.sampler = batches.sampler  # where Lightning sets the epoch
        self.rows, self.batches = SplitRows(batches.sampler), copy(batches)
        self.batches.sampler = self.rows
        self.repeated: set[int] = set()
        """The numbers of the batches that hold nothing but a repeat."""

    def __iter__(self) -> Iterator[list[Any]]:
        for number, batch in enumerate(self.batches):
            own = self._own([*batch])
            # Another iteration may be under way, to look at a batch: it finds the same, and nothing is forgotten.
            (self.repeated.discard if own else self.repeated.add)(number)
            yield own or batch

    def _own(self, batch: list[Any]) -> list[Any]:
        if self.rows.repeat in batch:
            batch.remove(self.rows.repeat)  # or its equal: what is counted is the same
            self.rows.repeat = NOTHING  # once, even if a batch sampler has read all rows before
        return batch

    def __len__(self) -> int:
        return len(self.batches)


def unknown(loader: Any) -> str | None:
    """Why repeats cannot be identified; None if they can."""
    if not isinstance(loader, DataLoader):
        # The TensorLoader of this package has an order, and gives every row once unless that is shuffled for training.
        shuffled = getattr(getattr(loader, "order", None), "shuffle", True)
        return "it is not a torch DataLoader, nor a TensorLoader with its rows in order" if shuffled else None
    if isinstance(loader.dataset, IterableDataset):
        return "which row an iterable data set gives to which rank is its own affair"
    sampler = sampler_of(loader)
    if not isinstance(sampler, DistributedSampler):
        return f"its {type(sampler).__name__} does not share out rows to ranks"
    # A sampler derived from those that share out rows in turn may do it in another way.
    if type(sampler).__iter__ not in _padded_orders():
        return f"how its {type(sampler).__name__} shares out rows to ranks is its own affair"
    return None


def without_repeat(loader: Any) -> Any:
    """Return a loader that gives every row to one rank; the given loader if it does so already."""
    if not isinstance(loader, DataLoader) or isinstance(loader.batch_sampler, Batches) or not _repeats(loader):
        return loader
    batches: Any = loader.batch_sampler
    by = {"sampler": SplitRows(loader.sampler)} if batches is None else {"batch_sampler": Batches(batches)}
    own = copy(loader)  # the given one is the user's
    vars(own).update(by, _iterator=None)  # a DataLoader refuses another sampler after its construction
    return own


def is_repeat(loader: Any, number: int) -> bool:
    """Whether a batch holds only a row that another rank has."""
    by = [getattr(loader, name, None) for name in ("sampler", "batch_sampler")]
    return any(isinstance(each, (SplitRows, Batches)) and number in each.repeated for each in by)


def _padded_orders() -> list[Any]:
    samplers: tuple[Any, ...] = (DistributedSampler, *padded_samplers())
    return [each.__iter__ for each in samplers]


def sampler_of(loader: DataLoader[Any]) -> Any:
    """The sampler that shares the rows of a loader among ranks."""
    batches: Any = loader.batch_sampler
    return loader.sampler if batches is None else getattr(batches, "sampler", batches)


def _repeats(loader: DataLoader[Any]) -> bool:
    sampler = sampler_of(loader)
    return bool(sampler.rank + (len(sampler) - 1) * sampler.num_replicas >= len(sampler.dataset))
