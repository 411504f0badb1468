"""A release that takes away a private name in use fails here with a sentence, and a new use of one is listed."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from private_names import DERIVED, DOCUMENTED, KEYS, NAMES, SINCE
from versions import has

import lightning_evalkit

ROOT = Path(lightning_evalkit.__file__).parent
BASES = ("lightning", "torchmetrics", "jsonargparse")
GONE = "this release of {package} has no {name}, which is in use: keep the upper bound until it is replaced."


def both(place: str) -> list[str]:
    """A place in each of Lightning's two packages, or the one place elsewhere."""
    return [place, place.replace("lightning.pytorch", "pytorch_lightning")][: 1 + ("lightning.pytorch" in place)]


def found(place: str) -> Any:
    module, _, name = place.partition(":")
    there = importlib.import_module(module)
    assert not name or hasattr(there, name), GONE.format(package=module.partition(".")[0], name=place)
    return getattr(there, name) if name else there


@cache
def names_of(owner: Any) -> set[str]:
    """What a module has, or what a class and its bases have, declare or set on themselves."""
    if isinstance(owner, ModuleType):
        return {*vars(owner)}
    names: set[str] = set()
    for each in inspect.getmro(owner)[:-1]:
        names |= vars(each).keys() | vars(each).get("__annotations__", {}).keys()
        with suppress(OSError, TypeError):  # a class of Python that has no source
            names |= set(re.findall(r"\bself\.(\w+)(?:: [^=\n]+)? = ", inspect.getsource(each)))
    return names


@pytest.mark.parametrize("place", [each for place in NAMES for each in both(place)])
def test_a_private_name_is_where_it_was(place: str):
    listed = NAMES[place.replace("pytorch_lightning", "lightning.pytorch")]
    expected = {name for name in listed if name not in SINCE or has(*SINCE[name])}
    gone = expected - names_of(found(place))
    package = place.partition(".")[0].partition(":")[0]
    assert not gone, GONE.format(package=package, name=f"{place}.{', '.join(gone)}")


@pytest.mark.parametrize("place", [each for place in KEYS for each in both(place)])
def test_a_checkpoint_has_its_private_keys(place: str):
    text = inspect.getsource(importlib.import_module(place))
    for key in KEYS[place.replace("pytorch_lightning", "lightning.pytorch")]:
        assert f'"{key}"' in text, GONE.format(package=place.partition(".")[0], name=f"key {key!r}")


def test_a_name_that_is_gone_is_told():
    assert "_wrap_updates" not in names_of(found("torchmetrics:Metric"))
    with pytest.raises(AssertionError, match="this release of torchmetrics has no torchmetrics:Metrics"):
        found("torchmetrics:Metrics")


# ---- none is forgotten


def is_private(name: str) -> bool:
    return re.fullmatch(r"_[a-zA-Z]\w*", name) is not None and not name.endswith("__")


def private_of(places: Any) -> set[str]:
    return {name for place in places for name in names_of(found(place)) if is_private(name)}


class Mentions:
    """The private names of a file: of itself, of others, and as text."""

    def __init__(self, text: str) -> None:
        self.made: set[str] = set()
        self.own: set[str] = set()
        self.others: set[str] = set()
        self.texts: set[str] = set()
        for node in ast.walk(ast.parse(text)):
            self._look_at(node)

    def _look_at(self, node: ast.AST) -> None:
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            mine = ast.unparse(node.value) in ("self", "cls", "super()")
            (self.own if mine else self.others).add(node.attr)
            if mine and isinstance(node.ctx, ast.Store):
                self.made.add(node.attr)
        elif isinstance(node, ast.ClassDef):
            self.own |= {each.name for each in node.body if isinstance(each, ast.FunctionDef) and is_private(each.name)}
            self.made |= {
                name.id
                for each in node.body
                for name in ast.walk(each)
                if isinstance(each, ast.AnnAssign | ast.Assign) and isinstance(name, ast.Name)
            }
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("lightning_evalkit"):
            self.others |= {each.name for each in node.names if is_private(each.name)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and is_private(node.value):
            self.texts.add(node.value)


def foreign(texts: list[str]) -> set[str]:
    """The private names of other packages that these files use.

    An attribute of ``self`` is foreign where a class that ours derive from has it; any other attribute where a listed
    class has it or none of ours does; a text where a listed class has it or it is listed as a key.
    """
    files = [Mentions(text) for text in texts]
    inherited, known = private_of(DERIVED) | {*SINCE}, private_of([*NAMES, *DERIVED]) | {*SINCE}
    mine = set().union(*((each.made | each.own) - inherited for each in files))
    keys = {key for names in KEYS.values() for key in names}
    used: set[str] = set()
    for each in files:
        used |= (each.own & inherited) | {name for name in each.others if name in known or name not in mine}
        used |= each.texts & (known | keys)
    return used - {*DOCUMENTED}


def sources() -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))]


def test_every_private_name_in_use_is_listed_and_every_listed_one_is_in_use():
    texts = sources()
    assert len(texts) > 200
    listed = {name for table in (NAMES, KEYS) for names in table.values() for name in names if is_private(name)}
    assert foreign(texts) == listed
    assert all(re.search(rf"\b{name}\b", "\n".join(texts)) for names in NAMES.values() for name in names)


def bases() -> Iterator[str]:
    """Names of other packages' classes that ours derive from."""
    for text in sources():
        tree = ast.parse(text)
        imported = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in BASES
            for alias in node.names
        }
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        yield from {ast.unparse(base) for node in classes for base in node.bases} & imported


def test_every_class_that_ours_derive_from_is_known():
    known = {place.partition(":")[2] for place in DERIVED}
    assert {*bases()} - {"_Other"} <= known  # the same Callback of the other package
    assert {"Metric", "MetricCollection", "LightningCLI"} <= {*bases()}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("trainer._not_listed_anywhere", {"_not_listed_anywhere"}),
        ("metric._sync_dist", {"_sync_dist"}),
        ("class Mine(LightningCLI):\n    def _parse_ckpt_path(self): self._own = 1", {"_parse_ckpt_path"}),
        ("class Mine(Metric):\n    def update(self): self._computed = None", {"_computed"}),
        ("vars(callback).get('_last_checkpoint_saved')", {"_last_checkpoint_saved"}),
        ("from lightning.pytorch.cli import _hidden", {"_hidden"}),
        ("class Mine:\n    def _own(self): return self._value\nother._own", set()),
    ],
)
def test_a_use_is_found_wherever_it_stands(text: str, names: set[str]):
    assert foreign([text]) == names
