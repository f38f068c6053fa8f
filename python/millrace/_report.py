# SPDX-License-Identifier: Apache-2.0
"""Reports on traces: what loader(trace=...) wrote, as text, figures and pages."""
import html
import json
import os
import tempfile

from . import _core

_REPORT, _EXPLAIN, _JSON = range(3)
_EXPORTS = {"chrome": 0, "csv": 1}


class _Paged:
    """What has a text and a page: print() shows the one, a notebook the other."""

    @property
    def html(self):
        handle, path = tempfile.mkstemp(suffix=".html")
        os.close(handle)
        try:
            self.save(path)
            with open(path, encoding="utf-8") as file:
                return file.read()
        finally:
            os.unlink(path)

    def __str__(self):
        return self.text

    def _repr_html_(self):
        return (f'<iframe srcdoc="{html.escape(self.html)}" title="millrace report" '
                'style="width:100%;height:760px;border:0;border-radius:12px"></iframe>')


class Report(_Paged):
    """What a trace says. print() shows it as text, a notebook as a page; verdict and figures are
    for programs."""

    def __init__(self, trace, other, photos=None):
        self.trace, self.other, self.photos = trace, other, photos

    @property
    def text(self):
        """Verdict, table of ops, waits, batches, slowest samples."""
        return _core.trace_text(self.trace, _REPORT)

    def explain(self):
        """The arithmetic behind the verdict."""
        return _core.trace_text(self.trace, _EXPLAIN)

    @property
    def figures(self):
        """Every figure, as a dictionary."""
        return json.loads(_core.trace_text(self.trace, _JSON))

    @property
    def verdict(self):
        return self.figures["verdict"]

    def map(self):
        """Which functions the probes found below which op: a FunctionMap, to be kept as CSV or JSON and
        applied to what perf or VTune saw of another run."""
        from ._map import FunctionMap
        return FunctionMap.of(self.figures)

    def save(self, path):
        """Writes the page, complete in one file."""
        _core.trace_page(self.trace, self.other, self.photos, os.fspath(path))

    def export(self, path, format="chrome"):
        """Writes every span: "chrome" for ui.perfetto.dev, or "csv"."""
        if format not in _EXPORTS:
            raise ValueError(f'format must be one of {", ".join(_EXPORTS)}, not {format!r}')
        if self.other is not None and os.path.exists(path) and os.path.samefile(path, self.other):
            raise ValueError(f"{os.fspath(path)} is one of the traces: it would be lost")
        _core.trace_export(self.trace, _EXPORTS[format], os.fspath(path))

    def __repr__(self):
        return f"<millrace.Report {self.trace}: {self.verdict['title']}>"


class Ranks(_Paged):
    """What the traces of a run's ranks say together: who holds the others up, and where they differ."""

    def __init__(self, traces, photos=None):
        self.traces, self.photos = tuple(traces), photos

    @property
    def text(self):
        """A line for each rank, and the ops over all of them."""
        return _core.trace_ranks(self.traces, _REPORT, None, None)

    @property
    def figures(self):
        """Every figure, as a dictionary."""
        return json.loads(_core.trace_ranks(self.traces, _JSON, None, None))

    @property
    def slowest(self):
        """The Report of the rank that holds the others up."""
        figures = self.figures
        return Report(next(r["trace"] for r in figures["ranks"] if r["rank"] == figures["slowest"]), None, self.photos)

    def save(self, path):
        """Writes the page, complete in one file; it also has all of the slowest rank's."""
        _core.trace_ranks(self.traces, _REPORT, self.photos, os.fspath(path))

    def __repr__(self):
        figures = self.figures
        return f"<millrace.Ranks {len(self.traces)} of {figures['world']}: slowest {figures['slowest']}>"



def _path_of(trace):
    path = getattr(trace, "trace", trace)
    if path is None:
        raise ValueError("this loader wrote no trace: open it with loader(trace=FILE)")
    return os.fspath(path)


def report(trace, other=None, out=None, photos=None):
    """Reads what loader(trace=FILE) or `millrace run --trace FILE` wrote; a loader stands for its
    file. With another trace the page compares the two; a list of traces is of all ranks of one run,
    and gives a Ranks. out: write the page there. photos: a folder where the slowest samples are looked
    for by name, for thumbnails on the page; besides the traces nothing else is read."""
    photos = None if photos is None else os.fspath(photos)
    if isinstance(trace, (list, tuple)):
        if other is not None:
            raise ValueError("ranks are not compared with another trace: leave other out")
        result = Ranks([_path_of(t) for t in trace], photos)
    else:
        result = Report(_path_of(trace), None if other is None else _path_of(other), photos)
    result.figures  # a file that is no trace is refused here, not later
    if out is not None:
        result.save(out)
    return result
