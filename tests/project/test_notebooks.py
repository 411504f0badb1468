"""The notebooks run, show what is committed, use public names only, and are small and clean."""

import ast
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode
from versions import skip_without_transformers

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.rglob("*.ipynb"))


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def shown(cell: NotebookNode) -> list[str]:
    """The texts a cell prints or gives; pictures by their kind."""
    texts = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        texts.append(output.get("text") or data.get("text/markdown") or data.get("text/plain") or output.output_type)
    return texts


def without_numbers(texts: list[str]) -> list[str]:
    """Trained numbers may differ in their last digits on another processor, and 'larger' may fall to the other side."""
    return [re.sub(r"[\d.,−-]+", "0", text).split("\n")[0] for text in texts]


def imported(notebook: NotebookNode) -> list[tuple[str, str]]:
    source = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    froms = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return [(node.module, alias.name) for node in froms if "evalkit" in node.module for alias in node.names]


def public_names(module: ModuleType) -> set[str]:
    """Those it exports; a room without a list of them exports what it imports from its own files."""
    own = {name for name, value in vars(module).items() if not isinstance(value, ModuleType) and name[0] != "_"}
    return set(getattr(module, "__all__", own))


def test_all_notebooks_are_here():
    assert [path.name for path in NOTEBOOKS] == [
        "01_why_accuracy_equals_f1.ipynb",
        "02_what_is_multilabel_accuracy.ipynb",
        "04_find_the_wrong_number.ipynb",
        "05_how_sure_is_a_metric.ipynb",
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the packages that run notebooks
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_and_shows_what_is_committed(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    skip_without_transformers(path.read_text(encoding="utf-8"))
    monkeypatch.setenv("PYTHONWARNINGS", "ignore:IProgress not found")  # of tqdm, which other packages import
    committed, fresh = read(path), read(path)
    options = {"kernel_name": "python3", "coalesce_streams": True, "resources": {"metadata": {"path": tmp_path}}}
    NotebookClient(fresh, timeout=240, **options).execute()
    compared = 0
    for before, after in zip(committed.cells, fresh.cells, strict=True):
        if "trained(" in before.source:
            assert without_numbers(shown(before)) == without_numbers(shown(after))
        else:
            assert shown(before) == shown(after)
        compared += bool(shown(after))
    assert compared >= 8
    assert list(tmp_path.iterdir()) == [], "running it leaves nothing behind"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_uses_public_names_only(path: Path):
    skip_without_transformers(path.read_text(encoding="utf-8"))
    names = imported(read(path))
    assert len(names) >= 5
    for module, name in names:
        assert name in public_names(import_module(module)), f"{module}.{name}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_small_and_clean(path: Path):
    text, notebook = path.read_text(encoding="utf-8"), read(path)
    assert len(text) < 100_000
    assert not re.search(r"/(home|root|work|tmp|usr)/", text), "a path of the machine it ran on"
    assert [cell for cell in notebook.cells if any(out.output_type == "error" for out in cell.get("outputs", []))] == []
    assert [
        cell for cell in notebook.cells if any(out.get("name") == "stderr" for out in cell.get("outputs", []))
    ] == []
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1)), "run from top to bottom"
