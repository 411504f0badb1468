"""The table of rules: each rule is one function with its page, and everything else reads the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lightning_evalkit.diagnosis.finding import Finding
from lightning_evalkit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lightning_evalkit.diagnosis.finding import Certainty, Severity

About = Literal["run", "numbers"]
Found = tuple[str, str, dict[str, Any]]
"""Subject, message with its own numbers, evidence."""


class Power(NamedTuple):
    """The least share of simulated data sets in which a rule finds a fault; a test plants the fault."""

    situation: str
    samples: int
    share: float

    def __str__(self) -> str:
        return f"In at least {self.share:.0%} of simulated data sets of {self.samples:,} samples, if {self.situation}."


@dataclass(frozen=True)
class Rule:
    """A rule looks for one fault; its ``check`` returns None if the rule does not apply, else what it found."""

    code: str
    name: str
    about: About
    severity: Severity
    certainty: Certainty
    finds: str
    why: str
    remedy: str
    known_problems: str
    example: Callable[[], Any]
    counterexample: Callable[[], Any]
    check: Callable[[Any], list[Found] | None]
    since: str = "0.1.0"
    preview: bool = False
    power: Power | None = None
    """Given if chance decides whether the rule finds the fault."""

    def __call__(self, seen: Any) -> list[Finding] | None:
        """The findings in these facts; None if the rule does not apply."""
        found = self.check(seen)
        if found is None:
            return None
        return [
            Finding(
                code=self.code,
                headline=message,
                evidence=evidence,
                subject=subject,
                remedy=self.remedy,
                severity=self.severity,
                certainty=self.certainty,
            )
            for subject, message, evidence in found
        ]

    def page(self) -> str:
        """The rule in Markdown: what it finds, with an example, why it matters, the remedy, known problems."""
        state = "preview" if self.preview else "stable"
        facts = f"{self.severity}, {self.certainty}, about {self.about}, {state}, since {self.since}"
        example = (self(self.example()) or [])[0].headline
        parts = {"What it finds": self.finds, "Example": example, "Why it matters": self.why}
        parts["Remedy"] = self.remedy
        parts["How often it finds it"] = str(self.power or WHEREVER)
        parts["Known problems"] = self.known_problems
        sections = "\n\n".join(f"## {heading}\n\n{text}" for heading, text in parts.items())
        return f"# {self.code}: {self.name}\n\n*{facts}*\n\n{sections}\n"


WHEREVER = "Wherever it occurs, because nothing about it depends on chance."
RULES: Registry[Rule] = Registry("rule", lister="evalkit rules")


def rule(code: str, name: str, about: About, **facts: Any) -> Callable[[Callable[[Any], list[Found] | None]], Rule]:
    """Add a rule to the table; the docstring of its function is what it finds."""

    def added(check: Callable[[Any], list[Found] | None]) -> Rule:
        finds = " ".join((check.__doc__ or "").split())
        made = Rule(code, name, about, finds=finds, check=check, **facts)
        RULES.add(code, made, also=(name,))
        return made

    return added


def rules_about(about: About) -> Iterator[Rule]:
    """The rules on a run or on numbers, in the order of their codes."""
    return (RULES[code] for code in sorted(RULES) if RULES[code].about == about)
