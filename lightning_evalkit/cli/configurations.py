"""Where the experiments' configurations are: inside the package in an installed wheel, else in the repository."""

from __future__ import annotations

from pathlib import Path

_INSTALLED = Path(__file__).parents[1] / "experiments"
EXPERIMENTS = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).parents[2] / "experiments"
BASE = EXPERIMENTS / "base.yaml"


def located(configuration: str) -> str:
    """The file itself if there is one; else the experiment of that name, with or without experiments/ and .yaml."""
    if Path(configuration).is_file():
        return configuration
    name = configuration.removeprefix("experiments/").removesuffix(".yaml")
    carried = EXPERIMENTS / f"{name}.yaml"
    return str(carried) if carried.is_file() else configuration


def with_located(arguments: list[str]) -> list[str]:
    """The same arguments with every configuration located."""
    words = list(arguments)
    for place, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in ("-c", "--config") and equals:
            words[place] = f"{option}={located(value)}"
        elif option in ("-c", "--config") and place + 1 < len(words):
            words[place + 1] = located(words[place + 1])
    return words
