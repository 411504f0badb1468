"""Where the log loss of an epoch comes from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.counts.profile import ProfileCounter
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.inputs import Binary, Inputs, Multiclass, Multilabel
from lightning_evalkit.inputs.declaration import names_given, refuse_large
from lightning_evalkit.inputs.numbers import checked_share, listed
from lightning_evalkit.metrics.hardest import Hard, Hardest
from lightning_evalkit.state import Tally
from lightning_evalkit.statistics.profile import Profile, profile_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor
    from torchmetrics import Metric

    from lightning_evalkit.counts import Totals
    from lightning_evalkit.inputs import Declaration

Ignored = int | tuple[int, ...] | None


class LossProfile(Tally):
    """Which samples carry a log loss, how confident they are, and how much a temperature would reduce it.

    The problem is binary, unless ``num_classes`` or ``num_labels`` is given. ``compute`` returns the mean loss, that of
    each class, the share of the ``worst`` samples, and the split of the loss into ``refinement`` (the loss at the best
    ``temperature``) and ``calibration`` (the rest). ``profile()`` also has the histogram of losses, ``hardest()`` the
    samples with the largest losses. Memory does not grow with the data; the sums of all ranks take one collective, the
    hardest samples another.

    >>> profile = LossProfile(worst=0.25, hardest=1)
    >>> profile.update(torch.tensor([3.0, 2.0, -1.0, -6.0]), torch.tensor([1, 1, 0, 1]))
    >>> {name: round(float(value), 3) for name, value in profile.compute().items()}  # doctest: +NORMALIZE_WHITESPACE
    {'loss': 1.623, 'loss/no': 0.313, 'loss/yes': 2.059, 'loss_of_worst': 0.925, 'loss_of_wrong': 0.925,
     'refinement': 0.699, 'calibration': 0.924, 'temperature': 16.0}
    >>> profile.hardest()[0].sample
    3
    """

    higher_is_better = False
    counter: ProfileCounter
    without_counts = "losses are added up, not counted: an evaluation has counts."
    own_states = ("own",)

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        inputs: Inputs = "logits",
        worst: float = 0.01,
        hardest: int = 10,
        class_names: Sequence[str] | None = None,
        ignore_index: Ignored = None,
        weighted: bool = False,
        **kwargs: Any,
    ) -> None:
        worst = checked_share("worst, a share of the samples,", worst, above=True)
        if not isinstance(hardest, int) or isinstance(hardest, bool) or hardest < 1:
            raise DeclarationError(f"expected hardest to be a number of samples of at least 1, got {hardest!r}.")
        counter = ProfileCounter(_task(num_classes, num_labels, inputs, ignore_index, weighted))
        refuse_large(counter.layout.reals.width, f"{counter.groups:,} classes or labels")
        usual = tuple(map(str, range(counter.groups))) if counter.is_multiclass or counter.labels else ("no", "yes")
        names = _named(class_names, usual)
        counter.task = replace(counter.task, names=names_given(names, usual))
        super().__init__(counter, **kwargs)
        self.worst, self.names = worst, names
        # A stock MetricCollection updates only the first of metrics with equal states, so the hardest samples of
        # the others would not be updated: this state equals no other.
        self.add_state("own", torch.tensor(torch.nan), dist_reduce_fx="sum")
        kwargs.pop("compute_with_cache", None)
        self._hardest = Hardest(hardest, **kwargs)

    def update(  # type: ignore[override]
        self,
        preds: Tensor,
        target: Tensor,
        indices: Tensor | None = None,
        sample_weight: Tensor | None = None,
    ) -> None:
        """Add a batch; ``indices`` are the numbers of its samples in the data, by default as they come."""
        if indices is not None and indices.shape != target.shape[:1]:
            raise DeclarationError(
                f"expected an index for each of {target.shape[:1].numel()} samples, got {tuple(indices.shape)}."
            )
        if indices is not None and indices.device != target.device:
            raise InputError(f"expected indices on the device of target, got {indices.device} and {target.device}.")
        super().update(preds, target, sample_weight)
        every = self.counter.elements(preds, target, sample_weight)
        shape = target.shape[:1].numel(), target.shape[1:].numel()  # a single element has no length
        loss, group, used = (part.view(shape) for part in (every.loss, every.group, every.weight > 0))
        self._hardest.update(loss, group, used, indices)

    def value_of(self, totals: Totals) -> dict[str, Tensor]:
        """The numbers, each a scalar."""
        found = profile_of(self.counter.sums(totals), self.names, self.worst)
        values = {
            "loss": found.loss,
            **{f"loss/{name}": value for name, value in found.by_class.items()},
            "loss_of_worst": found.of_worst,
            "loss_of_wrong": found.of_wrong,
            "refinement": found.refinement,
            "calibration": found.calibration,
            "temperature": found.temperature,
        }
        return {name: torch.tensor(value, dtype=torch.float32, device=self.device) for name, value in values.items()}

    def profile(self) -> Profile:
        """The whole profile of the losses over all ranks."""
        self.compute()  # raises if samples were not as declared
        return profile_of(self.counter.sums(self.global_totals), self.names, self.worst)

    def hardest(self) -> list[Hard]:
        """The samples with the largest losses over all ranks, from the largest down."""
        found: list[Hard] = self._hardest.compute()
        return found

    # ---- both states

    def reset(self) -> None:
        """Forget all samples."""
        super().reset()
        self._hardest.reset()

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the losses of another profile of the same declaration."""
        if not isinstance(incoming_state, LossProfile):
            raise DeclarationError(f"expected another LossProfile, got {type(incoming_state).__name__}.")
        super().merge_state(incoming_state)
        self._hardest.merge_state(incoming_state._hardest)

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> LossProfile:
        super()._apply(fn)
        self._hardest._apply(fn, *args, **kwargs)
        return self

    def persistent(self, mode: bool = False) -> None:
        """Whether ``state_dict`` holds both."""
        super().persistent(mode)
        self._hardest.persistent(mode)


def _named(given: Sequence[str] | None, usual: Sequence[str]) -> list[str]:
    names = list(usual if given is None else listed("class_names", given))
    if len(names) != len(usual) or len({*names}) < len(names):
        raise DeclarationError(f"expected {len(usual)} different class_names, got {names}.")
    return names


def _task(
    num_classes: int | None, num_labels: int | None, inputs: Inputs, ignored: Ignored, weighted: bool
) -> Declaration:
    if num_classes is not None and num_labels is not None:
        raise DeclarationError("expected num_classes or num_labels, got both.")
    if inputs not in ("logits", "probabilities"):
        raise DeclarationError(f"expected inputs='logits' or 'probabilities', as labels have no loss, got {inputs!r}.")
    if num_classes is not None:
        return Multiclass(inputs, ignored, weighted, num_classes=num_classes)
    if isinstance(ignored, tuple):
        raise DeclarationError(f"expected ignore_index to be None or one integer, got {ignored!r}.")
    if num_labels is not None:
        return Multilabel(inputs, ignored, weighted, num_labels=num_labels)
    return Binary(inputs, ignored, weighted)
