# SPDX-License-Identifier: Apache-2.0
"""From results to docs/benchmarks.md and docs/benchmarks.svg. Pure: the same results make the same
documents. What a person has to say about them stands in bench/notes.md and is added as it is."""

import os
from statistics import median
from xml.sax.saxutils import escape

OURS = "millrace"
PYTHON = "millrace, from Python"
INDEXED = "millrace, with a row index"
PIXELS = "FFCV (raw mode: pixels, nothing to decode)"  # less work: beside the rivals, not among them
JPEG_LIMIT = "libjpeg-turbo alone, decoding only the crop"
LIMITS = {
    "train": JPEG_LIMIT,
    "val": JPEG_LIMIT,
    "large": JPEG_LIMIT,
    "array": "memcpy alone (2 threads)",
}

TITLES = {
    "train": "(a) Training: RandomResizedCrop 224, flip, normalise",
    "val": "(b) Validation: resize 256, center crop 224, normalise",
    "array": "(c) Samples of 3 KB from one array file",
    "threads": "(d) Training over threads",
    "large": "(e) Training on photos of 2 to 12 megapixels",
}
NOTES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "notes.md")


# ---- Figures --------------------------------------------------------------------------------
class Loader:
    """All runs of one loader on one workload. Round 0 watched memory and counts for nothing else."""

    def __init__(self, name, rows):
        self.name = name
        good = [row for row in rows if "error" not in row]
        timed = [row for row in good if row["round"] > 0]
        self.error = next((row["error"] for row in rows if "error" in row), None)
        self.rates = sorted(row["samples_per_second"] for row in timed)
        self.rate = median(self.rates) if self.rates else None
        self.first = self.middle(timed, "first_batch_seconds")
        self.cpu = self.middle(timed, "cpu_seconds_per_1000")
        self.peak = max((row.get("peak_pss_bytes", 0) for row in good), default=0)

    @staticmethod
    def middle(rows, key):
        values = [row[key] for row in rows if key in row]
        return median(values) if values else None


def loaders_of(results, workload):
    rows = [row for row in results["runs"] if row["workload"] == workload]
    names = list(dict.fromkeys(row["loader"] for row in rows))
    return [Loader(name, [row for row in rows if row["loader"] == name]) for name in names]


def rivals_of(loaders):
    return [x for x in loaders if x.rate and x.name not in (OURS, PYTHON, INDEXED, PIXELS, *LIMITS.values())]


def limit_of(loaders):
    return next((x for x in loaders if x.rate and x.name in LIMITS.values()), None)


def figure(value, digits):
    return "" if value is None else f"{value:,.{digits}f}"


def spread(loader):
    low, high = loader.rates[0], loader.rates[-1]
    return f"-{(1 - low / loader.rate) * 100:.0f} +{(high / loader.rate - 1) * 100:.0f} %"


def by_rate(loaders):
    return sorted(loaders, key=lambda x: -(x.rate or 0))


# ---- Tables ---------------------------------------------------------------------------------
def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def photo_row(loader, best, limit):
    bold = "**" if loader.name == OURS else ""
    return [
        f"{bold}{loader.name}{bold}",
        f"{bold}{figure(loader.rate, 0)}{bold}",
        spread(loader),
        figure(best and loader.rate / best.rate, 2),
        figure(limit and loader.rate / limit.rate, 2),
        figure(loader.first, 2),
        figure(loader.peak / 1e6 or None, 0),
        figure(loader.cpu, 2),
    ]


def photo_table(loaders):
    best, limit = next(iter(by_rate(rivals_of(loaders))), None), limit_of(loaders)
    head = ["loader", "images/s", "spread", "to the best rival", "to the limit", "first batch, s",
            "peak memory, MB", "CPU s per 1,000"]  # fmt: skip
    return table(head, [photo_row(x, best, limit) for x in by_rate(loaders) if x.rate])


def array_table(loaders):
    numpy = next((x for x in loaders if x.name.startswith("numpy") and x.rate), None)
    limit = limit_of(loaders)
    rows = [
        [x.name, f"{1e6 / x.rate:.2f}", spread(x), figure(numpy and x.rate / numpy.rate, 2),
         figure(limit and x.rate / limit.rate, 2), figure(x.first, 2), figure(x.peak / 1e6 or None, 0)]
        for x in by_rate(loaders) if x.rate
    ]  # fmt: skip
    head = ["loader", "us per sample", "spread", "speed to numpy", "to the limit", "first batch, s",
            "peak memory, MB"]  # fmt: skip
    return table(head, rows)


def threads_table(loaders):
    one = loaders[0].rate if loaders else None
    rows = [[x.name, figure(x.rate, 0), spread(x), figure(one and x.rate / one, 2), figure(x.cpu, 2)]
            for x in loaders if x.rate]  # fmt: skip
    return table(["", "images/s", "spread", "to 1 thread", "CPU s per 1,000"], rows)


def failures(loaders):
    failed = [x for x in loaders if x.error]
    return [""] + [f"{x.name} failed: `{x.error}`" for x in failed] if failed else []


def section(results, workload):
    loaders = loaders_of(results, workload)
    make = {"array": array_table, "threads": threads_table}.get(workload, photo_table)
    return [f"## {TITLES[workload]}", "", *make(loaders), *failures(loaders), ""]


# ---- The document ---------------------------------------------------------------------------
def machine_lines(results):
    m = results["machine"]
    return [
        f"{m['cpu']}, {m['cpus']} CPUs, {m['memory_gb']} GB, {m['system']}; libjpeg-turbo "
        f"{m['libjpeg-turbo']}, {m['compiler']}, Python {m['python']}; millrace {m['millrace']}, "
        f"{m['date']}. CPUs that others kept busy before the bench: {m.get('busy', 'not noted')}."
    ]


