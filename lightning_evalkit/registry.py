"""A table of names that refuses duplicates and suggests the nearest name to a wrong one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lightning_evalkit.errors import DeclarationError, listed, meant, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """Names of one kind of thing, in the order they were added; every other part reads this table.

    ``lister`` is a command that lists them, for errors where they are too many.

    >>> colours = Registry[int]("colour")
    >>> colours.add("red", 1, also=["scarlet"])
    >>> colours["red"]
    1
    """

    def __init__(self, kind: str, lister: str | None = None) -> None:
        self.kind, self.lister = kind, lister
        self._entries: dict[str, Entry] = {}
        self._synonyms: dict[str, str] = {}
        self._beside: list[tuple[Registry[Any], str]] = []

    def beside(self, other: Registry[Any], why_not: str) -> None:
        """Have errors explain names of another table."""
        self._beside.append((other, why_not))

    def add(self, name: str, entry: Entry, also: tuple[str, ...] | list[str] = ()) -> None:
        """Add an entry; ``also`` are words that are not names here but lead to this one in an error."""
        if name in self._entries:
            raise DeclarationError(f"the {self.kind} {name!r} exists already; choose another name.")
        self._entries[name] = entry
        self._synonyms.update(dict.fromkeys(map(_word, also), name))

    def __getitem__(self, name: str) -> Entry:
        if name in self._entries:
            return self._entries[name]
        word = _word(name)
        if word in self._synonyms:
            raise DeclarationError(f"the {self.kind} {name!r} is called {self._synonyms[word]!r} here.")
        if word in self._entries:
            raise DeclarationError(f"the {self.kind} {name!r} is written {word!r} here.")
        for table, why_not in self._beside:
            if word in table:
                raise DeclarationError(f"{name!r} is a {table.kind}, {why_not}; {listed(self._entries)}")
        raise DeclarationError(f"there is no {self.kind} {name!r}: {self._instead(word)}")

    def _instead(self, word: str) -> str:
        if self.lister is None:
            return nearest(word, self._entries)
        return f"{meant(word, self._entries)} `{self.lister}` lists all {len(self)}.".lstrip()

    def leads_to(self, name: str) -> bool:
        """Whether a name is one here, or a word that is known to mean one."""
        return name in self._entries or _word(name) in {*self._entries, *self._synonyms}

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _word(name: str) -> str:
    return name.lower().replace(" ", "_").replace("-", "_")
