"""The dependencies of a result besides its options: the files they name, loaded own code, versions.

Files that a run opens without an option are unknown here, unless own code names them: its source is a dependency.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]

from lightning_evalkit import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DECIDING = ("torch", "lightning", "torchmetrics")
"""Packages whose version may change the measured numbers."""
INPUTS = ("data", "model", "ckpt_path")
"""Options that name inputs; a folder in another option may be an output."""
MOVING = "changed while it was used"
"""Stands for a digest if the contents that were read are unknown."""
GENERATED = "_remote_module_"
"""Prefix of modules that older releases of torch, such as 2.5, write to a new folder in every process."""

Named = tuple[str, str]
"""An option and a text in its value."""


def versions() -> dict[str, str]:
    """The versions of this package and of those that may change numbers."""
    return {"lightning_evalkit": __version__} | {name: _version(name) for name in DECIDING}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def texts_of(content: Any, key: str = "") -> Iterator[Named]:
    """All texts in a configuration, each with its option."""
    if isinstance(content, dict):
        for name, part in content.items():
            yield from texts_of(part, f"{key}.{name}" if key else str(name))
    elif isinstance(content, (list, tuple)):
        for part in content:
            yield from texts_of(part, key)
    elif isinstance(content, (str, Path)):
        yield key, str(content)


def texts_of_words(words: Iterable[str]) -> Iterator[Named]:
    """All texts in options of a command line: --key=value and --key value."""
    key = ""
    for word in words:
        value = word
        if word.startswith("-"):
            key, _, value = word.lstrip("-").partition("=")
        yield key, value
        yield from texts_of(_parsed(value), key)


def _parsed(value: str) -> Any:
    try:
        return yaml.safe_load(value)
    except yaml.YAMLError:
        return None


def digests(named: Iterable[Named], but: Path) -> dict[str, str]:
    """The digest of every file and folder among the texts, except folders that results are written to."""
    found = {}
    for key, text in named:
        if text not in found and _is_input(key, text, but):
            found[text] = digest(text)
    return found


def _is_input(key: str, text: str, but: Path) -> bool:
    try:
        path = Path(text).expanduser()
        if path.is_dir():
            own, outer = but.resolve(), path.resolve()
            return key.partition(".")[0] in INPUTS and not own.is_relative_to(outer) and not outer.is_relative_to(own)
        return path.is_file()
    except (OSError, ValueError, RuntimeError):  # not a path
        return False


def digest(text: str) -> str:
    """The digest of a file's contents, or of all names, sizes and times in a folder."""
    path = Path(text).expanduser()
    try:
        if not path.is_dir():
            seen = path.stat()
            return _of_file(path, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino)
        listed = [_listed(each, path) for each in sorted(path.rglob("*")) if each.is_file()]
    except OSError as missing:
        return os.strerror(missing.errno or 0)
    return hashlib.sha256(repr(listed).encode()).hexdigest()


def _listed(path: Path, folder: Path) -> tuple[str, int, int]:
    seen = path.stat()
    return str(path.relative_to(folder)), seen.st_size, seen.st_mtime_ns


@cache
def _of_file(path: Path, *seen: int) -> str:
    """Digest a file once, however many cells depend on it, while its size and time stay the same."""
    with path.open("rb") as file:
        whole = hashlib.sha256()
        while block := file.read(1 << 20):
            whole.update(block)
    return whole.hexdigest()


def of_own_code(since: float) -> dict[str, str]:
    """The digests of all loaded modules that are not installed; a module changed since its import is unknown."""
    files = [getattr(module, "__file__", None) for module in [*sys.modules.values()]]
    own = sorted({file for file in files if file and _is_own(file)})
    return {file: digest(file) if _unmoved(file, since) else MOVING for file in own}


def _unmoved(file: str, since: float) -> bool:
    path = Path(file)
    return path.exists() and path.stat().st_ctime <= since


@cache
def _is_own(file: str) -> bool:
    path = Path(file).resolve()
    if not path.is_file() or path.name.startswith(GENERATED) or {"site-packages", "dist-packages"} & {*path.parts}:
        return False
    others = [Path(sysconfig.get_path("stdlib")), Path(__file__).parents[1]]
    return not any(path.is_relative_to(folder.resolve()) for folder in others)
