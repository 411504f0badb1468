"""Saves evaluations and rebuilds them from files, which hold the counts with their declaration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from lightning_evalkit.counts import Totals
from lightning_evalkit.evaluation.binary import BinaryEvaluation
from lightning_evalkit.evaluation.multiclass import DEFAULT, MulticlassEvaluation
from lightning_evalkit.evaluation.multilabel import MultilabelEvaluation
from lightning_evalkit.state import checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lightning_evalkit.evaluation.base import Evaluation

UNSAVED = ("hamming_accuracy", "f1/micro", "f1/macro")
"""Default statistics of multilabel evaluations that need no sums over samples, so that the declaration lacks them."""


def saved(evaluation: Evaluation, address: str) -> dict[str, torch.Tensor]:
    """Return the counts of all ranks as sparse tensors, as most bins are empty; every rank must call it."""
    entries = checkpoint.saved(evaluation.tally.global_totals, evaluation.tally.counter)
    return {f"{address}.{name}": entry.cpu().to_sparse() for name, entry in entries.items()}


def saved_evaluations(path: str | Path) -> dict[str, Evaluation]:
    """Return the evaluations in a file written by ``torch.save``, by name and without empty ones.

    The file may be a Lightning checkpoint, whose module or callbacks hold evaluations, or the ``state_dict`` of a
    ``persistent`` evaluation. Only tensors and plain values are read (``weights_only=True``).
    """
    content = torch.load(path, map_location="cpu", weights_only=True)
    found: dict[str, Evaluation] = {}
    for name, entries in _states(content):
        evaluation = _evaluation(entries)
        if evaluation is not None and evaluation.tally.update_called:
            found[name if name not in found else f"{name} ({len(found)})"] = evaluation
    return found


def _states(content: Any) -> Iterator[tuple[str, dict[str, torch.Tensor]]]:
    """Find every state with its declaration at any depth, with the name it was saved under."""
    if not isinstance(content, Mapping):
        return
    for key, value in content.items():
        yield from _states(value)
        if isinstance(value, torch.Tensor) and str(key).rpartition(".")[2] == checkpoint.DECLARATION:
            prefix = str(key).removesuffix(checkpoint.DECLARATION)
            parts = (checkpoint.INTEGERS, checkpoint.REALS, checkpoint.DECLARATION)
            entries = {part: content[prefix + part].to_dense() for part in parts if prefix + part in content}
            yield prefix.strip(".") or "evaluation", entries


def _evaluation(entries: dict[str, torch.Tensor]) -> Evaluation | None:
    """Rebuild an evaluation from its declaration and state; None for the state of anything else."""
    declared = checkpoint.declaration_of(entries[checkpoint.DECLARATION])
    made = MAKERS.get(declared["task"])
    if made is None or declared["inputs"] == "auto" or declared["samplewise"]:
        return None
    binning = declared["binning"] or {}
    shared: dict[str, Any] = {
        "weighted": declared["weighted"],
        "buckets": declared["buckets"],
        "ignore_index": _plain(declared["ignore_index"]),
        "curves": bool(binning),
        "resolution": "bfloat16" if binning.get("kind") == "bfloat16" else binning.get("number"),
    }
    evaluation = made(declared, shared)
    if checkpoint.layout_of(evaluation.tally.counter) != declared["layout"]:
        return None  # a single metric counts less
    evaluation.tally.load_totals(Totals(entries[checkpoint.INTEGERS], entries.get(checkpoint.REALS)))
    return evaluation


def _plain(index: Any) -> Any:
    return tuple(index) if isinstance(index, list) else index


def _binary(declared: dict[str, Any], shared: dict[str, Any]) -> Evaluation:
    cuts = declared["thresholds"]
    return BinaryEvaluation(declared["inputs"], cuts[0] if len(cuts) == 1 else cuts, **shared)


def _multiclass(declared: dict[str, Any], shared: dict[str, Any]) -> Evaluation:
    return MulticlassEvaluation(
        declared["inputs"],
        declared["num_classes"],
        declared["names"],
        declared["top_k"],
        confusion_matrix=declared["matrix"],
        statistics=[*DEFAULT, *(f"top_{k}_accuracy" for k in declared["hits"])],
        **shared,
    )


def _multilabel(declared: dict[str, Any], shared: dict[str, Any]) -> Evaluation:
    cuts = declared["thresholds"]
    return MultilabelEvaluation(
        declared["inputs"],
        declared["num_labels"],
        declared["names"],
        cuts[0] if len(cuts) == 1 else cuts,
        statistics=[*declared["sample_sums"][1:], *UNSAVED],
        **shared,
    )


MAKERS = {"Binary": _binary, "Multiclass": _multiclass, "Multilabel": _multilabel}
