"""A diagnosis holds the findings of all rules, by section, and writes them for people and for programs."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from lightning_evalkit.diagnosis.literal import literal, one_line
from lightning_evalkit.diagnosis.rules import RULES, rules_about
from lightning_evalkit.diagnosis.value import numbered
from lightning_evalkit.intervals import holm

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from lightning_evalkit.diagnosis.finding import Finding
    from lightning_evalkit.diagnosis.rules.table import About

ALPHA = 0.01
"""The probability that the tests of one report find anything where nothing is wrong."""
STYLES = {"error": "bold red", "warning": "yellow", "tip": "cyan"}
"""The style of each severity in a terminal."""
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "tip": "note"}
"""SARIF's word for each severity."""


@dataclass(frozen=True)
class Diagnosis:
    """The answers of all rules: issues, tips and ignored findings, and the rules that passed or did not apply."""

    findings: tuple[Finding, ...]
    passed: tuple[str, ...] = ()
    not_applicable: tuple[str, ...] = ()
    ignored: tuple[Finding, ...] = ()

    @property
    def issues(self) -> tuple[Finding, ...]:
        """Errors and warnings that are certain or significant."""
        return tuple(f for f in self.findings if f.severity != "tip" and f.certainty != "hint")

    @property
    def tips(self) -> tuple[Finding, ...]:
        """Everything else: tips, and hints that may be wrong."""
        return tuple(f for f in self.findings if f not in self.issues)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that make a reported number wrong for certain."""
        return tuple(f for f in self.issues if f.severity == "error")

    def text(self) -> str:
        """The diagnosis as plain text: each finding with its code, its numbers and its remedy."""
        if not self.findings:
            return f"nothing was found; {_number(self.passed, 'rule')} passed."
        counted = f"{_number(self.issues, 'issue')} and {_number(self.tips, 'tip')}"
        lines = [f"{counted}; {_number(self.passed, 'rule')} passed."]
        for finding in (*self.issues, *self.tips):
            lines += [f"{finding.code} {finding.severity}: {one_line(finding.headline)}"]
            lines += [f"  → {one_line(finding.remedy)}"] if finding.remedy else []
        return "\n".join(lines)

    def markdown(self) -> str:
        """The findings as a Markdown list; names in them are shown as they are."""
        if not self.findings:
            return literal(self.text())
        items = (
            f"- **{finding.code}** {finding.severity}: {literal(finding.headline)} *{literal(finding.remedy)}*"
            for finding in (*self.issues, *self.tips)
        )
        return "\n".join(items)

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis as plain values, for JSON."""
        return {
            "issues": [_plain(finding) for finding in self.issues],
            "tips": [_plain(finding) for finding in self.tips],
            "passed": list(self.passed),
            "not_applicable": list(self.not_applicable),
            "ignored": [_plain(finding) for finding in self.ignored],
        }

    def json(self) -> str:
        """The diagnosis as indented JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, default=str)

    def sarif(self) -> dict[str, Any]:
        """The diagnosis in SARIF, which code hosts and editors show; ignored findings are marked as suppressed."""
        everything = (*self.findings, *self.ignored)
        used = sorted({finding.code for finding in everything})
        rules = [
            {
                "id": code,
                "name": RULES[code].name,
                "fullDescription": {"text": RULES[code].finds},
                "help": {"text": RULES[code].remedy},
            }
            for code in used
        ]
        results = [self._result(finding) for finding in everything]
        driver = {"name": "lightning_evalkit", "rules": rules}
        return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}

    def _result(self, finding: Finding) -> dict[str, Any]:
        suppressed = {"suppressions": [{"kind": "external"}]} if finding in self.ignored else {}
        return {
            "ruleId": finding.code,
            "level": LEVELS[finding.severity],
            "message": {"text": f"{finding.headline} {finding.remedy}"},
            "partialFingerprints": {"evalkit/v1": finding.fingerprint},
            "locations": [{"logicalLocations": [{"name": finding.subject}]}],
            **suppressed,
        }

    def __str__(self) -> str:
        return self.text()

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        """Render the text for rich, with severities in colours and names as they are."""

        def lines(text: str, style: str = "", indent: str = "") -> Iterator[Any]:
            for line in wrap(text, options.max_width, subsequent_indent=indent):
                yield console.render_str(line, style=style, emoji=False, markup=False, highlight=False)

        yield from lines(self.text().partition("\n")[0], "bold")
        for finding in (*self.issues, *self.tips):
            words = f"{finding.code} {finding.severity}: {one_line(finding.headline)}"
            yield from lines(words, STYLES[finding.severity], "  ")
            yield from lines(f"  → {one_line(finding.remedy)}" if finding.remedy else "", indent="    ")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.text())

    def _repr_html_(self) -> str:
        first = self.text().partition("\n")[0]
        rows = "".join(
            f"<tr><td>{finding.code}</td><td>{finding.severity}</td><td>{html.escape(one_line(finding.headline))}</td>"
            f"<td>{html.escape(finding.remedy)}</td></tr>"
            for finding in (*self.issues, *self.tips)
        )
        head = "<tr><th>rule</th><th>severity</th><th>finding</th><th>remedy</th></tr>"
        return f"<p>{html.escape(first)}</p>" + (f"<table>{head}{rows}</table>" if rows else "")


def judged(
    seen: Any,
    about: About,
    ignore: Collection[str] = (),
    known: Collection[str] = (),
    unasked: Collection[str] = (),
) -> Diagnosis:
    """Ask every rule; ``ignore`` has codes, ``known`` has fingerprints of findings that were accepted before.

    ``unasked`` has codes of rules that do not apply.
    """
    for code in ignore:
        RULES[code]  # raises if there is no such rule
    asked = {rule.code: None if rule.code in unasked else rule(seen) for rule in rules_about(about)}
    findings = _significant([finding for found in asked.values() for finding in found or ()])
    found_by = {finding.code for finding in findings}
    silent = [code for code, found in asked.items() if found is None]
    passed = [code for code in asked if code not in found_by and code not in silent]
    aside = tuple(finding for finding in findings if finding.code in ignore)
    left = tuple(finding for finding in findings if finding not in aside)
    return without_known(Diagnosis(left, tuple(passed), tuple(silent), aside), known)


def without_known(diagnosis: Diagnosis, known: Collection[str]) -> Diagnosis:
    """Move the findings with these fingerprints to the ignored ones."""
    aside = tuple(finding for finding in diagnosis.findings if finding.fingerprint in known)
    left = tuple(finding for finding in diagnosis.findings if finding not in aside)
    return replace(diagnosis, findings=left, ignored=(*diagnosis.ignored, *aside))


def joined(diagnoses: Sequence[Diagnosis]) -> Diagnosis:
    """Merge several diagnoses; a rule has passed if it was asked and found nothing anywhere."""
    findings = tuple(finding for each in diagnoses for finding in each.findings)
    ignored = tuple(finding for each in diagnoses for finding in each.ignored)
    found = {finding.code for finding in (*findings, *ignored)}
    passed = tuple(sorted({code for each in diagnoses for code in each.passed} - found))
    silent = {code for each in diagnoses for code in each.not_applicable} - found - {*passed}
    return Diagnosis(findings, passed, tuple(sorted(silent)), ignored)


def about_subject(diagnosis: Diagnosis, owner: str) -> Diagnosis:
    """Put the owner of the findings before each of them: a metric of a run, or an evaluation of a stage."""

    def owned(finding: Finding) -> Finding:
        return replace(finding, subject=f"{owner}/{finding.subject}", headline=f"{owner}: {finding.headline}")

    return replace(
        diagnosis,
        findings=tuple(map(owned, diagnosis.findings)),
        ignored=tuple(map(owned, diagnosis.ignored)),
    )


def _significant(findings: list[Finding]) -> list[Finding]:
    """Leave out findings that chance explains, with Holm's correction for all tests of one report."""
    tested = [finding for finding in findings if finding.certainty == "significant"]
    adjusted = holm([finding.evidence["p_value"] for finding in tested])
    chance = {id(finding) for finding, p in zip(tested, adjusted, strict=True) if not p <= ALPHA}
    return [finding for finding in findings if id(finding) not in chance]


def _number(things: tuple[Any, ...], name: str) -> str:
    return numbered(len(things), name)


def _plain(finding: Finding) -> dict[str, Any]:
    facts = ("code", "severity", "certainty", "subject", "headline", "remedy", "evidence", "fingerprint")
    return {name: getattr(finding, name) for name in facts}
