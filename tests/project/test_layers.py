"""The layers: every import of every file goes to a lower part, heavy packages stay where they belong and load late."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import lightning_evalkit

PACKAGE = "lightning_evalkit"
ROOT = Path(lightning_evalkit.__file__).parent
LAYERS = {
    "errors": 0,
    "ranks": 0,
    "registry": 0,
    "inputs": 1,
    "counts": 2,
    "state": 3,
    "statistics": 3,
    "metrics": 4,
    "functional": 4,
    "intervals": 4,
    "rescaling": 5,
    "diagnosis": 5,
    "sinks": 6,
    "evaluation": 7,
    "trainer": 7,
    "plotting": 8,
    "reports": 8,
    "callbacks": 9,
    "integrations": 9,
    "autodiagnose": 10,
    "data": 10,
    "modules": 10,
    "cli": 11,
    "__main__": 12,
    "": 12,  # the package's own __init__, which shows everything
}
# Errors and the table of names are two files of one layer: the table refuses with the package's own error.
ALLOWED = {("registry", "errors")}

# What a package is called where it is imported, the parts that may, and in how many files.
# matplotlib: one file makes figures, one draws on axes, one draws pixels.
TENSORBOARD = ("tensorboard", "tensorboardX", "torch.utils.tensorboard")
LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric")
HEAVY = {
    "matplotlib": (("matplotlib",), {"sinks"}, 3),
    "tensorboard": (TENSORBOARD, {"sinks"}, 1),
    "rich": (("rich",), {"sinks"}, None),
    "lightning": (LIGHTNING, {"trainer", "modules", "data", "cli"}, None),
    "jsonargparse": (("jsonargparse",), {"cli"}, None),
    "transformers": (("transformers", "tokenizers", "accelerate"), {"integrations", "modules", "data"}, None),
}

Sources = dict[str, str]


def sources() -> Sources:
    """The text of every file of the package by its path inside it."""
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}


def part_of(path: str) -> str:
    """The folder or file at the top that a path belongs to; nothing for the package's own __init__."""
    top = path.split("/")[0].removesuffix(".py")
    return "" if top == "__init__" else top


@cache
def imports(path: str, source: str) -> tuple[str, ...]:
    """Every imported name with its dots, wherever the statement stands; names taken from a module are appended."""
    return tuple(_imports(path, source))


