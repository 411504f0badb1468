"""Counts scores by one sort of integer keys: a key has the order of the scores, and the answer as its last bit.

Sorting keys moves nothing else along, and NumPy does it in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lightning_evalkit.counts.numpy_path import Array


def counted(keys: Array) -> tuple[Array, Array, Array]:
    """The distinct numbers in rising order, and the count of yes and no for each; overwrites the keys."""
    keys.sort()
    answers = (keys & 1).astype(np.int8)
    keys >>= 1
    new = np.ones(len(keys), dtype=np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    begins = new.nonzero()[0]
    occurring = keys[begins]
    if not len(begins):
        return occurring, begins, begins
    yes = np.add.reduceat(answers, begins, dtype=np.int64)
    no = np.empty_like(begins)
    np.subtract(begins[1:], begins[:-1], out=no[:-1])
    no[-1] = len(keys) - begins[-1]
    no -= yes
    return occurring, yes, no
