# SPDX-License-Identifier: Apache-2.0
"""Makes one trace of the files that the processes of a profiled loader wrote: a track for the program
and one for each worker, batches numbered through, functions told apart by process."""
from __future__ import annotations

import glob
import json
import os
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _core
from ._profile_ops import NO_BATCH

SPAN = np.dtype([("start", "<u8"), ("duration", "<u8"), ("item", "<i8"), ("batch", "<u4"),
                 ("bytes_in", "<u4"), ("bytes_out", "<u4"), ("kind", "u1"), ("n_ops", "u1"),
                 ("op", "<u2")])
PROBE = np.dtype([("at", "<u8"), ("address", "<u8"), ("op", "<u2"), ("kind", "u1"),
                  ("unused", "u1", (5,))])
_SPANS, _END, _PROBES = 1, 2, 3
_MOST_SLOW = 100
_HEAD, _CHUNK = struct.Struct("<8sII"), struct.Struct("<IIQ")
_SAMPLE = _core.record_kind("sample")
_OF_BATCHES = [_core.record_kind(name) for name in
               ("seal", "wait_work", "wait_batch", "deliver", "consume", "start")]
_PROCESS_BITS = 48  # addresses of a program are below; above stands which process it is


class Part:
    """One process's file, as far as it is good."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            data = file.read()
        magic, _, size = _HEAD.unpack_from(data)
        if magic != b"MRTRACE\n":
            raise ValueError(f"{path} is no trace")
        self.header: dict[str, Any] = json.loads(data[_HEAD.size:_HEAD.size + size])
        self.end: dict[str, Any] = {}
        self.spans: dict[int, list[np.ndarray]] = {}
        self.probes: dict[int, list[np.ndarray]] = {}
        self._read(data, _HEAD.size + size)

    def _read(self, data: bytes, at: int) -> None:
        while at + _CHUNK.size <= len(data):
            tag, track, size = _CHUNK.unpack_from(data, at)
            at += _CHUNK.size
            there = min(size, len(data) - at)
            if tag == _END and there == size:
                self.end = json.loads(data[at:at + size])
            elif tag in (_SPANS, _PROBES):
                kind, into = (SPAN, self.spans) if tag == _SPANS else (PROBE, self.probes)
                into.setdefault(track, []).append(np.frombuffer(data, kind, there // kind.itemsize, at))
            at += there
        for tracks in (self.spans, self.probes):  # a file has fifty pieces a second: they become one
            for track, pieces in tracks.items():
                tracks[track] = [np.concatenate(pieces)]


def parts_of(path: str) -> list[str]:
    """The workers' files beside a trace."""
    return sorted(glob.glob(glob.escape(path) + ".*.part"))


def _sum(into: dict[str, int], more: dict[str, int]) -> dict[str, int]:
    return {name: into.get(name, 0) + more.get(name, 0) for name in {**into, **more}}