def _imports(path: str, source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = [PACKAGE, *path.split("/")[:-1]][: -node.level + 1 or None] if node.level else []
            module = ".".join([*parent, *filter(None, [node.module])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def parts_imported(path: str, source: str) -> set[str]:
    """The parts of this package that a file imports."""
    parts = set()
    for name in imports(path, source):
        package, *rest = name.split(".")
        # The version is a constant of the package, not one of its parts.
        if package == PACKAGE and rest != ["__version__"]:
            parts.add(rest[0] if rest and rest[0] in LAYERS else "")
    return parts


def wrong_imports(files: Sources) -> list[str]:
    """The imports that do not go to a lower layer."""
    wrong = []
    for path, source in files.items():
        part = part_of(path)
        for used in sorted(parts_imported(path, source) - {part}):
            if LAYERS[used] >= LAYERS[part] and (part, used) not in ALLOWED:
                wrong.append(f"{path} imports {used or PACKAGE}")
    return wrong


def users(files: Sources, names: tuple[str, ...]) -> list[str]:
    """The files that import a third-party package."""

    def uses(imported: str) -> bool:
        return any(imported == name or imported.startswith(f"{name}.") for name in names)

    return [path for path, source in files.items() if any(map(uses, imports(path, source)))]


def misplaced(files: Sources) -> list[str]:
    """Imports of heavy packages outside their place, or in more files than may know them."""
    wrong = []
    for package, (names, parts, most) in HEAVY.items():
        found = users(files, names)
        wrong += [f"{path} imports {package}" for path in found if part_of(path) not in parts]
        if most is not None and len(found) > most:
            wrong.append(f"{package} is imported by {', '.join(found)}")
    return wrong


# ---- the package


def test_every_file_is_read_and_every_part_is_known():
    files = sources()
    assert len(files) >= 90
    assert {part_of(path) for path in files} <= LAYERS.keys()
    assert {"errors", "inputs", "counts", "state", "statistics", "evaluation", "cli"} <= {*map(part_of, files)}


def test_imports_go_to_lower_layers():
    assert wrong_imports(sources()) == []


def test_heavy_packages_are_imported_where_they_belong():
    assert misplaced(sources()) == []


def test_imports_were_found_at_all():
    """An empty answer above means something only if the imports are seen."""
    files = sources()
    assert parts_imported("state/tally.py", files["state/tally.py"]) >= {"counts", "errors", "state"}
    assert "sinks/terminal.py" in users(files, ("rich",))
    assert "cli/training.py" in users(files, ("jsonargparse",))
    assert len(users(files, ("torch",))) > 10


# ---- a test of the test


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        ("state/new.py", "from lightning_evalkit.statistics import find", "state/new.py imports statistics"),
        ("statistics/new.py", "import lightning_evalkit.state.tally", "statistics/new.py imports state"),
        ("counts/new.py", "from lightning_evalkit import evaluation", "counts/new.py imports evaluation"),
        ("counts/new.py", "from lightning_evalkit import Counts", "counts/new.py imports lightning_evalkit"),
        ("counts/new.py", "import lightning_evalkit", "counts/new.py imports lightning_evalkit"),
        ("counts/new.py", "from ..state import Tally", "counts/new.py imports state"),
        ("counts/deep/new.py", "from ...state.tally import Tally", "counts/deep/new.py imports state"),
        ("counts/new.py", "from .. import state", "counts/new.py imports state"),
        (
            "inputs/new.py",
            "def f():\n    from lightning_evalkit.counts import Counts",
            "inputs/new.py imports counts",
        ),
        ("inputs/new.py", "if TYPE_CHECKING:\n    import lightning_evalkit.cli", "inputs/new.py imports cli"),
        ("errors.py", "from lightning_evalkit.registry import Registry", "errors.py imports registry"),
        ("modules/new.py", "import lightning_evalkit.data", "modules/new.py imports data"),
    ],
)
def test_a_wrong_import_is_caught(path: str, source: str, complaint: str):
    assert wrong_imports({path: source}) == [complaint]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("registry.py", "from lightning_evalkit.errors import nearest"),
        ("counts/new.py", "from lightning_evalkit.counts.counts import Counts\nfrom . import binary"),
        ("counts/new.py", "from ..inputs import Binary\nimport torch, lightning_utilities"),
        ("cli.py", "from lightning_evalkit import __version__, evaluation"),
        ("__init__.py", "from lightning_evalkit.cli import main"),
    ],
)
def test_a_right_import_is_not(path: str, source: str):
    assert wrong_imports({path: source}) == misplaced({path: source}) == []


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        ("metrics/new.py", "import matplotlib.pyplot as plt", "metrics/new.py imports matplotlib"),
        ("diagnosis/new.py", "def late():\n    from rich import print", "diagnosis/new.py imports rich"),
        ("evaluation/new.py", "import lightning as L", "evaluation/new.py imports lightning"),
        ("state/new.py", "from pytorch_lightning import Trainer", "state/new.py imports lightning"),
        ("sinks/new.py", "from lightning.pytorch.loggers import Logger", "sinks/new.py imports lightning"),
        ("callbacks/new.py", "from torch.utils import tensorboard", "callbacks/new.py imports tensorboard"),
        (
            "callbacks/new.py",
            "from torch.utils.tensorboard import writer",
            "callbacks/new.py imports tensorboard",
        ),
        ("modules/new.py", "import jsonargparse", "modules/new.py imports jsonargparse"),
        ("evaluation/new.py", "from transformers import Trainer", "evaluation/new.py imports transformers"),
    ],
)
def test_a_misplaced_package_is_caught(path: str, source: str, complaint: str):
    assert misplaced({path: source}) == [complaint]


@pytest.mark.parametrize("package", ["matplotlib", "tensorboard"])
def test_one_file_too_many_that_knows_the_package_is_caught(package: str):
    most = HEAVY[package][2]
    assert most is not None
    known = {f"sinks/{number}.py": f"import {package}" for number in range(most)}
    more = {"sinks/more.py": f"from {package} import x"}
    assert misplaced(known) == misplaced(more) == []
    assert misplaced(known | more) == [f"{package} is imported by {', '.join(known)}, sinks/more.py"]


# ---- a fresh interpreter


STATEMENTS = (
    "import torchmetrics",
    "from lightning_evalkit import *",  # names are imported when they are used
    "import lightning_evalkit.data.real as real, lightning_evalkit.data.tabular as tabular\n"
    "real.DigitsDataModule().class_names, tabular.TabularDataModule('absent.csv', 'y')",
)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> list[set[str]]:
    """The modules in memory after each statement, one after the other in an interpreter of its own."""
    show = "print(*sys.modules)"
    finished = subprocess.run(
        [sys.executable, "-c", "\n".join(["import sys", *(f"{each}\n{show}" for each in STATEMENTS)])],
        cwd=tmp_path_factory.mktemp("elsewhere"),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    return [set(line.split()) for line in finished.stdout.splitlines()]


@pytest.mark.slow
def test_import_loads_no_heavy_package_that_torchmetrics_does_not(loaded: list[set[str]]):
    peer, ours, _ = loaded
    assert "torchmetrics" in peer
    assert "lightning_evalkit" not in peer
    assert "lightning_evalkit.evaluation" in ours
    heavy = {"matplotlib", "mpl_toolkits", "tensorboard", "tensorboardX", "tensorflow", "rich", "jsonargparse"}
    heavy |= {"lightning", "pytorch_lightning", "lightning_fabric", "tokenizers", "accelerate"}
    beyond = {name for name in ours - peer if name.split(".")[0] in heavy or name.startswith("torch.utils.tensorboard")}
    assert beyond == set()


@pytest.mark.slow
def test_packages_of_real_data_are_imported_late(loaded: list[set[str]]):
    *_, made = loaded
    assert "lightning_evalkit.data.real" in made
    assert {"sklearn", "pyarrow", "pandas"} & made == set()
