"""Files to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tabular_files import Columns


@pytest.fixture(params=["csv", "parquet"])
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Columns], Path]:
    """Write columns to a file of either format."""

    def written(values: Columns) -> Path:
        path = tmp_path / f"data.{request.param}"
        table = pa.table(values)
        csv.write_csv(table, path) if request.param == "csv" else parquet.write_table(table, path)
        return path

    return written


@pytest.fixture
def text(tmp_path: Path) -> Callable[[str], Path]:
    """Write the text of a CSV file."""

    def written(lines: str) -> Path:
        path = tmp_path / "data.csv"
        path.write_bytes(lines.encode())
        return path

    return written
