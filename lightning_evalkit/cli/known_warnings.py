"""Leaves out the warnings and tips that Lightning gives in every run of the command line."""

from __future__ import annotations

import logging
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

KNOWN = (
    ".*LeafSpec.*",  # Lightning's own use of torch
    "The dirpath has changed",  # as of every run
    ".*configure_optimizers` will be overridden.*",  # as was asked for
    "Couldn't infer the batch indices",  # a TensorLoader provides them
)
PACKAGES = ("lightning.pytorch", "lightning.fabric", "pytorch_lightning", "lightning_fabric")
"""All of Lightning speaks through the logger of the package that was imported last."""


@contextmanager
def without_known_warnings() -> Iterator[None]:
    """Leave out warnings about what was asked for, and Lightning's tips to install other packages."""
    loggers = [logging.getLogger(f"{package}.utilities.rank_zero") for package in PACKAGES]
    for logger in loggers:
        logger.addFilter(_is_no_tip)
    try:
        with warnings.catch_warnings():
            for message in KNOWN:
                warnings.filterwarnings("ignore", message=message)
            yield
    finally:
        for logger in loggers:
            logger.removeFilter(_is_no_tip)


def _is_no_tip(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("💡")
