"""Finds the experiments' configurations: inside the package in an installed wheel, else in the repository."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]

from lightning_evalkit import __version__
from lightning_evalkit.cli.endless import read_yaml, refuse_endless_words
from lightning_evalkit.cli.messages import WrongError
from lightning_evalkit.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADER = "lightning_evalkit"
_INSTALLED = Path(__file__).parents[1] / "experiments"
EXPERIMENTS = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).parents[2] / "experiments"
BASE = EXPERIMENTS / "base.yaml"


def located(configuration: str) -> str:
    """The file itself if it exists; else the experiment of that name, with or without experiments/ and .yaml."""
    name = configuration.removeprefix("experiments/").removesuffix(".yaml")
    for path in (Path(configuration), EXPERIMENTS / f"{name}.yaml"):
        if path.is_file():
            return _checked(path)
    known = [path.relative_to(EXPERIMENTS).with_suffix("").as_posix() for path in EXPERIMENTS.glob("*/*.yaml")]
    raise WrongError(f"there is no configuration {configuration!r}: {nearest(name, known)}")


def _checked(path: Path) -> str:
    """Check a file first, because the parser's errors do not name the broken file."""
    try:
        content = read_yaml(path.read_text(encoding="utf-8"), str(path))
    except (UnicodeDecodeError, yaml.YAMLError) as wrong:
        raise WrongError(f"{path} is not YAML: {wrong}") from wrong
    if not isinstance(content, dict):
        raise WrongError(f"expected options and their values in {path}, got {content!r}.")
    for part in content.values():
        _check_part(part, path.parent)
    return str(path)


def _check_part(value: Any, *folders: Path) -> None:
    """Check a model, data or trainer in a separate file; the parser refuses one that names itself."""
    if isinstance(value, str) and value.endswith((".yaml", ".yml", ".json")):
        for path in (folder / value for folder in (Path(), *folders)):
            if path.is_file():
                with suppress(UnicodeDecodeError, yaml.YAMLError):
                    read_yaml(path.read_text(encoding="utf-8"), str(path))


def of_another_version(arguments: Sequence[str]) -> str:
    """Name the configurations that another version has written, for the end of an error about them."""
    paths = [word.rpartition("=")[2] for word in arguments]
    found = {path: _version(path) for path in paths if path.endswith(".yaml") and Path(path).is_file()}
    other = [f"{path} was written by version {version}" for path, version in found.items() if version != __version__]
    return f" {', '.join(other)}, this is {__version__}." if other else ""


def _version(path: str) -> str:
    """The version at the top of a configuration that a run wrote; this version if there is none."""
    found = re.search(rf"^# {HEADER}==(\S+)$", Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else __version__


def with_located(arguments: list[str]) -> list[str]:
    """Return the arguments with every configuration located; refuse endless ones."""
    words = list(arguments)
    refuse_endless_words(words)
    for word in words:
        _check_part(word.rpartition("=")[2])
    for place, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in ("-c", "--config") and equals:
            words[place] = f"{option}={located(value)}"
        elif option in ("-c", "--config") and place + 1 < len(words):
            words[place + 1] = located(words[place + 1])
    return words
