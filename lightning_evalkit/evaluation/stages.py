"""One evaluation for each stage and dataloader, all of one declaration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from lightning_evalkit.errors import InputError
from lightning_evalkit.ranks import rank_and_world_size
from lightning_evalkit.state import checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch
    from torch import Tensor

    from lightning_evalkit.evaluation.base import Evaluation

Stage = Literal["train", "val", "test"]
STAGES: tuple[str, ...] = get_args(Stage)


class StageEvaluations(Mapping[str, "Evaluation"]):
    """Copies of an evaluation by address, as "val.0"; they report under the name of their stage."""

    def __init__(self, declared: Evaluation, stages: Sequence[str]) -> None:
        self._declared = declared
        self._by_stage: dict[str, list[Evaluation]] = {stage: [] for stage in stages}
        for stage in stages:
            self._arrange(stage, 1)

    def __iter__(self) -> Iterator[str]:
        return iter([f"{stage}.{place}" for stage, kept in self._by_stage.items() for place in range(len(kept))])

    def __len__(self) -> int:
        return sum(map(len, self._by_stage.values()))

    def __getitem__(self, address: str) -> Evaluation:
        stage, _, place = address.partition(".")
        return self._by_stage[stage][int(place)]

    def of(self, stage: str) -> list[Evaluation]:
        """The evaluations of a stage, one per dataloader; empty if the stage is not evaluated."""
        return self._by_stage.get(stage, [])

    def at(self, stage: str, dataloader_idx: int) -> Evaluation:
        """The evaluation of a stage and dataloader."""
        if stage not in self._by_stage:
            raise InputError(f"expected an evaluated stage, {' or '.join(map(repr, self._by_stage))}, got {stage!r}.")
        kept = self._by_stage[stage]
        if not 0 <= dataloader_idx < len(kept):
            raise InputError(f"expected one of {len(kept)} dataloaders, got dataloader_idx={dataloader_idx}.")
        return kept[dataloader_idx]

    # ---- epochs

    def begin(self, stage: str, loaders: int, device: torch.device) -> None:
        """Start an epoch without counts, on the module's device."""
        if stage in self._by_stage:
            self._arrange(stage, loaders)
            self.move(stage, device)
            self.reset(stage)

    def move(self, stage: str, device: torch.device) -> None:
        """Move to the module's device."""
        for each in self.of(stage):
            each.to(device)

    def reset(self, stage: str) -> None:
        """Forget all counts."""
        for each in self.of(stage):
            each.reset()

    def _arrange(self, stage: str, loaders: int) -> None:
        """Have one evaluation per loader, with Lightning's suffix if there are several."""
        kept = self._by_stage[stage]
        del kept[loaders:]
        while len(kept) < loaders:
            kept.append(self._declared.clone(prefix=f"{stage}/{self._declared.prefix or ''}"))
            kept[-1].reset()
            kept[-1].persistent(True)
        for place, each in enumerate(kept):
            suffix = f"/dataloader_idx_{place}" if loaders > 1 else ""
            each.postfix = f"{self._declared.postfix or ''}{suffix}"

    # ---- checkpoints: one file for all ranks, so it holds their sum, from which the first rank resumes

    def saved(self) -> dict[str, Tensor]:
        """Return the counts of all ranks, without empty evaluations; every rank must call it."""
        state: dict[str, Tensor] = {}
        for address, each in self.items():
            with each.tally.sync_context(should_sync=each.tally.sync_on_compute):
                if each.tally.update_called:
                    state.update(each.state_dict(prefix=f"{address}."))
        return {key: entry.cpu().to_sparse() for key, entry in state.items()}  # most bins are empty

    def load(self, state: Mapping[str, Any]) -> None:
        """Resume from saved counts; refuse those of another declaration."""
        for stage in self._by_stage:
            self.reset(stage)
        entries = {key: entry.to_dense() for key, entry in state.items()}
        for stage, place in sorted({(stage, int(place)) for stage, place, _ in (key.split(".") for key in state)}):
            self._arrange(stage, max(place + 1, len(self._by_stage[stage])))
            tally = self._by_stage[stage][place].tally
            totals = checkpoint.unpack(entries, f"{stage}.{place}.", tally.counter)
            if rank_and_world_size()[0] == 0:
                tally.load_totals(totals)
