"""Errors in one line: reduces a nested message of the argument parser to the part a person can act on."""

from __future__ import annotations

import ast
import inspect
import re
from argparse import ArgumentError
from argparse import ArgumentParser as PlainParser
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

from lightning_evalkit.errors import DeclarationError, InputError, nearest, required

with required("jsonargparse"):
    from jsonargparse import ArgumentParser

UNION = "Does not validate against any of the Union subtypes"
OF_A_CLASS = ("class_path", "init_args", "dict_kwargs")
TOP = ("model", "data", "trainer", "optimizer", "lr_scheduler", "seed_everything", "ckpt_path")
"""The parts of a configuration."""


class WrongError(Exception):
    """A fault of the configuration, in readable words."""


class OneLineParser(PlainParser):
    """A parser of options whose errors are raised, to be printed in one line."""

    def error(self, message: str) -> NoReturn:
        raise ArgumentError(None, message)


USER_ERRORS = (WrongError, ArgumentError, DeclarationError, InputError, OSError)
"""Errors of the user's request, printed in one line; others keep their traceback."""


def in_one_line(error: BaseException) -> str:
    """The innermost complaint of an error, with the name of its option.

    >>> in_one_line(WrongError("Parser key \\"data.size\\":\\n  - Expected a <class 'int'>. Got value: x"))
    'data.size: expected an int, got x.'
    """
    text = str(error)
    unknown = re.search(r"does not accept option '([\w.]+)'", text)
    if unknown:
        return _about_unknown(unknown[1])
    mistyped = re.search(r"unrecognized arguments: --(\w+)", text, re.IGNORECASE)
    if mistyped and (close := get_close_matches(mistyped[1], TOP, 1)) and close[0] != mistyped[1]:
        return f"there is no option --{mistyped[1]}: did you mean --{close[0]}?"
    lacking = re.search(r"arguments are required: (?:fit|validate|test|predict)\.(model|data)\b", text)
    if lacking:
        example = {"model": "BinaryClassifier", "data": "BalancedDataModule"}[lacking[1]]
        return f"expected --{lacking[1]} CLASS, such as --{lacking[1]} {example}, or a --config that names it."
    if "Parser key" not in text and UNION not in text:
        return " ".join(text.split())
    keys = re.findall(r'Parser key "([^"]+)"', text)
    complaint = " ".join(_complaint(text).split())
    return f"{'.'.join(keys)}: {complaint}" if keys else complaint


def _complaint(text: str) -> str:
    inner = text.rpartition("Errors:")[2] if "Errors:" in text else text
    option = re.search(r"class_path '([\w.]+)':\s+Option '([\w.]+)' is not accepted", inner)
    name = re.search(r"Expected a dot import path string: (\S+)", inner)
    missing = re.search(r"module '([\w.]+)' has no attribute '(\w+)'", inner)
    if option:
        return _about_option(option[1], option[2], text)
    if name and not re.search(r"<class '(int|float)'>", inner):
        return f"there is no class {name[1]!r}: {nearest(name[1], _classes(text))}"
    if missing:
        return f"there is no {missing[1]}.{missing[2]}: {nearest(missing[2], _public(missing[1], missing[2]))}"
    return _unset(text) or _expected(inner) or _first(inner)


def _public(module: str, like: str) -> list[str]:
    """The public names of a module; its files only for a name in small letters, which is no class."""
    there = import_module(module)
    names = [name for name in dir(there) if name[0] != "_"]
    return names if like[0].islower() else [name for name in names if not inspect.ismodule(getattr(there, name))]


def _about_unknown(option: str) -> str:
    """The message about an unknown option of the command or the trainer."""
    owner, _, name = option.partition(".")
    trainer = import_module("lightning.pytorch").Trainer
    known = inspect.signature(trainer).parameters if owner == "trainer" else TOP
    return f"there is no option {option!r}: {nearest(name if owner == 'trainer' else owner, known)}"


def _unset(text: str) -> str:
    """The message about a parameter that has no default and no link."""
    given = re.search(r"Given value: Namespace\(class_path='([\w.]+)', init_args=Namespace\((.*)\)\)", text)
    if given is None:
        return ""
    owner = _found(given[1])
    parameters = inspect.signature(owner).parameters.values()
    unset = [each.name for each in parameters if each.default is each.empty and f"{each.name}=None" in given[2]]
    if not unset:
        return ""
    key = ".".join(re.findall(r'Parser key "([^"]+)"', text)) or "model"
    why = ", which the data do not tell" if key == "model" else ""
    return f"{owner.__name__} asks for {unset[0]}{why}: --{key}.{unset[0]} VALUE."


def _about_option(path: str, option: str, text: str) -> str:
    owner = _found(path)
    if f"<class '{owner.__module__}.{owner.__qualname__}'>" not in text:
        return f"{owner.__name__} has no option {option!r}: {nearest(option, _options(owner))}"
    given = re.search(r"Given value: (\{.*\})", text)
    keys = [key for key in ast.literal_eval(given[1]) if key not in OF_A_CLASS] if given else []
    if keys:
        return f"expected class_path and init_args, got {keys[0]!r}: {nearest(keys[0], OF_A_CLASS)}"
    key = re.findall(r'Parser key "([^"]+)"', text)[0]
    return f"expected a class before its option {option!r}: --{key} CLASS --{key}.{option} VALUE."


def _expected(inner: str) -> str:
    """The expected types, and the received value."""
    kinds = re.findall(
        r"Expected (?:an? )?<class '(?:[\w.]*\.)?(\w+)'>", inner.replace("<class 'tuple'>", "<class 'list'>")
    )
    words = [f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}" for kind in kinds if kind != "NoneType"]
    choices = re.findall(r"Expected a typing\.Literal\[([^]]*)\]", inner)
    words += [f"one of {', '.join(choices)}"] if choices else []
    given = re.search(r"(?:Given value|Got value): (.*)", inner)
    received = given[1] if given else "another"
    advice = f": write '[{received}]'" if given and "list" in kinds and received[:1] not in ("[", "{") else ""
    return f"expected {' or '.join(words)}, got {received}{advice}." if words else ""


def _first(inner: str) -> str:
    """The first line of a complaint."""
    lines = [line.strip(" -") for line in inner.split("Given value type")[0].splitlines()]
    lines = [line for line in lines if line and not line.endswith(":") and UNION not in line]
    return re.sub(r'^Parser key "[^"]+":\s*', "", lines[0] if lines else inner)


def _found(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def _classes(text: str) -> list[str]:
    """The names of all classes that fit there."""
    bases = re.findall(r"([\w.]+\.[A-Z]\w*)", re.findall(r"Subtypes: \[(.*)\]", text)[-1])
    return sorted({each.__name__ for base in bases for each in _below(_found(base)) if each.__name__[0] != "_"})


def _below(base: type) -> list[type]:
    direct: list[type] = type.__subclasses__(base)
    return [*direct, *(each for below in direct for each in _below(below))]


def _options(owner: type) -> list[str]:
    """The options of a class that a configuration may set."""
    parser = ArgumentParser()
    parser.add_class_arguments(owner, fail_untyped=False)
    return [action.dest for action in parser._actions if not action.dest.endswith("help")]