class _Joined:
    def __init__(self, main: Part) -> None:
        self.header, self.end = main.header, dict(main.end)
        self.tracks: list[dict[str, Any]] = list(main.header["tracks"])
        self.spans = {i: list(main.spans.get(i, [])) for i in range(len(self.tracks))}
        self.probes = {i: list(main.probes.get(i, [])) for i in range(len(self.tracks))}
        self.dropped = list(main.end.get("dropped", [0] * len(self.tracks)))
        self.usage = list(main.end.get("usage", [{} for _ in self.tracks]))
        self.counts: dict[int, dict[str, Any]] = {}
        probes = main.end.get("probes", {})
        self.functions: list[dict[str, Any]] = list(probes.get("functions", []))
        self.lost, self.note = probes.get("lost", 0), probes.get("note", "")
        self.period = probes.get("period_ns", 0)
        self.processes = 0
        self.disk_bytes = main.end.get("disk_bytes", 0)
        self._count(main)

    def _track_of(self, worker: int) -> int:
        for i, track in enumerate(self.tracks):
            if track == {"kind": "worker", "number": worker}:
                return i
        self.tracks.append({"kind": "worker", "number": worker})
        self.spans[len(self.tracks) - 1], self.probes[len(self.tracks) - 1] = [], []
        self.dropped.append(0)
        self.usage.append({})
        return len(self.tracks) - 1

    def _count(self, part: Part) -> None:
        for entry in part.end.get("counters", {}).get("ops", []):
            known = self.counts.setdefault(entry["op"], {**entry, "calls": 0, "counts": {}})
            known["calls"] += entry["calls"]
            known["counts"] = _sum(known["counts"], entry["counts"])

    def add(self, part: Part) -> None:
        self.processes += 1
        mark = self.processes << _PROCESS_BITS
        track = self._track_of(part.header["worker"])
        self.spans[track] += part.spans.get(0, [])
        for probes in part.probes.get(0, []):
            probes["address"] |= mark
            self.probes[track].append(probes)
        told = part.end.get("probes", {})
        self.functions += [{**one, "from": one["from"] | mark, "to": one["to"] | mark}
                           for one in told.get("functions", [])]
        self.lost += told.get("lost", 0)
        self.note, self.period = self.note or told.get("note", ""), self.period or told.get("period_ns", 0)
        self.dropped[track] += sum(part.end.get("dropped", []))
        self.usage[track] = _sum(self.usage[track], (part.end.get("usage") or [{}])[0])
        self.disk_bytes += part.end.get("disk_bytes", 0)
        self._count(part)

    def number_batches(self) -> None:
        """From 0 on, in the order of epoch and place."""
        every = [spans for pieces in self.spans.values() for spans in pieces]
        if not every:
            return
        numbers = np.unique(np.concatenate([np.unique(spans["batch"]) for spans in every]))
        numbers = numbers[numbers != NO_BATCH]
        for spans in every:
            known = spans["batch"] != NO_BATCH
            new = np.searchsorted(numbers, spans["batch"]).astype(np.uint32)
            spans["batch"] = np.where(known, new, NO_BATCH)
            spans["item"] = np.where(known & np.isin(spans["kind"], _OF_BATCHES), new, spans["item"])

    def part_batches(self) -> None:
        """Where a dataset gives whole batches, each was timed as one sample: it becomes as many, of
        equal length, as a batch has."""
        batches = self.end.get("batches", 0)
        n = round(self.end.get("samples", 0) / batches) if batches else 1
        for track, pieces in self.spans.items():
            for i, spans in enumerate(pieces):
                times = np.where(spans["kind"] == _SAMPLE, n, 1)
                more = np.repeat(spans, times)
                place = np.arange(len(more)) - np.repeat(np.cumsum(times) - times, times)
                of_samples = more["kind"] == _SAMPLE
                length = more["duration"] // n
                more["start"] += np.where(of_samples, place * length, 0).astype(np.uint64)
                more["duration"] = np.where(of_samples, length, more["duration"])
                self.spans[track][i] = more

    def set_batch(self) -> None:
        """Batch samplers do not all tell how many samples a batch has."""
        setup = self.header.get("setup", {})
        every = [spans["batch"][(spans["kind"] == _SAMPLE) & (spans["batch"] != NO_BATCH)]
                 for pieces in self.spans.values() for spans in pieces]
        if every and sum(map(len, every)):
            setup["batch"] = max(setup.get("batch", 1), int(np.bincount(np.concatenate(every)).max()))

    def slowest(self, name: Callable[[int], str]) -> list[dict[str, Any]]:
        """The samples that took longest, with their names."""
        every = [spans[spans["kind"] == _SAMPLE] for pieces in self.spans.values() for spans in pieces]
        if not every:
            return []
        samples = np.concatenate(every)
        longest = samples[np.argsort(samples["duration"], kind="stable")[::-1][:_MOST_SLOW]]
        return [{"ns": int(one["duration"]), "sample": int(one["item"]), "batch": int(one["batch"]),
                 "name": name(int(one["item"]))} for one in longest]

    def last_word(self) -> dict[str, Any]:
        main = self.end.get("counters", {})
        return {**self.end, "dropped": self.dropped, "usage": self.usage, "disk_bytes": self.disk_bytes,
                "counters": {"note": main.get("note", ""),
                             "ops": sorted(self.counts.values(), key=lambda one: one["op"])},
                "probes": {"note": self.note, "period_ns": self.period, "lost": self.lost,
                           "functions": sorted(self.functions, key=lambda one: one["from"])}}


def _padded(value: dict[str, Any]) -> bytes:
    text = json.dumps(value, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)


def _write(joined: _Joined, path: str) -> None:
    header = _padded({**joined.header, "tracks": joined.tracks})
    with open(path, "wb") as file:
        file.write(_HEAD.pack(b"MRTRACE\n", 1, len(header)) + header)
        for tag, chunks in ((_SPANS, joined.spans), (_PROBES, joined.probes)):
            for track, pieces in chunks.items():
                for piece in pieces:
                    file.write(_CHUNK.pack(tag, track, piece.nbytes) + piece.tobytes())
        if joined.end:
            end = _padded(joined.last_word())
            file.write(_CHUNK.pack(_END, 0, len(end)) + end)


def _no_name(sample: int) -> str:
    return ""


def join(path: str, parts: list[str], name: Callable[[int], str] = _no_name) -> None:
    """Puts the workers' files into the program's, and removes them. Replaced whole or not at all.
    `name` names the slowest samples."""
    joined = _Joined(Part(path))
    for part in parts:
        try:
            joined.add(Part(part))
        except (ValueError, KeyError, struct.error):
            continue  # its process was killed before the first millisecond was over
    joined.number_batches()
    if joined.header.get("setup", {}).get("batched"):
        joined.part_batches()
    joined.set_batch()
    if joined.end:
        joined.end["slowest"] = joined.slowest(name)
    beside = f"{path}.joined"
    _write(joined, beside)
    os.replace(beside, path)
    for part in parts:
        os.unlink(part)
