"""The Hugging Face Trainer: an evaluation as its ``compute_metrics``, in constant memory if given batches.

What the Trainer does (transformers 5.23, ``Trainer.evaluation_loop``), and what follows:

1. With ``batch_eval_metrics=True`` every rank gets every batch of every rank: counts are never summed over ranks.
2. Nothing tells that an evaluation begins; with each batch, the callback sees the loader that it comes from.
3. ``compute_result`` is true for the last batch, which only loaders that Accelerate has prepared know.
4. Rows without labels never come here, and metrics are then missing without a word.
5. Logits and labels are padded with -100 along dimension 1. ``inputs`` mean something else in each mode: not used.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from lightning_evalkit.errors import DeclarationError, required
from lightning_evalkit.integrations.counting import Counting
from lightning_evalkit.integrations.predictions import batches, scores_and_labels

with required("transformers", extra="transformers"):
    from transformers import TrainerCallback

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightning_evalkit.evaluation.base import Evaluation


class TrainerMetrics:
    """An evaluation as ``compute_metrics`` of the Hugging Face Trainer, with and without ``batch_eval_metrics=True``.

    ``Trainer(..., compute_metrics=metrics, callbacks=[metrics.callback])`` reports every number of the evaluation as a
    plain float: "eval_exact_match", "eval_hamming_accuracy", "eval_accuracy/<label>". The callback marks where an
    evaluation begins, so that an interrupted one leaves no counts, and warns if rows or metrics are missing. Logits are
    the first output of the model; ``take(predictions, labels)`` chooses others, and returns (preds, target) or, for a
    weighted evaluation, (preds, target, sample_weight). Token classifiers need ``ignore_index=-100`` in their
    ``MulticlassEvaluation``; a ``BinaryEvaluation`` takes one logit per row or two. ``metrics.evaluation`` keeps the
    counts of the last evaluation: ``metrics.evaluation.explain()``.

    >>> import numpy
    >>> from lightning_evalkit import MultilabelEvaluation
    >>> metrics = TrainerMetrics(MultilabelEvaluation("logits", 2, statistics=["exact_match", "hamming_accuracy"]))
    >>> metrics((numpy.array([[1.5, -2.0], [0.5, 3.0]]), numpy.array([[1.0, 0.0], [0.0, 1.0]])))
    {'exact_match': 0.5, 'hamming_accuracy': 0.75}
    """

    def __init__(self, evaluation: Evaluation, take: Callable[[Any, Any], tuple[Any, ...]] | None = None) -> None:
        self._counting = Counting(evaluation, over_ranks=False)
        if self._counting.task.weighted and take is None:
            raise DeclarationError(
                "expected an unweighted evaluation, because the Trainer gives no weights: give take, a function that "
                "returns (preds, target, sample_weight)."
            )
        self._take = take or scores_and_labels
        self.callback = EvaluationBounds(self._counting)

    @property
    def evaluation(self) -> Evaluation:
        """The counts of the last evaluation, or of the current one so far."""
        return self._counting.evaluation

    def __call__(self, prediction: Any, compute_result: bool | None = None) -> dict[str, float]:
        """Return every number of a whole evaluation; with batches (``compute_result`` is given), after the last one."""
        predictions, labels = prediction[0], prediction[1]
        if compute_result is None:
            self._counting.reset()
        else:
            self.callback.look_for_itself()
        for batch in batches(predictions, labels):
            self._counting.count(*self._take(*batch))
        self.callback.count_call(bool(compute_result is None or compute_result))
        return {} if compute_result is False else self._counting.values()


class EvaluationBounds(TrainerCallback):  # type: ignore[misc]  # transformers is not read by mypy
    """Marks where an evaluation begins and ends, and warns about missing rows or metrics."""

    def __init__(self, counting: Counting) -> None:
        self._counting = counting
        self._loader: Any = lambda: None
        self._begun = 0
        self._calls, self._has_result = 0, False

    def on_prediction_step(self, args: Any, state: Any, control: Any, eval_dataloader: Any = None, **_: Any) -> None:
        """Begin an evaluation at the first batch of a loader, or of another pass over it."""
        begun = _times_begun(eval_dataloader)
        if self._loader() is not eval_dataloader or self._begun != begun:
            self._counting.reset()
            self._loader, self._begun = weakref.ref(eval_dataloader), begun
            self._calls, self._has_result = 0, False

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Warn why there are no metrics although they were requested."""
        if self._loader() is not None and not self._calls:
            self._counting.warn_once(
                "expected labels in the evaluation set, but the Trainer found none and so computed no metrics: name "
                "its column of labels 'labels' or set label_names in the TrainingArguments, and leave "
                "prediction_loss_only off."
            )
        self._end()

    def on_predict(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Rows to predict may have no labels."""
        self._end()

    def look_for_itself(self) -> None:
        """Warn if a batch came without the callback."""
        if self._loader() is None:
            self._counting.warn_once(
                "expected the callback of TrainerMetrics in a Trainer with batch_eval_metrics=True: only the callback "
                "marks where an evaluation begins, and without it the rows of an interrupted evaluation would be "
                "counted with the next. Add callbacks=[metrics.callback]."
            )

    def count_call(self, has_result: bool) -> None:
        """Note a call of ``compute_metrics``; with the last one, compare rows."""
        self._calls, self._has_result = self._calls + 1, has_result
        expected = _length(self._loader())
        if has_result and expected is not None and expected != self._counting.rows:
            self._warn_of_rows(self._counting.rows, expected)

    def _warn_of_rows(self, rows: int, expected: int) -> None:
        apart = abs(rows - expected)
        many = f"{apart} rows were" if apart > 1 else "1 row was"
        why = (
            f"{many} counted twice, as batches of several processes were filled up with repeats"
            if rows > expected
            else f"{many} left out, as by dataloader_drop_last=True or a sampler"
        )
        self._counting.warn_once(f"expected the {expected} rows of the evaluation set, counted {rows}: {why}.")

    def _end(self) -> None:
        if self._calls and not self._has_result:
            self._counting.warn_once(
                f"expected the Trainer to mark the last batch, but after {self._counting.rows} rows it has not, so "
                "that no metrics are reported: let get_eval_dataloader return self.accelerator.prepare(loader), or "
                "set batch_eval_metrics=False."
            )
            self._counting.finished = True
        self._loader, self._calls = (lambda: None), 0


def _times_begun(loader: Any) -> int:
    """The number of times a loader was started but not read to its end, as Accelerate counts for its loaders."""
    references = getattr(getattr(loader, "gradient_state", None), "dataloader_references", ())
    return sum(each is loader for each in references)


def _length(loader: Any) -> int | None:
    """The rows of a loader's data set, of all shards; None if it has no length."""
    dataset: Any = getattr(loader, "dataset", None)
    if hasattr(dataset, "num_processes"):  # Accelerate's shard of an iterable data set
        dataset = dataset.dataset
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None
