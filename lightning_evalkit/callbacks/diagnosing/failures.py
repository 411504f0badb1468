"""Finds the metrics that an exception comes from when it ends a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor
from torchmetrics import Metric

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

INFERENCE = "inference tensor"
"""The words of torch's error if an inference tensor is changed outside of inference mode."""


def inference_states(exception: BaseException, paths: Mapping[int, str]) -> list[str]:
    """The metrics whose state was made in inference mode, if changing it raised this exception."""
    if not isinstance(exception, RuntimeError) or INFERENCE not in str(exception).lower():
        return []
    found = {id(metric): metric for metric in _metrics_in(exception) if _is_of_inference(metric)}
    names = [(paths.get(id(metric), ""), type(metric).__name__) for metric in found.values()]
    return [f"{path} ({kind})" if path else kind for path, kind in names]


def _metrics_in(exception: BaseException) -> Iterator[Metric]:
    """The metrics whose methods the exception passed through."""
    frame = exception.__traceback__
    while frame is not None:
        owner = frame.tb_frame.f_locals.get("self")
        if isinstance(owner, Metric):
            yield owner
        frame = frame.tb_next


def _is_of_inference(metric: Metric) -> bool:
    states = [getattr(metric, name) for name in metric._defaults]
    return any(isinstance(state, Tensor) and state.is_inference() for state in states)
