# SPDX-License-Identifier: Apache-2.0
"""The report's page in a browser: it draws itself without errors, in light and dark and on a phone, and
its figures are those of the spans. Pictures of it are left in build/report."""
import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(TOP, "tests", "python"))
import spans  # noqa: E402

MILLRACE = os.environ["MILLRACE"]
PICTURES = os.path.join(TOP, "build", "report")
PIPELINE = """{"source": {"files": {"path": "%s"}}, "batch": 4, "epochs": 40, "seed": 1,
 "ops": [{"decode_image": {}}, {"random_resized_crop": {"size": 48}}, {"random_flip": {}},
         {"normalize": {}}]}"""


def browser(*arguments, page):
    """Standard output and the lines that the page wrote to its console."""
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--enable-logging=stderr", "--virtual-time-budget=4000", *arguments, "file://" + page],
        capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


class Figures(HTMLParser):
    """data-figure: data-value of every element, the parts of the page, and what it would load."""

    def __init__(self, text):
        super().__init__()
        self.values, self.sections, self.foreign, self.ready = {}, set(), [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        if "data-figure" in a:
            self.values.setdefault(a["data-figure"], []).append(a["data-value"])
        if tag == "section":
            self.sections.add(a["id"])
        if tag == "html":
            self.ready = a.get("data-ready")
        for name in ("src", "href"):
            if name in a and not a[name].startswith(("data:", "#")):
                self.foreign.append(a[name])

    def one(self, name):
        value, = self.values[name]
        return float(value)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    os.makedirs(PICTURES, exist_ok=True)
    photos = os.path.join(TOP, "tests", "cli", "data", "photos")
    (folder / "p.json").write_text(PIPELINE % os.path.abspath(photos))
    for name, options in (("a", ["--consume", "3ms"]), ("b", ["--threads", "1"])):
        subprocess.run([MILLRACE, "run", str(folder / "p.json"), "--quiet", "--trace",
                        str(folder / name), *options], check=True, capture_output=True)
    subprocess.run([MILLRACE, "report", str(folder / "a"), "-o", str(folder / "a.html")], check=True)
    subprocess.run([MILLRACE, "report", str(folder / "a"), str(folder / "b"), "-o",
                    str(folder / "two.html")], check=True)
    return folder


def test_figures_in_the_page_are_those_of_the_spans(made):
    text, console = browser("--dump-dom", page=str(made / "a.html"))
    assert console == []
    page, trace = Figures(text), spans.Trace(made / "a")
    assert page.ready == "yes" and page.foreign == []
    assert {"verdict", "flame", "timeline", "use", "rate", "ops", "batches", "limits", "slowest",
            "sheet", "setup"} <= page.sections
    close = lambda name, value: page.one(name) == pytest.approx(value, rel=1e-6, abs=2e-9)
    assert close("rate", spans.rate(trace)) and close("spans", len(trace.spans))
    for op in spans.op_times(trace):
        for figure in ("count", "total", "mean", "p50", "p99"):
            assert close(f"ops.{op['name']}.{figure}", op[figure])
    for kind in ("read", "wait_batch", "consume", "deliver", "seal"):
        for figure, value in spans.times(trace.of(kind)).items():
            assert close(f"kinds.{kind}.{figure}", value)
    if trace.end["probes"]["note"]:
        print("this machine lets no thread be probed: functions are not compared")
    else:
        decoding = sum(n for key, n in spans.function_counts(trace).items() if key[0] == "decode_image")
        assert "functions" in page.sections and close("functions.decode_image", decoding)
    batches = spans.batch_times(trace).values()
    assert close("batch.wait", sum(b["wait"] for b in batches) / len(batches))
    assert close("batch.delay", sum(b["delay"] for b in batches) / len(batches))
    assert float(page.values["slowest"][0]) == pytest.approx(spans.slowest(trace)[0], rel=1e-6)


def test_one_small_file_without_network(made):
    for name in ("a.html", "two.html"):
        text = (made / name).read_text()
        assert len(text) < 2_000_000
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_two_runs(made):
    text, console = browser("--dump-dom", page=str(made / "two.html"))
    assert console == [] and "compare" in Figures(text).sections


@pytest.mark.parametrize("name,size,options", [
    ("light", (1200, 3400), []),
    ("dark", (1200, 3400), ["--blink-settings=preferredColorScheme=0"]),
    ("phone", (500, 5200), []),
])
def test_it_draws(made, name, size, options):
    picture = os.path.join(PICTURES, name + ".png")
    _, console = browser(f"--window-size={size[0]},{size[1]}", f"--screenshot={picture}", *options,
                         page=str(made / "a.html"))
    assert console == []
    with Image.open(picture) as image:
        assert image.size == size
        corner = image.convert("RGB").getpixel((2, 2))
        colours = image.convert("RGB").crop((0, 0, size[0], 1400)).getcolors(1 << 20)
    assert (sum(corner) < 150) == (name == "dark")
    assert len(colours) > 60  # a page that failed is one colour


def test_nothing_is_wider_than_a_phone(made):
    """Only the table scrolls sideways, inside its own box."""
    page = made / "narrow.html"
    page.write_text((made / "a.html").read_text().replace(
        "</body>", "<script>console.log = () => 0; document.title = document.documentElement"
        ".scrollWidth <= innerWidth ? 'fits' : 'wide ' + document.documentElement.scrollWidth"
        "</script></body>"))
    text, _ = browser("--dump-dom", "--window-size=500,2000", page=str(page))
    assert re.search("<title>(.*?)</title>", text).group(1) == "fits"
