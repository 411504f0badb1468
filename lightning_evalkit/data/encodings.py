"""Recognises files that are not CSV text in UTF-8, and says how to convert them."""

from __future__ import annotations

import codecs
from pathlib import Path

from lightning_evalkit.errors import InputError

HEAD = 4096
"""How many bytes are inspected before a file is read."""
BEGINNINGS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
    b"PAR1": "a Parquet file: name it .parquet",
    b"\x1f\x8b": "compressed by gzip: unpack it",
    b"PK\x03\x04": "a ZIP archive or a workbook: unpack it, or save it as CSV",
}
"""The first bytes of formats that are often taken for CSV; longer marks come before their own beginnings."""
WIDE: dict[tuple[int, ...], str] = {
    (1, 0, 1, 0): "UTF-16LE",
    (0, 1, 0, 1): "UTF-16BE",
    (1, 0, 0, 0): "UTF-32LE",
    (0, 0, 0, 1): "UTF-32BE",
}
"""Which of the first four bytes are not zero in text without a mark, by encoding."""


def refuse_other_formats(file: str, path: str) -> None:
    """Refuse a file whose first bytes are not those of CSV text."""
    with Path(file).open("rb") as opened:
        head = opened.read(HEAD)
    found = next((name for mark, name in BEGINNINGS.items() if head.startswith(mark)), "")
    if not found and b"\0" in head:
        found = WIDE.get(tuple(int(byte > 0) for byte in head[:4]), "")
        if not found:
            raise _not_text(path, head[: head.index(b"\0")].count(b"\n") + 1, "a zero byte, which no text has")
    if found:
        wide = f"text in {found}: save it as UTF-8, for example by {_conversion(found)}"
        advice = wide if found.startswith("UTF") else found
        raise InputError(f"{path}: expected CSV text in UTF-8, but it is {advice}.")


def refuse_other_encodings(file: str, path: str) -> None:
    """Find the first line that is not UTF-8: slow, for errors only."""
    with Path(file).open("rb") as opened:
        for number, line in enumerate(opened, 1):
            try:
                line.decode()
            except UnicodeDecodeError as wrong:
                raise _not_text(path, number, f"the byte 0x{line[wrong.start]:02x}") from wrong


def _not_text(path: str, line: int, received: str) -> InputError:
    return InputError(
        f"{path}, line {line}: expected CSV text in UTF-8, got {received}. Save the file as UTF-8; of a text in "
        f"another encoding, for example Latin-1, {_conversion('LATIN1')} makes one."
    )


def _conversion(encoding: str) -> str:
    return f"iconv -f {encoding} -t UTF-8"
