"""A threshold chosen on validation, and applied in test and prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from lightning.pytorch.trainer.states import RunningStage
from torch import Tensor
from torchmetrics.utilities import rank_zero_warn

from lightning_evalkit.callbacks.corrections import Correction
from lightning_evalkit.callbacks.curves import kept_scores
from lightning_evalkit.callbacks.panels import thresholds as threshold_panel
from lightning_evalkit.callbacks.standin import StandIns
from lightning_evalkit.callbacks.validated import Validated
from lightning_evalkit.errors import DeclarationError, InputError
from lightning_evalkit.evaluation import BinaryEvaluation, MultilabelEvaluation
from lightning_evalkit.evaluation.readings import At
from lightning_evalkit.sinks.figures import Line, Panel
from lightning_evalkit.statistics import SCORED, find
from lightning_evalkit.statistics.thresholds import best_threshold

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lightning.pytorch import LightningModule, Trainer

    from lightning_evalkit.evaluation.base import Evaluation
    from lightning_evalkit.statistics.thresholds import Choice

TUNED = "@tuned"


class ThresholdTuning(Validated):
    """Chooses the threshold of a binary problem, or one for each label, on validation, for test and prediction.

    ``evaluation`` declares what is predicted and what is reported. The threshold is the one at which ``criterion`` is
    best (any statistic, "f2" and "informedness" among them), or ``costs`` of errors least ({"fp": 1, "fn": 20}), among
    those where other statistics are ``at_least`` something: criterion "precision" with at_least {"recall": 0.9} is
    precision at recall. Validation logs ``val/threshold``; test counts at both thresholds, and logs for instance
    ``test/f1@0.5`` and ``test/f1@tuned``. In prediction, where the module gives ``predicts``, the result becomes a dict
    with "labels" beside what the module returned. Steps return what ``Evaluate`` expects of them.

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
        take: Callable[[Any, Any], Any] | None = None,
        dataloader_idx: int = 0,
    ) -> None:
        _check(evaluation, criterion, costs, at_least, predicts)
        task: Any = evaluation.tally.counter.task
        super().__init__(task.inputs, preds_key, target_key, take, dataloader_idx)
        self.criterion, self.costs, self.at_least, self.predicts = criterion, costs, at_least, predicts
        self.evaluation = evaluation.again(curves=True, prefix="val/", threshold=evaluation.threshold)
        self.default = tuple(task.thresholds)
        self.threshold: float | list[float] | None = None
        self._applied: Any = None
        self._counted: dict[str, Evaluation] = {}  # in test, by what stands behind the names
        self._stand_ins = StandIns()

    @property
    def learnt(self) -> bool:
        """Once chosen or loaded."""
        return self.threshold is not None

    # ---- choosing

    def begin(self, module: LightningModule) -> None:
        """Forget the last epoch."""
        self.evaluation.to(module.device).reset()

    def count(self, preds: Tensor, target: Tensor) -> None:
        """Count a batch."""
        self.evaluation.update(preds, target)

    def learn(self, trainer: Trainer, module: LightningModule) -> dict[str, float]:
        """Choose and draw."""
        scores = self.evaluation._scores()
        choice = best_threshold(scores, self.criterion, self.costs, self.at_least)
        chosen = self._possible(choice)
        self.threshold = chosen[0] if isinstance(self.evaluation, BinaryEvaluation) else chosen
        values = self._of_validation(choice, chosen)
        self.show(trainer, "val/threshold", [self._panel(chosen)], _table(values))
        return values

    def _possible(self, choice: Choice) -> list[float]:
        """The chosen thresholds; labels for which there is none keep their own."""
        names, chosen = self.evaluation.questions(), choice.threshold.tolist()
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
        names, best = self.evaluation.questions(), "cost" if self.costs else self.criterion
        values = {
            f"val/threshold/{name}" if name else "val/threshold": cut for name, cut in zip(names, chosen, strict=True)
        }
        if not isinstance(self.evaluation, BinaryEvaluation):
            return values | {f"val/{best}/macro{TUNED}": float(choice.value.nanmean())}
        values[f"val/{best}{TUNED}"] = float(choice.value[0])
        at = {f"@{self.default[0]:g}": self.evaluation.counts, TUNED: self.evaluation.at_threshold(chosen[0])}
        for _, entry in self.evaluation._entries():
            if isinstance(reading := entry.reading, At):
                for ending, counts in at.items():
                    value = reading.statistic(counts.real()).value(entry.zero_division)
                    values[f"val/{entry.name}{ending}"] = float(value)
        return values

    def _panel(self, chosen: list[float]) -> Panel:
        """F1 over the threshold, with the chosen one."""
        kept = kept_scores(self.evaluation)
        assert kept is not None  # curves are kept
        panel = threshold_panel(kept)
        marks = [Line((cut, cut), (0, 1), "" if place else "chosen", "dashed") for place, cut in enumerate(chosen)]
        return panel._replace(lines=[*panel.lines, *marks])

    # ---- applying

    def on_test_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Count at the usual and at the chosen threshold."""
        self.insist("apply a threshold in test")
        usual, self._applied = self.evaluation.threshold, self._behind_corrections(trainer)
        ending = f"@{usual:g}" if isinstance(usual, (int, float)) else "@default"
        curveless = [name for name in self.evaluation.keys(keep_base=True) if name.partition("/")[0] not in SCORED]
        self._counted = {
            end: self.evaluation.again(
                prefix="test/", postfix=end, threshold=cut, curves=False, resolution=None, statistics=curveless
            ).to(pl_module.device)
            for end, cut in ((ending, usual), (TUNED, self._applied))
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
        """Count a batch."""
        loaders = len(trainer.num_test_batches)
        if loaders > 1 and dataloader_idx != self.place_among(loaders):  # of one there is no choice
            return
        found = self._outputs.of(outputs, batch, f"test_step of {type(pl_module).__name__}")
        if found is not None:
            for evaluation in self._counted.values():
                evaluation.update(found[0], found[1])

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log both."""
        for evaluation in self._counted.values():
            self.report(trainer, pl_module, evaluation.compute())

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Put labels beside what the module predicts."""
        self.insist("apply a threshold in prediction")
        self._applied = self._behind_corrections(trainer)
        self._stand_ins.place(
            pl_module, "predict_step", lambda step, *args, **kwargs: self._with_labels(step(*args, **kwargs))
        )

    def _behind_corrections(self, trainer: Trainer) -> Any:
        """The threshold on what test and prediction see, where logits are corrected only there: temperatures."""
        cut = torch.tensor(self.threshold, dtype=torch.float64)
        for callback in trainer.callbacks:  # type: ignore[attr-defined]  # which another part of the trainer sets
            if isinstance(callback, Correction) and RunningStage.VALIDATING not in callback.corrected:
                cut = callback.correction.cpu()(cut.logit()).reshape(cut.shape).sigmoid()
        return cut.tolist()

    def _with_labels(self, predicted: Any) -> dict[str, Any]:
        result = dict(predicted) if isinstance(predicted, dict) else {self.predicts: predicted}
        scores = result.get(self.predicts)
        if not isinstance(scores, Tensor) or not scores.is_floating_point():
            raise InputError(
                f"expected predict_step to return {self.predicts} as a tensor, or a dict with the key "
                f"{self.predicts!r}, got {type(predicted).__name__}: say predicts='logits' if it returns those."
            )
        return {**result, "labels": self.labels(scores)}

    def labels(self, scores: Tensor) -> Tensor:
        """What the chosen threshold decides of probabilities (or of logits, where ``predicts`` says so)."""
        self.insist("decide")
        cut = torch.tensor(self.threshold if self._applied is None else self._applied, dtype=torch.float64)
        cut = (cut.logit() if self.predicts == "logits" else cut).to(scores.device, torch.float32)
        return (scores.float() > cut).long()

    def leave(self, trainer: Trainer) -> None:
        """Leave the module as it was."""
        self._stand_ins.remove()
        self._applied = None
        super().leave(trainer)

    # ---- checkpoints

    def state_dict(self) -> dict[str, Any]:
        """The chosen threshold, and for what."""
        return {} if self.threshold is None else {"threshold": self.threshold, "labels": [*self.evaluation.questions()]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with a chosen threshold; those of other labels are refused."""
        found, own = state_dict.get("labels"), [*self.evaluation.questions()]
        if found is not None and found != own:
            raise InputError(
                f"the checkpoint holds thresholds for {len(found)} labels ({_shown(found)}), this ThresholdTuning has "
                f"{len(own)} ({_shown(own)}): declare the same labels in the same order."
            )
        self.threshold = state_dict.get("threshold")


