# SPDX-License-Identifier: Apache-2.0
"""The report's page in a browser: it draws itself without errors, in light and dark and on a phone, and
its figures are those of the spans. Pictures of it are left in build/report."""
import html
import json
import os
import re
import shutil
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
PHONE = 390  # pixels
PICTURES = os.path.join(TOP, "build", "report")
PIPELINE = """{"source": {"files": {"path": "%s"}}, "batch": 4, "epochs": 40, "seed": 1,
 "ops": [{"decode_image": {}}, {"random_resized_crop": {"size": 48}}, {"random_flip": {}},
         {"normalize": {}}]}"""


OTHER = """{"source": {"synthetic": {"samples": 4000, "shape": [64]}}, "batch": 16,
 "ops": [{"cast": {"dtype": "float32"}}]}"""
PAGES = {"a.html": ["a"], "two.html": ["a", "b"], "different.html": ["a", "other"], "tiny.html": ["tiny"],
         "nothing.html": ["nothing"]}


def browser(*arguments, page):
    """Standard output and the lines that the page wrote to its console."""
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--enable-logging=stderr", "--virtual-time-budget=4000", *arguments, "file://" + page],
        capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def in_frame(folder, name, width, height):
    """A page that shows another so wide: the browser's own windows are 500 pixels wide at least."""
    frame = folder / f"frame-{name}"
    frame.write_text(f"""<title>0</title><style>body {{ margin: 0 }} iframe {{ border: 0 }}</style>
        <script>onmessage = e => document.title = e.data</script>
        <iframe src="{name}" width="{width}" height="{height}"></iframe>""")
    return str(frame)


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
    (folder / "other.json").write_text(OTHER)
    runs = (("a", "p", ["--consume", "3ms"]), ("b", "p", ["--threads", "1"]), ("tiny", "p", ["--steps", "1"]),
            ("other", "other", []))
    for name, pipeline, options in runs:
        subprocess.run([MILLRACE, "run", str(folder / f"{pipeline}.json"), "--quiet", "--trace",
                        str(folder / name), *options], check=True, capture_output=True)
    # What is left of a trace whose run was killed before its first batch: a header, no end.
    header = 16 + int.from_bytes((folder / "a").read_bytes()[12:16], "little")
    (folder / "nothing").write_bytes((folder / "a").read_bytes()[:header])
    for page, traces in PAGES.items():
        subprocess.run([MILLRACE, "report", *(str(folder / t) for t in traces), "-o", str(folder / page), "--photos",
                        photos], check=True,
                       capture_output=True)
    return folder


def test_figures_in_the_page_are_those_of_the_spans(made):
    text, console = browser("--dump-dom", page=str(made / "a.html"))
    assert console == []
    page, trace = Figures(text), spans.Trace(made / "a")
    assert page.ready == "yes" and page.foreign == []
    assert {"verdict", "flame", "timeline", "use", "rate", "ops", "batches", "limits", "slowest",
            "setup"} <= page.sections
    close = lambda name, value: page.one(name) == pytest.approx(value, rel=1e-6, abs=2e-9)
    assert close("rate", spans.rate(trace)) and close("spans", len(trace.spans))
    for op in spans.op_times(trace):
        for figure in ("count", "total", "mean", "p50", "p99"):
            assert close(f"ops.{op['name']}.{figure}", op[figure])
    for kind in ("read", "wait_batch", "consume", "deliver", "seal"):
        for figure, value in spans.times(trace.of(kind)).items():
            assert close(f"kinds.{kind}.{figure}", value)
    if trace.end["probes"]["note"] and not len(trace.probes):
        print("this machine lets no thread be probed: functions are not compared")
    else:
        decoding = sum(n for key, n in spans.function_counts(trace).items() if key[0] == "decode_image")
        shown = decoding >= 0.005 * len(trace.probes) and decoding > 0  # a short run may have met none
        assert "functions" in page.sections or not len(trace.probes)
        assert close("functions.0", decoding) if shown else "functions.0" not in page.values
    batches = spans.batch_times(trace).values()
    assert close("batch.wait", sum(b["wait"] for b in batches) / len(batches))
    assert close("batch.delay", sum(b["delay"] for b in batches) / len(batches))
    assert float(page.values["slowest"][0]) == pytest.approx(spans.slowest(trace)[0], rel=1e-6)


def test_one_small_file_without_network(made):
    for name in ("a.html", "two.html"):
        text = (made / name).read_text()
        assert len(text) < 2_000_000
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


@pytest.mark.parametrize("name", ["different", "tiny", "nothing"])
def test_unusual_runs_draw_too(made, name):
    """Two pipelines that share no op; a run of one batch; one that was killed before its first."""
    text, console = browser("--dump-dom", page=str(made / f"{name}.html"))
    page = Figures(text)
    assert console == [] and page.ready == "yes" and "verdict" in page.sections
    shown = re.sub(r"<script.*?</script>|src=\"data:[^\"]*\"", "", text, flags=re.S)
    assert not re.search(r"NaN|Infinity|undefined|>null<", shown)
    assert ("They ran different pipelines" in shown) == (name == "different")


def test_two_runs(made):
    text, console = browser("--dump-dom", page=str(made / "two.html"))
    assert console == [] and "compare" in Figures(text).sections


