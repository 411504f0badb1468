"""``evalkit diagnose``: findings about the numbers of a table, a checkpoint or a run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from jsonargparse import ArgumentParser, Namespace

from lightning_evalkit.cli.counted import add_counted, counted, options_given
from lightning_evalkit.cli.saved_counts import saved_in
from lightning_evalkit.counts import Counts
from lightning_evalkit.diagnosis.accepted import accepted
from lightning_evalkit.diagnosis.numbers import seen_counts
from lightning_evalkit.diagnosis.report import Diagnosis, about_subject, joined, judged, without_known
from lightning_evalkit.errors import InputError
from lightning_evalkit.inputs.numbers import checked_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightning_evalkit.evaluation.base import Evaluation

FAILED = 3
"""The exit code of a strict diagnosis with issues."""


def run(arguments: Sequence[str]) -> int:
    """Print the findings."""
    chosen = _parser().parse_args(list(arguments))
    ignore = tuple(code.strip().upper() for code in chosen.ignore.split(",") if code.strip())
    known = accepted(chosen.baseline) if chosen.baseline else ()
    found = [_diagnosed(name, each, chosen, ignore, known) for name, each in _asked(chosen).items()]
    diagnosis = joined(found) if len(found) > 1 else found[0]
    _show(diagnosis, chosen.format)
    return FAILED if chosen.strict and diagnosis.issues else 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="evalkit diagnose",
        exit_on_error=False,
        description="Say what an expert would say about numbers: equal by which identity, worse than the majority, "
        "too few samples, shifted or overconfident probabilities. Examples: evalkit diagnose --counts 40,10,10,40 ; "
        "evalkit diagnose runs/accuracy_equals_f1/balanced",
    )
    parser.add_argument(
        "saved", type=str, nargs="?", help="A checkpoint, the folder of a run, or a saved evaluation; or counts, below."
    )
    add_counted(parser)
    parser.add_argument("--prevalence", type=float, help="The share of positives where the model will be used.")
    parser.add_argument("--ignore", type=str, default="", help="Rules that are left out: EK201,EK203.")
    parser.add_argument(
        "--baseline",
        type=str,
        help="A JSON file of findings that are known: fingerprints, or an earlier --format json.",
    )
    parser.add_argument("--strict", action="store_true", help=f"End with exit code {FAILED} if there is an issue.")
    parser.add_argument(
        "--format", type=Literal["rich", "markdown", "json", "sarif"], default="rich", help="How to print it."
    )
    return parser


def _asked(chosen: Namespace) -> dict[str, Counts | Evaluation]:
    """The evaluations to diagnose, by name; a given table needs none."""
    if chosen.saved is None:
        if not options_given(chosen) and chosen.targets is None:
            raise InputError(
                "expected what to diagnose: a checkpoint, the folder of a run or a saved evaluation, or --counts "
                "tp,fp,fn,tn, --matrix or --labels."
            )
        table = counted(chosen)
        return {"": table if isinstance(table, Counts) else table.evaluation()}
    if options_given(chosen):
        raise InputError(f"expected a file or {options_given(chosen)[0]}, got both.")
    return {name: each.evaluation for name, each in saved_in(chosen.saved).items()}


def _diagnosed(
    name: str, seen: Counts | Evaluation, chosen: Namespace, ignore: Sequence[str], known: Sequence[str]
) -> Diagnosis:
    if isinstance(seen, Counts):
        if chosen.prevalence is not None:
            checked_share("prevalence", chosen.prevalence)
        return judged(seen_counts(seen, chosen.prevalence), "numbers", ignore, known)
    found = seen.diagnose(chosen.prevalence, ignore)
    return without_known(about_subject(found, name) if name else found, known)


def _show(diagnosis: Diagnosis, form: str) -> None:
    if form == "rich":
        from lightning_evalkit.sinks.terminal import show_diagnosis

        show_diagnosis(diagnosis)
    elif form == "sarif":
        print(json.dumps(diagnosis.sarif(), indent=2, ensure_ascii=False, default=str))
    else:
        print(diagnosis.json() if form == "json" else diagnosis.markdown())