def _check(
    evaluation: Any,
    criterion: str,
    costs: Mapping[str, float] | None,
    at_least: Mapping[str, float] | None,
    predicts: str,
) -> None:
    if not isinstance(evaluation, (BinaryEvaluation, MultilabelEvaluation)):
        raise DeclarationError(
            f"expected a BinaryEvaluation or a MultilabelEvaluation, which decide by a threshold, got "
            f"{type(evaluation).__name__}."
        )
    task: Any = evaluation.tally.counter.task
    if isinstance(evaluation, BinaryEvaluation) and len(task.thresholds) > 1:
        raise DeclarationError(f"expected one threshold to tune, got {list(task.thresholds)}.")
    if task.inputs == "labels":
        raise DeclarationError("expected inputs='logits' or 'probabilities': labels leave nothing to tune.")
    if task.weighted:
        raise DeclarationError("expected an evaluation without weights.")
    if predicts not in ("probabilities", "logits"):
        raise DeclarationError(f"expected predicts to be 'probabilities' or 'logits', got {predicts!r}.")
    for name in (criterion, *(at_least or ())):
        find(name)  # which says what it could be
    if costs is not None and (not costs or not set(costs) <= {"tp", "fp", "fn", "tn"}):
        raise DeclarationError(f"expected costs of 'fp', 'fn', 'tp' or 'tn', got {costs}.")


def _table(values: Mapping[str, float]) -> str:
    lines = [f"| {name.removeprefix('val/')} | {value:.6g} |" for name, value in values.items()]
    return "\n".join(("| on validation | |", "|---|---:|", *lines))


def _shown(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
