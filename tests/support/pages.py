"""Markdown pages as programs: their blocks run from top to bottom, in one folder and one namespace.

- A block with a file name behind its language (```` ```csv my.csv ````) is written under that name.
- ``python`` blocks are executed.
- Each command of a ``sh`` or ``console`` block is run, in this process. Trainings are cut to one epoch, commands that
  install or serve something are only checked.
- A ``text`` block right after one of these is what it prints; ``...`` stands for anything.
- ``yaml``, ``json`` and ``toml`` blocks are read.
"""

from __future__ import annotations

import doctest
import json
import re
import runpy
import shlex
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from packaging.requirements import Requirement

from lightning_evalkit.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])

SHORT = {
    **dict.fromkeys(("fit", "sweep"), ("--trainer.max_epochs=1", "--trainer.accelerator=cpu")),
    **dict.fromkeys(("validate", "test", "predict"), ("--trainer.accelerator=cpu",)),
    "reproduce": ("--quick", "--epochs=1", "--accelerator=cpu"),
}
"""Added to a command, unless the page gives the option itself; an accelerator is always replaced."""
ACCELERATOR = re.compile(r"--(trainer\.)?accelerator")


@dataclass(frozen=True)
class Block:
    language: str
    file: str
    line: int
    source: str


def blocks(text: str) -> list[Block]:
    """The fenced blocks, indented ones too."""
    fences = re.finditer(r"^( *)```(\w+) *(\S*) *\n(.*?)^\1```[ ]*$", text, re.MULTILINE | re.DOTALL)
    return [
        Block(fence[2], fence[3], text.count("\n", 0, fence.start(4)) + 1, _dedented(fence[4], len(fence[1])))
        for fence in fences
    ]


def _dedented(source: str, indent: int) -> str:
    return re.sub(rf"^ {{{indent}}}", "", source, flags=re.MULTILINE)


def run(found: list[Block], name: str) -> None:
    """Run the blocks of a page in the current folder."""
    namespace: dict[str, Any] = {"__name__": "page"}
    printed: str | None = None
    for block in found:
        if block.file:
            Path(block.file).write_text(block.source, encoding="utf-8")
        elif block.language == "text":
            if printed is not None:
                compare(block.source, printed, f"{name}, line {block.line}")
        elif block.language in ("python", "sh", "console"):
            printed = printed_by(block, name, namespace)
            continue
        else:
            read(block, f"{name}, line {block.line}")
        printed = None


def printed_by(block: Block, name: str, namespace: dict[str, Any]) -> str:
    with redirect_stdout(StringIO()) as out:
        if block.language == "python":
            # The padding makes a traceback point at the page's line.
            exec(compile("\n" * (block.line - 1) + block.source, name, "exec"), namespace)
        else:
            for words in commands(block.source):
                run_command(words, f"{name}, line {block.line}")
    return out.getvalue()


def compare(shown: str, printed: str, place: str) -> None:
    if not doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS):
        pytest.fail(f"{place}: the page shows\n{shown}\nbut it prints\n{printed}")


def read(block: Block, place: str) -> None:
    """Whether data can be read; other languages (``mermaid``) are for people."""
    readers: dict[str, Callable[[str], Any]] = {"yaml": yaml.safe_load, "json": json.loads}
    try:
        readers.get(block.language, str)(block.source)
    except (ValueError, yaml.YAMLError) as wrong:
        pytest.fail(f"{place}: {wrong}")


# ---- commands


def commands(source: str) -> list[list[str]]:
    """The words of every command: without prompt, comment and the variables in front."""
    lines = re.sub(r"\\\n\s*", " ", source).splitlines()
    split = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
    return [words[_first(words) :] for words in split if words]


def _first(words: list[str]) -> int:
    """The place of the first word that is no variable with its value."""
    return next(place for place, word in enumerate(words) if not re.match(r"[A-Z_]+=", word))


def run_command(words: list[str], place: str) -> None:
    known = {
        "evalkit": run_evalkit,
        "make": check_make,
        "pip": check_pip,
        "pytest": check_pytest,
        "python": run_python,
        "tensorboard": check_tensorboard,
        "torchrun": check_torchrun,
    }
    if words[0] not in known:
        pytest.fail(f"{place}: tests/support/pages.py does not know how to run {words[0]!r}")
    try:
        known[words[0]](words[1:])
    except AssertionError as wrong:
        pytest.fail(f"{place}: {shlex.join(words)}: {wrong}")


def run_evalkit(words: list[str]) -> None:
    try:
        code = main(shortened(words))
    except SystemExit as ended:  # --help, --print_config
        code = int(ended.code or 0)
    assert code == 0, f"ended with {code}"


def shortened(words: list[str]) -> list[str]:
    """The same command, with little to do and on the CPU."""
    given = {word.partition("=")[0] for word in words}
    extra = [word for word in SHORT.get(words[0], ()) if not _is_given(word.partition("=")[0], given)]
    return [*words, *extra]


def _is_given(option: str, given: set[str]) -> bool:
    return option in given and not ACCELERATOR.fullmatch(option)


def check_make(words: list[str]) -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    for word in words:
        assert re.search(rf"^{re.escape(word)}:", makefile, re.MULTILINE), "there is no such target"


def check_pip(words: list[str]) -> None:
    """What is to be installed is this package, from here or by name, with extras that it has."""
    assert words[0] == "install"
    for word in (word for word in words[1:] if not word.startswith("-")):
        required = Requirement(re.sub(r"^\.", "lightning-evalkit", word))
        assert required.name == "lightning-evalkit", f"{required.name} is another package"
        project = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
        missing = [extra for extra in required.extras if not re.search(rf"^{extra} = \[", project, re.MULTILINE)]
        assert not missing, f"there is no extra {missing}"


def check_pytest(words: list[str]) -> None:
    """The folders are there, and pytest has the options."""
    options = re.compile(r"-m|--hypothesis-profile=(some|many)")
    paths = [word for word in words if word.startswith("tests")]
    assert paths, "no tests are named"
    assert all((REPOSITORY / path).exists() for path in paths), "there are no such tests"
    assert all(options.fullmatch(word) for word in words if word.startswith("-")), "there is no such option"


def run_python(words: list[str]) -> None:
    """A file of the page is run; one of the repository exists."""
    if words[:2] == ["-m", "lightning_evalkit"]:
        run_evalkit(words[2:])
    elif Path(words[0]).is_file():
        runpy.run_path(words[0], run_name="__main__")
    else:
        assert (REPOSITORY / words[0]).is_file(), "there is no such file"


def check_tensorboard(words: list[str]) -> None:
    assert words[0] == "--logdir"
    assert list(Path(words[1]).rglob("events.out.tfevents.*")), "nothing was logged there"


def check_torchrun(words: list[str]) -> None:
    """The options are torchrun's, and the command that it starts can be read."""
    from torch.distributed.run import get_args_parser

    parsed = get_args_parser().parse_args(words)
    assert parsed.training_script == "evalkit"
    run_evalkit([*parsed.training_script_args, "--print_config"])


# ---- links


def links(text: str) -> list[str]:
    """The targets of links and pictures that stand in the repository."""
    prose = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in target]


def anchors(text: str) -> set[str]:
    """The names under which a page's headings are linked."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
