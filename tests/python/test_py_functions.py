# SPDX-License-Identifier: Apache-2.0
"""Maps of functions: made of a trace, kept, read again, and applied to what perf and VTune write."""
import shutil
import subprocess
import sys

import pytest

import millrace as mr
from millrace import FunctionMap

FIGURES = {"functions": {"places": [
    {"name": "decode", "probes": 10, "functions": [{"name": "decode_mcu", "object": "libjpeg.so.62", "probes": 6},
                                                   {"name": "memcpy", "object": "libc.so.6", "probes": 4}]},
    {"name": "resize", "probes": 4, "functions": [{"name": "Resample", "object": "_imaging.so", "probes": 2},
                                                  {"name": "memcpy", "object": "libc.so.6", "probes": 2}]}]}}

PERF = """\
# a comment
python 123 [000] 1.5: 1001001 cpu-clock:
\t7f00 decode_mcu+0x1f (/usr/lib/libjpeg.so.62)
\t7f01 jpeg_read (/usr/lib/libjpeg.so.62)

python 123 [001] 1.6: 1001001 cpu-clock:
\t7f02 memcpy+0x3 (/lib/libc.so.6)
\t7f00 decode_mcu+0x1f (/usr/lib/libjpeg.so.62)

python 124 1.7:   250000 cycles:      55aa main+0x1 (/usr/bin/python)
python 124 1.8:   250000 cycles:      55ab Resample+0x9 (/opt/_imaging.cpython-312.so)
python 123 [001] 1.9: 1001001 cpu-clock:
\tffffffff81 [unknown] ([kernel.kallsyms])
"""

VTUNE = """Function,CPU Time,Module
decode_mcu,2.0,libjpeg.so.62
memcpy,3.0s,libc.so.6
"operator(), inner",1.5,libother.so
"""


@pytest.mark.parametrize("name", ["map.csv", "map.json"])
def test_kept_and_read_again(tmp_path, name):
    made = FunctionMap.of(FIGURES)
    assert made.rows[0] == ("decode", "decode_mcu", "libjpeg.so.62", 0.6, 6)
    made.save(tmp_path / name)
    assert FunctionMap.load(tmp_path / name).rows == made.rows
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="no map of functions"):
        FunctionMap.load(tmp_path / "bad.csv")


def test_samples_of_perf(tmp_path):
    (tmp_path / "perf.txt").write_text(PERF)
    # memcpy was found 4 times below decode and 2 times below resize
    assert FunctionMap.of(FIGURES).apply(tmp_path / "perf.txt") == pytest.approx(
        {"decode": 1 + 2 / 3, "resize": 1 + 1 / 3, "elsewhere": 2})


def test_hotspots_of_vtune(tmp_path):
    (tmp_path / "hot.csv").write_text(VTUNE)
    assert FunctionMap.of(FIGURES).apply(tmp_path / "hot.csv") == pytest.approx(
        {"decode": 2 + 2, "resize": 1, "elsewhere": 1.5})
    (tmp_path / "bad.csv").write_text("Function,CPU Time Spent\nf,1\n")
    with pytest.raises(ValueError, match="no columns"):
        FunctionMap.of(FIGURES).apply(tmp_path / "bad.csv")


def test_of_a_trace(tmp_path):
    path = tmp_path / "run.trace"
    with mr.synthetic(samples=64, shape=[200, 300, 3]).resize([64, 64]).batch(8).loader(trace=path, epochs=1) as loader:
        for _ in loader:
            pass
    made = mr.report(path).map()
    for op in {row.op for row in made.rows}:  # none, where probes are not permitted
        assert sum(row.share for row in made.rows if row.op == op) == pytest.approx(1)


def test_what_perf_itself_writes(tmp_path):
    """Its form, from perf where it is installed."""
    perf = shutil.which("perf")
    if perf is None:
        pytest.skip("perf is not installed")
    data = tmp_path / "perf.data"
    done = subprocess.run([perf, "record", "-q", "-e", "cpu-clock", "-g", "-o", data, sys.executable, "-c",
                           "sum(range(3_000_000))"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"perf is not permitted here: {done.stderr.strip()[:80]}")
    text = subprocess.run([perf, "script", "-i", data], capture_output=True, text=True, check=True).stdout
    (tmp_path / "perf.txt").write_text(text)
    samples = sum(1 for line in text.splitlines() if "cpu-clock" in line)
    assert sum(FunctionMap([]).apply(tmp_path / "perf.txt").values()) == samples > 0
