"""evalkit reproduce: numbers that follow from counts, points where theory says, and a seed that decides about all."""

from __future__ import annotations

import json
import os
import re
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightning_evalkit.cli import main, nested_runs, reproduce
from lightning_evalkit.data.gaussian import best_rates

Capture = pytest.CaptureFixture[str]
Numbers = dict[str, Any]
UNLIKELY = 4.5
"""Standard errors: one of 150,000 measurements is further off by chance, and a seed is fixed."""


class Reproduced:
    """A run of the command, and what it left behind."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.out = folder / "out"
        self.arguments = ("--quick", "--accelerator", "cpu", "--out", str(self.out), *arguments)

    def run(self, *arguments: str) -> Reproduced:
        assert main(["reproduce", *self.arguments, *arguments]) == 0
        return self

    @property
    def text(self) -> str:
        return (self.out / "results.json").read_text(encoding="utf-8")

    @property
    def numbers(self) -> Numbers:
        read: Numbers = json.loads(self.text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
        return read

    def rows(self, *groups: str) -> list[Numbers]:
        chosen = groups or ("scenarios", "one_classifier", "trained_at_each_prevalence")
        return [row for group in chosen for row in self.numbers[group]]

    def logs(self) -> list[str]:
        return sorted({path.parent.relative_to(self.out).as_posix() for path in self.out.rglob("events.out.*")})


class Quick(Reproduced):
    """The run that most tests look at, with what it printed."""

    printed = ""


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Quick:
    """In an empty folder, as a user types it."""
    folder = tmp_path_factory.mktemp("quick")
    ended = Quick(folder)
    before = Path.cwd()
    os.chdir(folder)
    capture = pytest.MonkeyPatch()
    lines: list[str] = []
    capture.setattr("builtins.print", lambda *words, **_: lines.append(" ".join(map(str, words))))
    try:
        ended.run()
    finally:
        os.chdir(before)
        capture.undo()
    ended.printed = "\n".join(lines)
    return ended


@pytest.fixture
def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reproduced:
    """Everything there is, as little of it as possible."""
    monkeypatch.setattr(reproduce, "QUICK", tuple(option.replace("000", "00") for option in reproduce.QUICK))
    monkeypatch.setattr(reproduce, "QUICK_SHARES", (0.5,))
    monkeypatch.setattr(reproduce, "SCENARIOS", ("balanced",))
    return Reproduced(tmp_path, "--epochs", "1")


# ---- numbers


def test_every_row_follows_from_its_counts(quick: Quick):
    rows = quick.rows()
    assert len(rows) == 3 + 3 + 3
    for row in rows:
        tp, fp, fn, tn = (row[cell] for cell in ("tp", "fp", "fn", "tn"))
        total, errors = tp + fp + fn + tn, fp + fn
        assert total == 2000, "every test row once"
        assert row["prevalence"] == pytest.approx((tp + fn) / total, abs=1e-6)
        assert row["accuracy"] == pytest.approx((tp + tn) / total, abs=1e-6)
        assert row["f1"] == pytest.approx(2 * tp / (2 * tp + errors), abs=1e-6)
        assert row["gap_measured"] == pytest.approx(row["accuracy"] - row["f1"], abs=1e-6)
        assert row["gap_by_identity"] == pytest.approx((tn - tp) * errors / (total * (2 * tp + errors)), abs=1e-12)
        assert row["gap_measured"] == pytest.approx(row["gap_by_identity"], abs=1e-6)


def test_shares_of_positives_are_exact(quick: Quick):
    assert [row["prevalence"] for row in quick.rows("scenarios")] == [0.5, 0.1, 0.5]
    for group in ("one_classifier", "trained_at_each_prevalence"):
        assert [row["prevalence"] for row in quick.rows(group)] == [0.1, 0.5, 0.9]
        assert [row["tp"] + row["fn"] for row in quick.rows(group)] == [200, 1000, 1800]


def rates(row: Numbers) -> tuple[float, float]:
    """Recall and specificity."""
    return row["tp"] / (row["tp"] + row["fn"]), row["tn"] / (row["tn"] + row["fp"])


def test_one_classifier_keeps_its_rates(quick: Quick):
    """Positives come from one distribution whatever their share, so hits among them are draws of one binomial."""
    rows = quick.rows("one_classifier")
    for hits, misses in (("tp", "fn"), ("tn", "fp")):
        total = sum(row[hits] + row[misses] for row in rows)
        pooled = sum(row[hits] for row in rows) / total
        for row in rows:
            drawn = row[hits] + row[misses]
            error = sqrt(pooled * (1 - pooled) * (1 / drawn - 1 / total))
            assert abs(row[hits] / drawn - pooled) < UNLIKELY * error


def test_measured_points_lie_on_the_curves(quick: Quick):
    """πr + (1 - π)s and 2πr / (πr + π + (1 - π)(1 - s)) with the pooled rates, within the error of sampling both."""
    rows = quick.rows("one_classifier")
    positives, negatives = (sum(row[a] + row[b] for row in rows) for a, b in (("tp", "fn"), ("tn", "fp")))
    recall = sum(row["tp"] for row in rows) / positives
    specificity = sum(row["tn"] for row in rows) / negatives
    for row in rows:
        share, total = row["prevalence"], 2000
        accuracy = share * recall + (1 - share) * specificity
        f1 = 2 * share * recall / (share * recall + share + (1 - share) * (1 - specificity))
        of_recall = sqrt(recall * (1 - recall) / (share * total))
        of_specificity = sqrt(specificity * (1 - specificity) / ((1 - share) * total))
        # Derivatives of F1 = 2πr / D with D = πr + π + (1 - π)(1 - s): (2π - F1 π) / D and F1 (1 - π) / D.
        divisor = share * recall + share + (1 - share) * (1 - specificity)
        slopes = (2 * share - f1 * share) / divisor, f1 * (1 - share) / divisor
        error = np.hypot(share * of_recall, (1 - share) * of_specificity)
        assert abs(row["accuracy"] - accuracy) < UNLIKELY * error
        assert abs(row["f1"] - f1) < UNLIKELY * np.hypot(slopes[0] * of_recall, slopes[1] * of_specificity)


def test_the_crossing_is_that_of_the_pooled_counts(quick: Quick):
    rows = quick.rows("one_classifier")
    tp, fp, fn, tn = (sum(row[cell] for row in rows) for cell in ("tp", "fp", "fn", "tn"))
    recall, specificity = tp / (tp + fn), tn / (tn + fp)
    crossing = quick.numbers["crossing_prevalence"]
    assert crossing == pytest.approx(specificity / (recall + specificity), abs=1e-12)
    assert crossing < 0.5, "the loss of positives weighs three times, so recall is higher"
    gaps = {row["prevalence"]: row["gap_measured"] for row in rows}
    assert gaps[0.1] > 0 > gaps[0.5] > gaps[0.9]
    # By the delta method ln s - ln r has the variance (1 - s) / (s n) + (1 - r) / (r m); of so many samples it holds.
    spread = 1.96 * sqrt((1 - specificity) / tn + (1 - recall) / tp) * crossing * (1 - crossing)
    assert quick.numbers["crossing_interval"] == pytest.approx([crossing - spread, crossing + spread], abs=0.001)
    assert f"95 % interval [{quick.numbers['crossing_interval'][0]:.4f}, " in quick.printed
    assert "measured, they cross between 0.1 and 0.5" in quick.printed


def test_no_classifier_is_better_than_the_best(quick: Quick):
    """What was trained at a share nears, and by more than sampling error never exceeds, what theory allows there."""
    for row in [*quick.rows("trained_at_each_prevalence"), *quick.rows("scenarios")[:2]]:
        share = row["prevalence"]
        best = best_rates(share, 0.9, 0.0)
        highest = share * best.recall + (1 - share) * best.specificity
        error = sqrt(highest * (1 - highest) / 2000)
        assert abs(row["accuracy"] - highest) < UNLIKELY * error
        if "best_accuracy" in row:
            assert row["best_accuracy"] == pytest.approx(highest, abs=1e-12)
            counts = share * best.recall, (1 - share) * (1 - best.specificity), share * (1 - best.recall)
            f1 = 2 * counts[0] / (2 * counts[0] + counts[1] + counts[2])
            assert row["best_f1"] == pytest.approx(f1, abs=1e-12)


def test_nothing_can_be_learnt_from_poor_features(quick: Quick):
    """Labels that features know nothing about are a fair coin for whatever the model says."""
    [row] = [row for row in quick.rows("scenarios") if row["scenario"] == "poor"]
    assert abs(row["accuracy"] - 0.5) < UNLIKELY * sqrt(0.25 / 2000)
    called = (row["tp"] + row["fp"]) / 2000
    expected = 2 * 0.5 * called / (0.5 + called)
    # Of the positive calls about half are right: tp is hypergeometric, and F1 is proportional to it.
    spread = sqrt(called * (1 - called) * 0.25 / 1999) * 2000
    assert abs(row["f1"] - expected) < UNLIKELY * 2 * spread / (2000 * (0.5 + called))


# ---- what is left behind


def test_results_name_no_place_and_no_time(quick: Quick):
    assert not re.search(r"[/\\][A-Za-z_.]", quick.text)
    assert str(quick.out) not in quick.text
    assert not re.search(r"second|time|20\d\d-\d\d", quick.text)


def test_the_figure_is_drawn(quick: Quick):
    with Image.open(quick.out / "accuracy_equals_f1.png") as image:
        pixels = np.asarray(image.convert("RGB"))
    height, width, _ = pixels.shape
    assert min(height, width) >= 400
    share = (pixels.reshape(-1, 3) != pixels[0, 0]).any(1).mean()
    assert 0.01 < share < 0.9
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 20, "several curves in several colours"


def test_the_report_has_table_and_figure(quick: Quick):
    report = (quick.out / "report.md").read_text(encoding="utf-8")
    [link] = re.findall(r"!\[[^]]+\]\(([^)]+)\)", report)
    assert (quick.out / link).is_file()
    head, rule, *_ = lines = [line for line in report.splitlines() if line.startswith("| ")]
    titles = [cell.strip() for cell in head.strip("|").split("|")]
    assert titles[:6] == ["scenario", "prevalence", "TP", "FP", "FN", "TN"]
    assert set(rule) <= set("|-: ")
    for row, line in zip(quick.rows(), lines[2:], strict=False):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == len(titles)
        assert cells[:6] == [
            row["scenario"],
            f"{row['prevalence']:g}",
            *(str(row[c]) for c in ("tp", "fp", "fn", "tn")),
        ]
        assert cells[6:10] == [f"{row['accuracy']:.4f}", f"{row['f1']:.4f}", *[f"{row['gap_measured']:+.4f}"] * 2]
    for name in ("balanced", "imbalanced", "poor"):
        assert f"## {name}" in report


def test_what_is_printed(quick: Quick):
    logs = quick.out / "logs"
    [line] = [line for line in quick.printed.splitlines() if "tensorboard --logdir" in line]
    assert line.split("--logdir ")[1].strip() == str(logs)
    assert logs.is_dir()
    for name in ("accuracy_equals_f1.png", "report.md", "results.json"):
        assert str(quick.out / name) in quick.printed
    assert f"{quick.numbers['crossing_prevalence']:.4f}" in quick.printed


def test_tensorboard_has_the_numbers_of_the_table(quick: Quick):
    measured = {}
    for folder in (quick.out / "logs").iterdir():
        run, *lines = sorted({path.parent for path in folder.rglob("events.out.*")}, key=lambda path: len(path.parts))
        assert {path.name for path in lines} <= {"accuracy", "f1"}  # two colours of one chart
        read = EventAccumulator(str(run)).Reload()
        tags = read.Tags()["scalars"]
        measured[folder.name] = {
            name: [event.value for event in read.Scalars(name)][-1]
            for name in ("test/accuracy", "test/f1")
            if name in tags
        }
    for row in quick.rows("scenarios", "trained_at_each_prevalence"):
        name = row["scenario"].replace(" ", "_")
        expected = {"test/accuracy": row["accuracy"], "test/f1": row["f1"]}
        assert measured[name] == pytest.approx(expected, abs=1e-7), name


def test_tensorboard_has_the_curves_over_the_share_of_positives(quick: Quick):
    folder = quick.out / "logs" / "over_share_of_positives"
    chart = "% of positives"
    for name in ("accuracy", "f1"):
        read = EventAccumulator(str(folder / name)).Reload()
        curve = {event.step: event.value for event in read.Scalars(f"{chart}/one classifier")}
        assert [*curve] == [*range(1, 100)]
        for row in quick.rows("one_classifier"):
            assert curve[round(100 * row["prevalence"])] == pytest.approx(row[name], abs=0.05), "sampling aside"
        best = {event.step: event.value for event in read.Scalars(f"{chart}/best possible")}
        for row in quick.rows("trained_at_each_prevalence"):
            assert best[round(100 * row["prevalence"])] == pytest.approx(row[f"best_{name}"], abs=1e-6)
    read = EventAccumulator(str(folder)).Reload()
    assert read.Tags()["images"] == [f"{chart}/one classifier, figure", f"{chart}/best possible, figure"]
    assert read.Tags()["tensors"] == ["findings/crossing/text_summary"]


def test_runs_are_named_by_their_folder(quick: Quick):
    runs = {path.parent.relative_to(quick.out / "logs").as_posix() for path in quick.out.rglob("events.out.*")}
    assert {run.partition("/")[0] for run in runs} >= {"balanced", "one_classifier", "trained_at_0.5"}
    assert {run.partition("/")[2] for run in runs} == {"", "accuracy", "f1"}


def test_tensorboard_selects_the_runs_of_a_whole_reproduction(quick: Quick):
    """With more than 40 it deselects all: Images and Text are empty. Shares beyond the quick ones are one run each."""
    runs = {path.parent for path in quick.out.rglob("events.out.*")}
    assert len(runs) + len(reproduce.SHARES) - len(reproduce.QUICK_SHARES) <= 40


def test_no_run_has_a_metric_that_nobody_measured(quick: Quick):
    for run in {path.parent for path in quick.out.rglob("events.out.*")}:
        assert "hp_metric" not in EventAccumulator(str(run)).Reload().Tags()["scalars"]


def test_the_charts_over_the_share_of_positives_come_first(quick: Quick):
    tags = {
        tag
        for run in {path.parent for path in quick.out.rglob("events.out.*")}
        for tag in EventAccumulator(str(run)).Reload().Tags()["scalars"]
    }
    assert [*dict.fromkeys(tag.partition("/")[0] for tag in sorted(tags))][:2] == ["% of positives", "accuracy and F1"]


def test_only_the_chosen_folder_is_written_to(quick: Quick):
    assert [path.name for path in quick.out.parent.iterdir()] == ["out"]
    assert {path.name for path in quick.out.iterdir()} == {
        "accuracy_equals_f1.png",
        "report.md",
        "results.json",
        "logs",
    }


# ---- seeds and repetitions


def test_a_seed_decides_about_every_number(short: Reproduced):
    first = short.run("--seed", "5").text
    logs = short.logs()
    # Runs of an earlier call would be drawn into the same charts: also those of shares that are not asked for now.
    old = [short.out / "logs" / name for name in ("trained_at_0.02", "one_classifier_at_0.02")]
    for folder in (*old, short.out / "logs" / "mine"):
        (folder / "lightning_logs" / "version_0").mkdir(parents=True)
    assert short.run("--seed", "5").text == first, "byte by byte"
    assert short.logs() == logs
    assert not any(folder.exists() for folder in old)
    assert (short.out / "logs" / "mine").exists(), "what it did not make it does not remove"
    again = short.run("--seed", "6").numbers
    for group in ("scenarios", "one_classifier", "trained_at_each_prevalence"):
        [mine], [other] = again[group], json.loads(first)[group]
        assert mine["prevalence"] == other["prevalence"]
        assert (mine["tp"], mine["fp"]) != (other["tp"], other["fp"]), "also the data are others"


def test_an_interrupted_reproduction_keeps_what_it_has(
    short: Reproduced, monkeypatch: pytest.MonkeyPatch, capsys: Capture
):
    real, left = nested_runs.fitted, [1, 0]

    def fitted(*arguments: Any) -> Any:
        if not left[0]:
            del left[0]
            raise KeyboardInterrupt
        left[0] -= 1
        return real(*arguments)

    monkeypatch.setattr(nested_runs, "fitted", fitted)
    assert main(["reproduce", *short.arguments]) == 130
    out, err = capsys.readouterr()
    assert err == "evalkit reproduce: interrupted; what was done so far is kept.\n"
    assert [row["scenario"] for row in short.rows()] == ["balanced"]
    assert f"{short.rows()[0]['accuracy']:.4f}" in out
    before = short.text
    assert main(["reproduce", *short.arguments]) == 130, "in the first training now"
    assert short.text == before, "nothing is no reason to forget something"


# ---- wrong use


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--epochs", "0"), ("epochs", "0")),
        (("--epochs", "-3"), ("epochs", "-3")),
        (("--accelerator", "abacus"), ("accelerator", "abacus")),
        (("--seed", "-1"), ("-1",)),
        (("--out", "in_the_way"), ("in_the_way",)),
        (("--out", "in_the_way/below"), ("in_the_way",)),
    ],
)
def test_wrong_use_is_one_readable_line(
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    expected: tuple[str, ...],
):
    monkeypatch.chdir(tmp_path)
    Path("in_the_way").write_text("a file", encoding="utf-8")
    code = main(["reproduce", "--quick", *arguments])
    out, err = capsys.readouterr()
    assert (code, out) == (2, ""), err
    assert err.startswith("evalkit reproduce: ")
    assert err.count("\n") == 1
    for words in expected:
        assert words in err
    assert Path("in_the_way").read_text(encoding="utf-8") == "a file"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--epochs", "many"), "invalid int value: 'many'"),
        (("--seed", "1.5"), "invalid int value: '1.5'"),
        (("--frobnicate",), "nrecognized arguments: --frobnicate"),
    ],
)
def test_arguments_that_cannot_be_read(capsys: Capture, arguments: tuple[str, ...], expected: str):
    assert main(["reproduce", *arguments]) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") == 1
