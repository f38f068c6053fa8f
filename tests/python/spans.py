# SPDX-License-Identifier: Apache-2.0
"""An independent reader of traces: the figures of a report, computed again from the file's bytes by
other means. Written from src/span/span.h's description of the format and from docs/tracing.md."""
import collections
import json
import struct

import numpy as np

KINDS = ["read", "fill", "op", "fused", "part", "sample", "seal", "wait_read", "wait_work",
         "wait_batch", "deliver", "consume", "wait_host", "store_read", "store_write", "store_wait",
         "start", "wait_peer", "receive", "send", "request_wait", "first_byte", "transfer", "unpack"]
SPAN = np.dtype([("start", "<u8"), ("duration", "<u8"), ("item", "<i8"), ("batch", "<u4"),
                 ("bytes_in", "<u4"), ("bytes_out", "<u4"), ("kind", "u1"), ("n_ops", "u1"),
                 ("op", "<u2"), ])
PROBE = np.dtype([("at", "<u8"), ("address", "<u8"), ("op", "<u2"), ("kind", "u1"), ("unused", "V5")])


class Trace:
    def __init__(self, path):
        data = open(path, "rb").read()
        magic, version, size = struct.unpack_from("<8sII", data)
        assert magic == b"MRTRACE\n" and version == 1
        self.header = json.loads(data[16:16 + size])
        self.end, parts, probes, at = None, [], [], 16 + size
        while at + 16 <= len(data):
            tag, track, size = struct.unpack_from("<IIQ", data, at)
            at += 16
            if tag == 1:
                n = min(size, len(data) - at) // SPAN.itemsize
                spans = np.frombuffer(data, SPAN, n, at)
                parts.append((np.full(n, track), spans))
            elif tag == 3:
                n = size // PROBE.itemsize
                probes.append((np.full(n, track), np.frombuffer(data, PROBE, n, at)))
            elif tag == 2:
                self.end = json.loads(data[at:at + size])
            at += size
        self.tracks = np.concatenate([t for t, _ in parts]) if parts else np.zeros(0, int)
        self.spans = np.concatenate([s for _, s in parts]) if parts else np.zeros(0, SPAN)
        self.probe_tracks = np.concatenate([np.zeros(0, int), *(t for t, _ in probes)])
        self.probes = np.concatenate([np.zeros(0, PROBE), *(p for _, p in probes)])

    def of(self, kind):
        return self.spans[self.spans["kind"] == KINDS.index(kind)]


def rows(spans):
    """How many rows each span stands for: those behind the first are counted above bit 48."""
    return 1 + np.where(spans["item"] > 0, spans["item"] >> 48, 0)


def times(spans):
    """Count, total, mean, p50 and p99, in seconds: a quantile is the element at floor(q * n), of
    rows that share a span their mean."""
    d = np.sort(spans["duration"] // rows(spans).astype("u8"))
    n, made = len(d), int(rows(spans).sum())
    at = lambda q: float(d[min(int(q * n), n - 1)]) * 1e-9 if n else 0.0
    total = float(spans["duration"].sum()) * 1e-9
    return {"count": made, "total": total, "mean": total / made if n else 0.0, "p50": at(0.5),
            "p99": at(0.99)}


def op_times(trace):
    """Of every op: by itself, or its share of the fused runs it is part of."""
    ops = trace.header["ops"]
    measured, fused = trace.spans[np.isin(trace.spans["kind"], [2, 4])], trace.of("fused")
    result = [times(measured[measured["op"] == i]) for i in range(len(ops))]
    for first in sorted(set(fused["op"].tolist())):
        of_it = fused[fused["op"] == first]
        members = range(first, first + ops[first]["fused"])
        parts = sum(result[i]["total"] for i in members)
        whole = float(of_it["duration"].sum()) * 1e-9
        for i in members:
            result[i]["total"] *= whole / parts
            result[i]["count"] = len(of_it)
            result[i]["mean"] = result[i]["total"] / len(of_it)
    return [{"name": op["name"], **t} for op, t in zip(ops, result)]


def place_by_time(trace, track, at):
    """What ran by itself on a track at a moment."""
    s = trace.spans[(trace.tracks == track) & (trace.spans["start"] <= at)]
    s = s[(s["start"] + s["duration"] > at) & np.isin(s["kind"], [1, 2, KINDS.index("unpack")])]
    assert len(s) < 2
    kind = KINDS[s["kind"][0]] if len(s) else "elsewhere"
    return trace.header["ops"][s["op"][0]]["name"] if kind == "op" else kind


def function_counts(trace):
    """Probes by (what ran, object file, function), of a trace that was not cut off."""
    functions = trace.end["probes"]["functions"]
    result = collections.Counter()
    for track, probe in zip(trace.probe_tracks, trace.probes):
        kind, address = int(probe["kind"]), int(probe["address"])
        place = (trace.header["ops"][probe["op"]]["name"] if kind == 2
                 else KINDS[kind] if kind < len(KINDS) else place_by_time(trace, track, probe["at"]))
        inside = [f for f in functions if f["from"] <= address < f["to"]]
        f = max(inside, key=lambda f: f["from"], default={"object": "", "name": None})
        name = f.get("name", f"+0x{f.get('offset', 0):x}") or "code that the trace does not name"
        result[place, f["object"], name] += 1
    return result


def batch_times(trace):
    """Lotus's quantities for every batch that was taken."""
    result = {}
    for spans, name in ((trace.of("sample"), "work"), (trace.of("wait_batch"), "wait"),
                        (trace.of("consume"), "consume")):
        for batch, duration in zip(spans["batch"].tolist(), spans["duration"].tolist()):
            entry = result.setdefault(batch, {"work": 0, "wait": 0, "consume": 0})
            entry[name] += duration * 1e-9
    for span in trace.of("seal"):
        result[int(span["batch"])]["ready"] = float(span["start"] + span["duration"]) * 1e-9
    for span in trace.of("deliver"):
        result[int(span["batch"])]["taken"] = float(span["start"]) * 1e-9
    taken = {b: e for b, e in sorted(result.items()) if "taken" in e}
    for b, entry in taken.items():
        entry["delay"] = max(0, entry["taken"] - entry["ready"])
        entry["overtaken"] = any(o > b and e["ready"] < entry["ready"] for o, e in taken.items())
    return taken


def rate(trace):
    """Samples a second, from the first batch's delivery to the last's."""
    taken = [e["taken"] for e in batch_times(trace).values()]
    samples = trace.of("sample")
    first = np.sum(rows(samples[samples["batch"] == next(iter(batch_times(trace)))]))
    return (trace.end["samples"] - first) / (taken[-1] - taken[0])


def slowest(trace, n=100):
    """Of samples that were made one by one."""
    spans = trace.of("sample")
    return np.sort(spans["duration"][rows(spans) == 1])[::-1][:n] * 1e-9
