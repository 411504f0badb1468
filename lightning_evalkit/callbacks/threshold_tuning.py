"""Chooses a threshold on validation, and applies it in test and prediction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torchmetrics.utilities import rank_zero_warn

from lightning_evalkit.callbacks.parts.correction import Correction, LogitWatch
from lightning_evalkit.callbacks.parts.decisions import Decisions
from lightning_evalkit.callbacks.parts.fitted_on_validation import FittedOnValidation
from lightning_evalkit.callbacks.parts.method_patch import MethodPatches
from lightning_evalkit.callbacks.parts.step_outputs import StepOutputs
from lightning_evalkit.callbacks.parts.tuned import checked_tuning, ending_of, shown_names, tuning_table
from lightning_evalkit.callbacks.parts.weighing import is_weighted
from lightning_evalkit.errors import InputError
from lightning_evalkit.evaluation import BinaryEvaluation, MultilabelEvaluation
from lightning_evalkit.evaluation.curve_panels import thresholds as threshold_panel
from lightning_evalkit.evaluation.readouts import OneTable
from lightning_evalkit.evaluation.score_snapshot import score_snapshot
from lightning_evalkit.inputs.threshold import logit_of, parsed, plain_of
from lightning_evalkit.sinks.panels import Line, Panel
from lightning_evalkit.statistics import SCORE_STATISTICS
from lightning_evalkit.statistics.thresholds import best_threshold, mean_cost
from lightning_evalkit.trainer import callbacks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lightning_evalkit.counts import Counts
    from lightning_evalkit.evaluation.base import Evaluation
    from lightning_evalkit.statistics.thresholds import Choice
    from lightning_evalkit.trainer import LightningModule, Trainer

TAG = "val/threshold_tuning"
TUNED = "@tuned"


class ThresholdTuning(FittedOnValidation):
    """Chooses the threshold of a binary problem, or one for each label, on validation, for test and prediction.

    ``evaluation`` declares the inputs and the reported statistics. The chosen threshold maximises ``criterion`` (any
    statistic, such as "f2" or "informedness") or minimises the ``costs`` of errors ({"fp": 1, "fn": 20}). ``at_least``
    restricts the choice to thresholds where other statistics reach a bound: criterion "precision" with at_least
    {"recall": 0.9} is precision at recall. Validation logs ``val/threshold``; test counts at both thresholds and logs,
    for instance, ``test/f1@0.5`` and ``test/f1@tuned``. Prediction returns a dict of the module's output and "labels";
    ``predicts`` says whether that output is probabilities or logits. Steps return what ``Evaluate`` expects.

    >>> tuning = ThresholdTuning(BinaryEvaluation(inputs="logits"), costs={"fp": 1, "fn": 20})
    >>> tuning.threshold is None  # until a validation epoch has ended
    True
    """

    def __init__(
        self,
        evaluation: BinaryEvaluation | MultilabelEvaluation,
        criterion: str = "f1",
        costs: dict[str, float] | None = None,
        at_least: dict[str, float] | None = None,
        predicts: Literal["probabilities", "logits"] = "probabilities",
        preds_key: str | None = None,
        target_key: str = "target",
        weight_key: str | None = "sample_weight",
        take: Callable[[Any, Any], Any] | None = None,
        dataloader_idx: int = 0,
    ) -> None:
        task = checked_tuning(evaluation, criterion, costs, at_least, predicts)
        weighted = True if task.weighted else None if weight_key is not None else False
        outputs = StepOutputs(task.inputs, task.weighted, preds_key, target_key, weight_key, take, type(self).__name__)
        super().__init__(outputs, weighted, dataloader_idx)
        self.criterion, self.costs, self.at_least, self.predicts = criterion, costs, at_least, predicts
        self.evaluation = evaluation.replace(curves=True, prefix="val/", threshold=evaluation.threshold)
        self.default = tuple(task.thresholds)
        self.threshold: float | list[float] | None = None
        self._corrections: list[Correction] = []  # applied in test and prediction, not in validation
        self._watch: LogitWatch | None = None
        self._counted: dict[str, Evaluation] = {}  # in test, by the suffix of their names
        self._patches = MethodPatches()

    @property
    def learnt(self) -> bool:
        return self.threshold is not None

    # ---- choosing

    def begin(self, module: LightningModule) -> None:
        self.evaluation.to(module.device).reset()

    def weighs(self, trainer: Trainer, module: LightningModule) -> bool:
        """Whether the evaluation is weighted; refuse weights of the module that it would ignore."""
        if self.weighted is None and is_weighted(module):
            raise InputError(self._outputs.untold(f"{type(module).__name__} counts with weights"))
        return super().weighs(trainer, module)

    def count(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> None:
        self.evaluation.update(preds, target, sample_weight)

    def learn(self, trainer: Trainer, module: LightningModule) -> dict[str, float]:
        scores = self.evaluation._scores()
        choice = best_threshold(scores, self.criterion, self.costs, self.at_least)
        chosen = self._possible(choice)
        self.threshold = chosen[0] if isinstance(self.evaluation, BinaryEvaluation) else chosen
        values = self._of_validation(choice, chosen)
        self.show(trainer, TAG, {TAG: self._panel(chosen)}, tuning_table(values))
        return values

    def _possible(self, choice: Choice) -> list[float]:
        """The chosen thresholds; labels without a possible one keep their own."""
        names, chosen = self.evaluation.curve_names(), choice.thresholds
        missing = [name for name, cut in zip(names, chosen, strict=True) if cut != cut]
        if len(missing) == len(names):
            raise InputError(f"no threshold can be chosen on validation: {self._reason(choice)}.")
        if missing:
            rank_zero_warn(
                f"the labels {', '.join(missing)} keep their threshold: {self._reason(choice)}.", UserWarning
            )
        usual = self.default * (len(chosen) // len(self.default))
        return [own if cut != cut else cut for own, cut in zip(usual, chosen, strict=True)]

    def _reason(self, choice: Choice) -> str:
        scores = self.evaluation._scores()
        yes, no = (part.sum(-1).cpu()[choice.threshold.isnan().cpu()] for part in (scores.yes, scores.no))
        if not bool((yes * no).all()):
            found = f"{float(yes.sum()):g} positive and {float(no.sum()):g} negative ones"
            return f"it needs samples of both classes, and validation has {found}"
        return f"nowhere are {self.at_least} reached"

    def _of_validation(self, choice: Choice, chosen: list[float]) -> dict[str, float]:
        names, best = self.evaluation.curve_names(), "cost" if self.costs else self.criterion
        ends = [f"/{name}" if name else "" for name in names]
        values = {f"val/threshold{end}": float(cut) for end, cut in zip(ends, chosen, strict=True)}
        if choice.logits:  # a probability near 1 says little about them
            values |= {f"val/threshold_logit{end}": logit_of(cut) for end, cut in zip(ends, chosen, strict=True)}
        if not isinstance(self.evaluation, BinaryEvaluation):
            return values | {f"val/{best}/macro{TUNED}": float(choice.value.nanmean())}
        values[f"val/{best}{TUNED}"] = float(choice.value[0])
        at = {ending_of(self.default[0]): self.evaluation.counts, TUNED: self.evaluation.at_threshold(chosen[0])}
        for _, entry in self.evaluation._entries():
            if isinstance(readout := entry.readout, OneTable):
                for ending, counts in at.items():
                    value = readout.statistic(counts.real()).value(entry.zero_division)
                    values[f"val/{entry.name}{ending}"] = float(value)
        return {**self._costs("val", at), **values}

    def _costs(self, stage: str, counted: Mapping[str, Counts]) -> dict[str, float]:
        """The mean cost of a sample at each threshold, averaged over labels."""
        name = "cost" if isinstance(self.evaluation, BinaryEvaluation) else "cost/macro"
        return {
            f"{stage}/{name}{ending}": float(mean_cost(counts, self.costs).nanmean())
            for ending, counts in counted.items()
            if self.costs
        }

    def _panel(self, chosen: list[float]) -> Panel:
        """A panel of F1 over the threshold that marks the chosen one."""
        kept = score_snapshot(self.evaluation)
        assert kept is not None  # curves are kept
        panel = threshold_panel(replace(kept, declared=()), self.costs)
        cuts = [float(cut) for cut in chosen]
        said = f"chosen: {cuts[0]:.4g}" if len(cuts) == 1 else "chosen"
        marks = [Line((cut, cut), (0, 1), "" if place else said, "dashed") for place, cut in enumerate(cuts)]
        return panel._replace(lines=[*panel.lines, *marks])

    # ---- applying

    def on_test_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Count at the usual and at the chosen threshold."""
        self.insist("apply a threshold in test")
        self._begin_deciding(trainer)
        usual = self.evaluation.threshold
        ending = ending_of(usual) if isinstance(usual, (int, float)) else "@default"
        curveless = [
            name for name in self.evaluation.keys(keep_base=True) if name.partition("/")[0] not in SCORE_STATISTICS
        ]
        self._counted = {
            end: self.evaluation.replace(
                prefix="test/", postfix=end, inputs=inputs, curves=False, resolution=None, statistics=curveless
            ).to(pl_module.device)
            for end, inputs in ((ending, self._outputs.inputs), (TUNED, "labels"))
        }

    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        loaders = len(trainer.num_test_batches)
        if loaders > 1 and dataloader_idx != self.place_among(loaders):  # a single one needs no choice
            return
        found = self._outputs.of(outputs, batch, f"test_step of {type(pl_module).__name__}")
        if found is not None:
            for ending, evaluation in self._counted.items():
                preds = self._decided(found[0], self._outputs.inputs) if ending == TUNED else found[0]
                evaluation.update(preds, *found[1:])

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for evaluation in self._counted.values():
            self.report(trainer, pl_module, evaluation.compute())
        costs = self._costs("test", {ending: each.counts for ending, each in self._counted.items()})
        self.report(trainer, pl_module, {name: torch.tensor(value) for name, value in costs.items()})

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Add labels to the module's predictions."""
        self.insist("apply a threshold in prediction")
        self._begin_deciding(trainer)
        if not self._corrections and self.predicts != self._outputs.inputs == "logits":
            self._watch = LogitWatch(pl_module)
        self._patches.place(
            pl_module, "predict_step", lambda step, *args, **kwargs: self._with_labels(step(*args, **kwargs))
        )

    def _begin_deciding(self, trainer: Trainer) -> None:
        """Find the corrections, such as a temperature, that test and prediction apply and validation does not."""
        callbacks: list[Any] = callbacks_of(trainer)
        self._corrections = [each for each in callbacks if isinstance(each, Correction) and not each.is_validated]
        self._decisions = self._deciding()

    def _deciding(self) -> Decisions:
        chosen = self.threshold if isinstance(self.threshold, (list, tuple)) else [self.threshold]
        return Decisions(chosen, self._outputs.inputs)  # type: ignore[arg-type]  # insisted on

    def _decided(self, scores: Tensor, kind: str) -> Tensor:
        """Label scores of test or prediction as validation would have labelled them."""
        source = self._corrections[0] if self._corrections else self._watch
        ways = [each.correction.to(scores.device) for each in self._corrections]
        return self._decisions.of(scores, kind, None if source is None else source.passed, ways)

    def _with_labels(self, predicted: Any) -> dict[str, Any]:
        result = dict(predicted) if isinstance(predicted, dict) else {self.predicts: predicted}
        scores = result.get(self.predicts)
        if not isinstance(scores, Tensor) or not scores.is_floating_point():
            raise InputError(
                f"expected predict_step to return {self.predicts} as a tensor, or a dict with the key "
                f"{self.predicts!r}, got {type(predicted).__name__}: say predicts='logits' if it returns those."
            )
        logits = result.get("logits")
        if isinstance(logits, Tensor) and logits.shape == scores.shape:  # they say more than probabilities
            return {**result, "labels": self._decided(logits, "logits")}
        return {**result, "labels": self._decided(scores, self.predicts)}

    def labels(self, scores: Tensor) -> Tensor:
        """Label probabilities, or logits if ``predicts`` says so, by the chosen threshold.

        The comparison uses the scores as validation would see them, without corrections that apply only in test.
        """
        self.insist("decide")
        return self._deciding().of(scores, self.predicts, None)

    def leave(self, trainer: Trainer) -> None:
        self._patches.remove()
        if self._watch is not None:
            self._watch.leave()
        self._watch, self._corrections = None, []
        super().leave(trainer)

    # ---- checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Return the chosen threshold and the labels it is for."""
        if self.threshold is None:
            return {}
        return {"threshold": plain_of(self.threshold), "labels": [*self.evaluation.curve_names()]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a chosen threshold; refuse one of other labels."""
        found, own = state_dict.get("labels"), [*self.evaluation.curve_names()]
        if found is not None and found != own:
            raise InputError(
                f"the checkpoint holds thresholds for {len(found)} labels ({shown_names(found)}), this ThresholdTuning "
                f"has {len(own)} ({shown_names(own)}): declare the same labels in the same order."
            )
        threshold = parsed(state_dict["threshold"]) if state_dict else None
        self.threshold = list(threshold) if isinstance(threshold, tuple) else threshold
