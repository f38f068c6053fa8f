# SPDX-License-Identifier: Apache-2.0
"""Which functions belong to which op: found by the probes of one traced run, kept as a file, and applied to what
another profiler saw of another run, which knows functions and no ops.

    mr.report("run.trace").map().save("map.csv")
    mr.FunctionMap.load("map.csv").apply("perf.txt")     # of `perf script`, or a CSV file of VTune's hotspots
"""
from __future__ import annotations

import csv
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

ELSEWHERE = "elsewhere"
_FIELDS = ("op", "function", "object", "share", "probes")


class Row(NamedTuple):
    """A function below an op; share is that of the op's probes."""
    op: str
    function: str
    object: str
    share: float
    probes: int


# ---- What other profilers wrote ----
_FRAME = re.compile(r"^\s+[0-9a-f]+\s+(.+?)(?:\+0x[0-9a-f]+)?\s+\((.*)\)\s*$")


def _perf(lines: Iterator[str]) -> Iterator[tuple[str, str, float]]:
    """The innermost frame of each sample. A sample is a line about the thread, lines of frames and an empty
    one; without call chains, one line that ends in the frame."""
    waiting = False
    for line in lines:
        frame = _FRAME.match(line)
        if frame is None:
            waiting = bool(line.strip()) and not line.startswith("#")
            inline = re.match(r".*:\s+[0-9a-f]+\s+(.+?)(?:\+0x[0-9a-f]+)?\s+\((\S+)\)\s*$", line) if waiting else None
            if inline is not None:
                waiting = False
                yield inline.group(1), os.path.basename(inline.group(2)), 1.0
        elif waiting:
            waiting = False
            yield frame.group(1), os.path.basename(frame.group(2)), 1.0


def _vtune(text: str, path: str) -> Iterator[tuple[str, str, float]]:
    """Rows of `vtune -report hotspots -format csv`, delimited by commas or tabs."""
    table = csv.DictReader(text.splitlines(), delimiter="\t" if "\t" in text.partition("\n")[0] else ",")
    names = {name.strip().lower(): name for name in table.fieldnames or []}
    function = names.get("function") or names.get("function / call stack")
    time = names.get("cpu time") or names.get("cpu time:self")
    if function is None or time is None:
        raise ValueError(f"{path} has no columns Function and CPU Time")
    module = names.get("module")
    for row in table:
        value = re.match(r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)", row[time] or "")
        if value is not None:
            yield row[function].strip(), (row[module] or "").strip() if module else "", float(value.group(1))


def _observed(path: str) -> Iterator[tuple[str, str, float]]:
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    first = text.partition("\n")[0].lower()
    if "function" in first and "cpu time" in first:
        return _vtune(text, path)
    return _perf(iter(text.splitlines()))


# ---- The map ----
class FunctionMap:
    """Rows of (op, function, object, share, probes)."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    @classmethod
    def of(cls, figures: dict[str, Any]) -> "FunctionMap":
        """From the figures of a report."""
        return cls([Row(place["name"], one["name"], one["object"], one["probes"] / place["probes"], one["probes"])
                    for place in figures["functions"]["places"] for one in place["functions"]])

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "FunctionMap":
        """Reads what save() wrote."""
        with open(path, encoding="utf-8", newline="") as file:
            rows = json.load(file) if os.fspath(path).endswith(".json") else list(csv.DictReader(file))
        try:
            return cls([Row(row["op"], row["function"], row["object"], float(row["share"]), int(row["probes"]))
                        for row in rows])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{os.fspath(path)} is no map of functions: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """As CSV, or as JSON where the name ends so."""
        with open(path, "w", encoding="utf-8", newline="") as file:
            if os.fspath(path).endswith(".json"):
                json.dump([row._asdict() for row in self.rows], file)
            else:
                writer = csv.writer(file)
                writer.writerow(_FIELDS)
                writer.writerows(self.rows)

    def shares(self) -> dict[tuple[str, str], dict[str, float]]:
        """Of each function the ops that it was found below, by their shares of its probes."""
        found: dict[tuple[str, str], Counter[str]] = {}
        for row in self.rows:
            found.setdefault((row.function, row.object), Counter())[row.op] += row.probes
        return {key: {op: n / sum(counts.values()) for op, n in counts.items()} for key, counts in found.items()}

    def apply(self, path: str | os.PathLike[str]) -> dict[str, float]:
        """What a file of another profiler has for each op: samples of `perf script`, or seconds of VTune's
        hotspots as CSV. A function below several ops is parted by the map; one that the map does not have
        is "elsewhere". Functions without a name have no place in another build: they are elsewhere, too."""
        known = self.shares()
        by_name: dict[str, set[tuple[str, str]]] = {}
        for key in known:
            by_name.setdefault(key[0], set()).add(key)
        total: Counter[str] = Counter()
        for function, module, weight in _observed(os.fspath(path)):
            key = (function, module)
            if key not in known:  # another build of the library has another file name
                same = by_name.get(function, set())
                key = next(iter(same)) if len(same) == 1 else ("", "")
            for op, share in known.get(key, {ELSEWHERE: 1.0}).items():
                total[op] += share * weight
        return dict(total)