@pytest.mark.parametrize("name,size,options", [
    ("light", (1200, 3400), []),
    ("dark", (1200, 3400), ["--blink-settings=preferredColorScheme=0"]),
    ("phone", (500, 6200), []),
])
def test_it_draws(made, name, size, options):
    picture = os.path.join(PICTURES, name + ".png")
    page = in_frame(made, "a.html", PHONE, size[1]) if name == "phone" else str(made / "a.html")
    _, console = browser(f"--window-size={size[0]},{size[1]}", f"--screenshot={picture}", *options, page=page)
    assert console == []
    with Image.open(picture) as image:
        assert image.size == size
        corner = image.convert("RGB").getpixel((2, 2))
        colours = image.convert("RGB").crop((0, 0, size[0], 1400)).getcolors(1 << 20)
    assert (sum(corner) < 150) == (name == "dark")
    assert len(colours) > 60  # a page that failed is one colour


@pytest.mark.parametrize("name", ["a", "two"])
def test_nothing_is_wider_than_a_phone(made, name):
    """Only tables scroll sideways, inside their own boxes."""
    page = made / f"{name}-narrow.html"
    page.write_text((made / f"{name}.html").read_text().replace(
        "</body>", "<script>parent.postMessage(document.documentElement.scrollWidth, '*')</script></body>"))
    text, _ = browser("--dump-dom", "--window-size=500,2000", page=in_frame(made, page.name, PHONE, 2000))
    assert int(re.search("<title>(.*?)</title>", text).group(1)) <= PHONE


def test_names_can_be_read_on_a_phone(made):
    """The first column of the wide tables keeps room for a name of an op."""
    page = made / "names.html"
    page.write_text((made / "a.html").read_text().replace("</body>", """<script>parent.postMessage(Math.min(
        ...[...document.querySelectorAll("#ops td:first-child, #functions td:first-child")].map(td => td.clientWidth)), "*")
        </script></body>"""))
    text, _ = browser("--dump-dom", "--window-size=500,2000", page=in_frame(made, page.name, PHONE, 2000))
    assert int(re.search("<title>(.*?)</title>", text).group(1)) >= 110


def test_names_of_files_are_text_alone(made, tmp_path):
    """A sample's name that a browser would take for the beginning of a comment and a script."""
    photos = tmp_path / "</script><!--<script>"
    shutil.copytree(os.path.join(TOP, "tests", "cli", "data", "photos"), photos)
    (tmp_path / "p.json").write_text(PIPELINE % photos)
    for command in (["run", "p.json", "--quiet", "--trace", "t"], ["report", "t", "-o", "page.html"]):
        subprocess.run([MILLRACE, *command], check=True, capture_output=True, cwd=tmp_path)
    text, console = browser("--dump-dom", page=str(tmp_path / "page.html"))
    page = Figures(text)
    assert console == [] and page.ready == "yes" and "verdict" in page.sections


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """Three batches on nodes that stand in no order, so that all charts have several curves."""
    folder = tmp_path_factory.mktemp("simulate")
    (folder / "s.json").write_text("""{"samples": 1281167, "sample_bytes": 117000, "nodes": [1, 256, 16, 4, 64],
        "local_batch": [32, 64, 128], "memory": "100GB", "storage": "2.8GB", "network": "12.5GB", "prepare": 3200,
        "train": 710, "steps": 8}""")
    subprocess.run([MILLRACE, "simulate", "s.json", "-o", "page.html"], check=True, capture_output=True, cwd=folder)
    return folder


@pytest.mark.parametrize("name,width,options", [
    ("light", 1400, []), ("dark", 1400, ["--blink-settings=preferredColorScheme=0"]), ("phone", PHONE, [])])
def test_a_simulation_draws(simulated, name, width, options):
    os.makedirs(PICTURES, exist_ok=True)
    picture = os.path.join(PICTURES, f"simulate-{name}.png")
    size = (max(width, 500), 2600)
    page = in_frame(simulated, "page.html", PHONE, size[1]) if name == "phone" else str(simulated / "page.html")
    _, console = browser(f"--window-size={size[0]},{size[1]}", f"--screenshot={picture}", *options, page=page)
    assert console == []
    with Image.open(picture) as image:
        corner = image.convert("RGB").getpixel((2, 2))
        colours = image.convert("RGB").getcolors(1 << 20)
    assert (sum(corner) < 150) == (name == "dark")
    assert len(colours) > 60


def test_what_a_simulation_draws_lies_inside_its_charts(simulated):
    """Texts too; and curves go from left to right."""
    page = simulated / "measured.html"
    page.write_text((simulated / "page.html").read_text().replace("</html>", """<script>
        let bad = []
        for (const svg of document.querySelectorAll("figure>svg")) {
          const frame = svg.getBoundingClientRect()
          for (const part of svg.children) {
            const box = part.getBoundingClientRect()
            if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
              bad.push(part.outerHTML)
          }
          for (const line of svg.querySelectorAll("path.line")) {
            const x = [...line.getAttribute("d").matchAll(/[ML]([0-9.]+)/g)].map(m => +m[1])
            if (!x.length || x.some((v, i) => i && v <= x[i - 1])) bad.push(line.outerHTML)
          }
        }
        const narrow = document.documentElement.scrollWidth
        document.title = JSON.stringify([document.querySelectorAll("figure>svg").length, bad.slice(0, 3), narrow])
        if (parent != window) parent.postMessage(document.title, "*")</script></html>"""))
    text, console = browser("--dump-dom", "--window-size=1400,2600", page=str(page))
    charts, bad, _ = json.loads(html.unescape(re.search("<title>(.*?)</title>", text).group(1)))
    assert console == [] and charts == 3 * 9 + 1 and bad == []
    text, _ = browser("--dump-dom", "--window-size=500,2000", page=in_frame(simulated, page.name, PHONE, 2000))
    charts, bad, width = json.loads(html.unescape(re.search("<title>(.*?)</title>", text).group(1)))
    assert bad == [] and width <= PHONE
