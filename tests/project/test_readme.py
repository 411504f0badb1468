"""What the README and the docstrings show is what happens: their code runs, their commands print what they say."""

import doctest
import importlib
import pkgutil
import re
import shlex
from pathlib import Path

import pytest

import lightning_evalkit
from lightning_evalkit.cli import main

README = Path(__file__).parents[2] / "README.md"
Block = tuple[str, int, str]


def blocks(text: str) -> list[Block]:
    """The fenced blocks: language, number of the first line, content."""
    fences = re.finditer(r"^```(\w*)[^\n]*\n(.*?)^```[ ]*$", text, re.MULTILINE | re.DOTALL)
    return [(fence[1], text.count("\n", 0, fence.start(2)) + 1, fence[2]) for fence in fences]


def run_python(found: list[Block], name: str) -> int:
    """Execute the Python blocks in order in one namespace; their number."""
    namespace = {"__name__": "readme"}
    sources = ["\n" * (line - 1) + source for language, line, source in found if language == "python"]
    for source in sources:
        exec(compile(source, name, "exec"), namespace)  # the padding makes a traceback point at the README's line
    return len(sources)


def lines_of(source: str) -> list[list[str]]:
    """The arguments of every evalkit line."""
    lines = [line.removeprefix("$ ") for line in source.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("evalkit ")]


def commands(found: list[Block]) -> list[tuple[list[str], str | None]]:
    """The arguments of every evalkit line, and what a block of text right after it says it prints."""
    listed = []
    for (language, _, source), following in zip(found, [*found[1:], ("", 0, "")], strict=True):
        calls = lines_of(source) if language in ("console", "bash") else []
        shown = following[2] if following[0] == "text" and len(calls) == 1 else None
        listed += [(call, shown) for call in calls]
    return listed


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Block]:
    monkeypatch.chdir(tmp_path)  # whatever an example writes is thrown away
    return blocks(README.read_text(encoding="utf-8"))


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*")  # Lightning's own use of torch
@pytest.mark.filterwarnings("ignore::lightning.pytorch.utilities.warnings.PossibleUserWarning")
@pytest.mark.filterwarnings("ignore:.*GPU available.*")
def test_python_blocks_run(found: list[Block]):
    assert run_python(found, README.name) >= 1


def test_commands_succeed_and_print_what_is_shown(found: list[Block], capsys: pytest.CaptureFixture[str]):
    listed = commands(found)
    assert len(listed) >= 1
    for arguments, shown in listed:
        assert main(arguments) == 0, arguments
        printed = capsys.readouterr().out
        assert shown in (None, printed), arguments


def test_longer_commands_can_be_read(found: list[Block], capsys: pytest.CaptureFixture[str]):
    """Trainings of the README are not run here, but what they ask for exists."""
    calls = [call for language, _, source in found if language == "sh" for call in lines_of(source) if call[0] == "fit"]
    assert len(calls) >= 3
    for call in calls:
        Path("my.csv").write_text("size,species\n1,cat\n", encoding="utf-8")
        with pytest.raises(SystemExit) as ended:
            main([*call, "--print_config"])
        assert ended.value.code in (0, None), call
        assert "class_path" in capsys.readouterr().out


def test_docstring_examples_are_true():
    attempted = 0
    modules = [module.name for module in pkgutil.walk_packages(lightning_evalkit.__path__, "lightning_evalkit.")]
    for name in modules:
        result = doctest.testmod(importlib.import_module(name))
        assert result.failed == 0, name
        attempted += result.attempted
    assert len(modules) >= 34
    assert attempted >= 8


# ---- a test of the test

SAMPLE = """
```python
number = 1
```

```console
$ evalkit explain --counts 1,2,3,4  # a comment
```

```text
wrong
```

```python
assert number == 2
```
"""


def test_a_wrong_readme_is_caught():
    found = blocks(SAMPLE)
    assert [block[:2] for block in found] == [("python", 3), ("console", 7), ("text", 11), ("python", 15)]
    assert commands(found) == [(["explain", "--counts", "1,2,3,4"], "wrong\n")]
    with pytest.raises(AssertionError) as caught:
        run_python(found, "SAMPLE")
    assert caught.traceback[-1].lineno + 1 == 15
