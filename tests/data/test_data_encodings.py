"""A file that is no CSV text in UTF-8 is refused by its name, with what makes one of it."""

from __future__ import annotations

import gzip
import io
import zipfile
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from lightning_evalkit.data import TabularDataModule
from lightning_evalkit.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "x,kind\n" + "".join(f"{place}.5,{place % 2}\n" for place in range(40))


def refused(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(InputError) as wrong:
        TabularDataModule(path, "kind").setup("")
    said = str(wrong.value)
    assert said.startswith(str(path))
    assert said.count(str(path)) == 1
    return said.removeprefix(str(path))


@pytest.mark.parametrize("rows", [TEXT, TEXT.replace(",", "\t"), "x\n", ""], ids=["table", "tabs", "names", "nothing"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_text_of_wide_characters_is_named(encoding: str, rows: str, tmp_path: Path) -> None:
    name = encoding.upper()
    said = (
        f": expected CSV text in UTF-8, but it is text in {name}: save it as UTF-8, for example by iconv -f {name} -t"
    )
    assert refused(tmp_path / "data.csv", rows.encode(encoding)).startswith(said)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_text_of_wide_characters_without_a_mark_is_named(encoding: str, tmp_path: Path) -> None:
    name = encoding.upper().replace("-LE", "LE").replace("-BE", "BE")
    assert f"it is text in {name}: save it as UTF-8, for example by iconv -f {name} -t UTF-8." in refused(
        tmp_path / "data.csv", TEXT.encode(encoding)
    )


def packed() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("data.csv", TEXT)
    return content.getvalue()


def columnar() -> bytes:
    content = io.BytesIO()
    parquet.write_table(pa.table({"x": [1.5] * 40, "kind": [0, 1] * 20}), content)
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (columnar(), "a Parquet file: name it .parquet."),
        (gzip.compress(TEXT.encode()), "compressed by gzip: unpack it."),
        (packed(), "a ZIP archive or a workbook: unpack it, or save it as CSV."),
    ],
    ids=["parquet", "gzip", "zip"],
)
def test_other_formats_under_the_name_of_csv(content: bytes, said: str, tmp_path: Path) -> None:
    assert refused(tmp_path / "data.csv", content) == f": expected CSV text in UTF-8, but it is {said}"


@pytest.mark.parametrize("line", [1, 2, 30])
def test_a_zero_byte_is_told_with_its_line(line: int, tmp_path: Path) -> None:
    lines = TEXT.encode().splitlines(keepends=True)
    lines[line - 1] = lines[line - 1].replace(b",", b",\0")
    said = refused(tmp_path / "data.csv", b"".join(lines))
    assert said.startswith(f", line {line}: expected CSV text in UTF-8, got a zero byte, which no text has.")


@given(place=st.integers(0, 41), letter=st.sampled_from("\xe4\xe9\xfc\xdf"))
def test_the_first_line_of_another_encoding_is_told(
    place: int, letter: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = [*TEXT.splitlines(), "7.5,1"]
    lines[place] = lines[place].replace(",", f"{letter},")
    said = refused(tmp_path_factory.mktemp("data") / "data.csv", ("\n".join(lines) + "\n").encode("latin-1"))
    assert said.startswith(f", line {place + 1}: expected CSV text in UTF-8, got the byte 0x{ord(letter):02x}. Save")


def test_a_mark_of_utf_8_is_none_of_these(tmp_path: Path) -> None:
    plain, marked = tmp_path / "plain.csv", tmp_path / "marked.csv"
    plain.write_text(TEXT, encoding="utf-8")
    marked.write_text(TEXT, encoding="utf-8-sig")
    one, other = (TabularDataModule(path, "kind").ready.train for path in (plain, marked))
    assert torch.equal(one[0], other[0])
    assert torch.equal(one[1], other[1])
