"""Finds calls of ``compute`` under a condition on the rank in the source of a module and of callbacks."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from torch.nn import Module
from torchmetrics import Metric, MetricCollection

from lightning_evalkit.diagnosis.seen import SeenGuard
from lightning_evalkit.evaluation.base import Evaluation

if TYPE_CHECKING:
    from collections.abc import Iterator

RANKS = {"is_global_zero", "global_rank", "local_rank", "get_rank"}
"""Names that show that a condition depends on the rank."""
FOREIGN = ("lightning", "pytorch_lightning", "lightning_evalkit", "torch", "torchmetrics", "builtins", "abc")
"""Packages whose classes are not read."""
JOINING = ("compute", "sync", "sync_context")
EVERYWHERE = ""
"""The condition of a call that all ranks reach."""


def guards(owner: object, module: Module) -> list[SeenGuard]:
    """Metrics of a module or a callback that are computed on some ranks only, and nowhere on all of them."""
    found: dict[str, SeenGuard] = {}
    everywhere: set[str] = set()
    for function, tree in _functions(type(owner)):
        names = _names(tree, owner, module)
        for call, condition in _calls(tree.body, _decorated(tree)):
            path = _joined_metric(call, names)
            if path and condition == EVERYWHERE:
                everywhere.add(path)
            elif path and call.attr == "compute":
                found.setdefault(path, SeenGuard(path, function, condition))
    return [guard for path, guard in found.items() if path not in everywhere]


def _functions(kind: type) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of a class and its parents, without those of other packages."""
    seen: set[str] = set()
    for each in kind.__mro__:
        if each.__module__.partition(".")[0] in FOREIGN:
            continue
        for name, function in vars(each).items():
            if inspect.isfunction(function) and name not in seen:
                seen.add(name)
                try:
                    [tree] = ast.parse(dedent(inspect.getsource(function))).body
                except (OSError, SyntaxError, ValueError):  # no source, or a lambda within a line
                    continue
                if isinstance(tree, ast.FunctionDef):
                    yield name, tree


def _names(tree: ast.FunctionDef, owner: object, module: Module) -> dict[str, object]:
    """Map the parameters of a hook to objects: the owner itself and, if that is a callback, the module."""
    parameters = [each.arg for each in tree.args.args]
    known: dict[str, object] = dict(zip(parameters[:1], [owner], strict=False))
    return known if owner is module else known | dict(zip(parameters[2:3], [module], strict=False))


def _decorated(tree: ast.FunctionDef) -> str:
    words = [ast.unparse(each) for each in tree.decorator_list]
    return next((f"@{each}" for each in words if each.rpartition(".")[2] == "rank_zero_only"), EVERYWHERE)


def _calls(statements: Sequence[ast.stmt], condition: str) -> Iterator[tuple[ast.Attribute, str]]:
    """Every call of a method that synchronises ranks, with the condition on the rank under which it stands."""
    for statement in statements:
        if isinstance(statement, ast.If) and _is_on_rank(statement.test):
            words = f"if {ast.unparse(statement.test)}"
            yield from _called(statement.test, condition)
            branches = [list(_calls(body, words)) for body in (statement.body, statement.orelse)]
            said = [{ast.unparse(call) for call, _ in each} for each in branches]
            for call, inner in (pair for each in branches for pair in each):
                yield call, condition if ast.unparse(call) in said[0] & said[1] else inner
            if not statement.orelse and isinstance(statement.body[-1], ast.Return | ast.Raise | ast.Continue):
                condition = condition or f"after {words}: return"
            continue
        for part in ast.iter_child_nodes(statement):
            if not isinstance(part, ast.stmt):
                yield from _called(part, condition)
        for name in ("body", "orelse", "finalbody"):
            inside = getattr(statement, name, None)
            if isinstance(inside, list):
                yield from _calls(inside, condition)
        for handler in getattr(statement, "handlers", ()):
            yield from _calls(handler.body, condition)


def _called(node: ast.AST, condition: str) -> Iterator[tuple[ast.Attribute, str]]:
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in JOINING:
            yield each.func, condition


def _is_on_rank(test: ast.expr) -> bool:
    words = {getattr(each, "attr", None) or getattr(each, "id", None) for each in ast.walk(test)}
    return bool(words & RANKS)


def _joined_metric(call: ast.Attribute, names: Mapping[str, object]) -> str:
    """The path of the metric whose method this is, if computing it waits for all ranks."""
    path = ast.unparse(call.value)
    return path.partition(".")[2] if _waits_for_all(_value(call.value, names)) else ""


def _value(node: ast.expr, names: Mapping[str, object]) -> Any:
    """Resolve an expression of attributes and constant indices to its object, without running any code of the user."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, names)
        found = vars(owner).get(node.attr) if hasattr(owner, "__dict__") else None
        return owner._modules.get(node.attr) if found is None and isinstance(owner, Module) else found
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        owner, key = _value(node.value, names), node.slice.value
        if isinstance(owner, Module):
            return owner._modules.get(str(key))
        if isinstance(owner, Mapping):
            return owner.get(key)
        is_place = isinstance(owner, Sequence) and isinstance(key, int) and -len(owner) <= key < len(owner)
        return owner[key] if is_place else None
    return None


def _waits_for_all(metric: Any) -> bool:
    """Whether ``compute`` synchronises all ranks, as torchmetrics does by default."""
    if isinstance(metric, Evaluation):
        return _waits_for_all(metric.tally)
    if isinstance(metric, MetricCollection):
        return any(_waits_for_all(each) for _, each in metric.items(True, False))
    return isinstance(metric, Metric) and joins_all(metric)


def joins_all(metric: Metric) -> bool:
    """Whether a metric synchronises all ranks, in the way of torchmetrics or of this package."""
    return bool(metric.sync_on_compute) and metric.process_group is None and metric.dist_sync_fn is None