def warning_lines(results):
    """Figures that nobody should quote say so themselves."""
    busy = results["machine"].get("busy")
    reasons = []
    if results["rounds"] < 3 or results["seconds"] < 5:
        reasons.append(f"{results['rounds']} round(s) of {results['seconds']:g} s are too few")
    if busy is None or busy > 0.1:
        reasons.append("other work was going on, or may have been")
    if not reasons:
        return []
    return [f"**A trial of the bench, not a measurement**: {'; '.join(reasons)}.", ""]


def version_lines(results):
    lines = []
    for name, made in results["environments"].items():
        if "error" in made:
            lines.append(f"- {name}: **could not be installed**: `{made['error']}`")
        else:
            lines.append(f"- {name}: " + ", ".join(f"{k} {v}" for k, v in made["versions"].items()))
    return lines


PIXELS_LINES = [
    "- FFCV's raw mode reads the pixels of all photos from its own file, several times as large as theirs, and decodes",
    "  nothing: it is no rival by \"the best rival\".",
]


def method_lines(results):
    d = results["data"]
    seen = {row["loader"] for row in results["runs"]}
    return f"""\
Made by `./dev bench rivals [FOLDER]`; the figures are in [benchmarks.json](benchmarks.json). Every
loader is a process of its own and does the same work with 2 threads or workers and batches of 128:
{d['photos']} JPEG files of {d['photo_bytes'] / 1e3:.0f} kB on average, page cache warm, over and over.
The loaders take turns; rounds: {results['rounds']}, each run about {results['seconds']:g} s (twice that
in (e)). Rates are medians; spread is how far the slowest and the fastest run were from the median.

- A rate is taken once a loader runs: imports, compilers, starts of workers and the first three batches
  (of our command: the first) are left out. "millrace" is the command, without the digest that it
  computes otherwise; "from Python" is the package, run as the rivals are.
- The limit for photos is libjpeg-turbo decoding only the wanted part of each photo from memory in 2
  threads and throwing the pixels away: no reading, no resize, no normalisation, no batch. That for
  arrays is memcpy of the rows into batches.
- The first batch is timed from the start of the process. Peak memory is the proportional set size
  (PSS) of the process and its children, watched in a run of its own.
- tf.data, OpenCV and SPDL resize without antialiasing, which is less work than Pillow, torchvision,
  DALI and millrace do. FFCV reads a file of its own in which every photo was encoded anew at quality
  90. The torch rows go through the files in order; all others shuffle.""".splitlines() + (PIXELS_LINES if PIXELS in seen else [])


def profile_lines(results):
    profile = results.get("profile")
    if not profile:
        return []
    rows = [[name, f"{share:.1f} %"] for name, share in profile.items()]
    return ["## Where our time goes in (a)", "", "Share of CPU time, sampled by perf.", "",
            *table(["", "share"], rows), ""]  # fmt: skip


def notes_lines():
    if not os.path.exists(NOTES):
        return []
    with open(NOTES, encoding="utf-8") as notes:
        return notes.read().splitlines() + [""]


def document(results):
    done = [w for w in TITLES if any(row["workload"] == w for row in results["runs"])]
    lines = ["# Benchmarks", "", "This page is made by bench/rivals.py; do not edit it.", ""]
    lines += warning_lines(results)
    lines += [*machine_lines(results), "", *method_lines(results), "", *version_lines(results), ""]
    lines += ["![Rates](benchmarks.svg)", ""]
    for workload in done:
        lines += section(results, workload)
    lines += profile_lines(results) + notes_lines()
    return "\n".join(lines).rstrip() + "\n"


# ---- The plot -------------------------------------------------------------------------------
WIDTH, LEFT, BAR, GAP = 760, 290, 18, 6
COLOURS = {**dict.fromkeys((OURS, PYTHON, INDEXED), "#c2410c"), **{name: "#9ca3af" for name in LIMITS.values()}}


def bar(loader, y, scale):
    width = max(1.0, loader.rate * scale)
    colour = COLOURS.get(loader.name, "#4b6b8a")
    text = f"{y + BAR - 5:.0f}"
    return [
        f'<text x="{LEFT - 8}" y="{text}" text-anchor="end">{escape(loader.name)}</text>',
        f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>',
        f'<text x="{LEFT + width + 6:.1f}" y="{text}">{loader.rate:,.0f}</text>',
    ]


def panel(title, loaders, y):
    scale = (WIDTH - LEFT - 90) / max(x.rate for x in loaders)
    parts = [f'<text x="8" y="{y + 14}" font-weight="bold">{escape(title)}, samples/s</text>']
    y += 26
    for loader in by_rate(loaders):
        parts += bar(loader, y, scale)
        y += BAR + GAP
    return parts, y + 16


def plot(results):
    parts, y = [], 8
    for workload in ("train", "val", "large", "array"):
        loaders = [x for x in loaders_of(results, workload) if x.rate]
        if loaders:
            more, y = panel(TITLES[workload], loaders, y)
            parts += more
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" '
        f'height="{y}" font-family="sans-serif" font-size="13" fill="#222">'
    )
    back = f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>'
    return "\n".join([head, back, *parts, "</svg>"]) + "\n"


def write(results, folder):
    for name, text in (("benchmarks.md", document(results)), ("benchmarks.svg", plot(results))):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
            out.write(text)
