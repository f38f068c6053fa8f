# SPDX-License-Identifier: Apache-2.0
"""text_audio.py DATA [--pages FOLDER] [--into FILE]: tokens, web pages and mel spectrograms, millrace with 2 threads beside what
else there is with 2 threads or processes. They take turns; what counts is the ratio within a turn, and the middle one of all turns
is printed with the rates and the load of the machine beside it.

DATA is what examples/presto/make_data.py makes; pages are the files in FOLDER, else the made ones. MILLRACE_LIB names
libmillrace.so."""
import argparse
import ctypes
import glob
import importlib.metadata
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests", "python"))
import mrlib  # noqa: E402

ROUNDS, SECONDS = 3, 1.0
BATCH = 8  # small, so that little is under way that is not counted
MEL = {"n_fft": 1024, "win_length": 320, "hop_length": 160, "n_mels": 80, "power": "1", "log": "log", "layout": "time_freq"}
HEADS = ("work", "unit", "millrace, 2 threads", "beside", "", "ratio", "from turn to turn", "ratio by CPU time", "load")


def cpu_seconds():
    """Of this process and of those it started that still run."""
    ticks = 0
    for child in multiprocessing.active_children():
        with open(f"/proc/{child.pid}/stat", encoding="utf-8") as file:
            ticks += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def rates_of(begin, size):
    """Units a second, and a second of CPU time: what begin() gives is called for SECONDS and does `size` units each time. It may
    say itself how long it took. Nothing of it is left at work afterwards."""
    step = begin()
    step()
    seconds, done, begun, used = 0.0, 0, time.perf_counter(), cpu_seconds()
    while time.perf_counter() - begun < SECONDS:
        before = time.perf_counter()
        took = step()
        seconds += took if isinstance(took, float) else time.perf_counter() - before
        done += size
    used = cpu_seconds() - used
    getattr(step, "close", lambda: None)()
    return done / seconds, done / used


def compare(title, unit, ours, name, theirs, size):
    turns = [[rates_of(begin, size) for begin in (ours, lambda: theirs)] for _ in range(ROUNDS)]
    rates = [statistics.median(turn[who][0] for turn in turns) for who in range(2)]
    ratios = [[turn[0][what] / turn[1][what] for turn in turns] for what in range(2)]
    row = (title, unit, f"{rates[0]:,.1f}", name, f"{rates[1]:,.1f}", f"{statistics.median(ratios[0]):.2f}",
           f"{min(ratios[0]):.2f} to {max(ratios[0]):.2f}", f"{statistics.median(ratios[1]):.2f}", f"{os.getloadavg()[0]:.1f}")
    print(" | ".join(row), flush=True)
    return row


def document(folder, ops, epochs):
    return {"source": {"files": {"path": folder, "extensions": []}}, "ops": ops, "batch": BATCH, "epochs": epochs, "shuffle": False,
            "fields": ["image"]}


def take(loader, n):
    for _ in range(n):
        batch, err = ctypes.c_void_p(), mrlib.Error()
        mrlib._check(mrlib.lib().mr_loader_next(loader, batch, err), err)
        mrlib.lib().mr_batch_unref(batch)


class Epochs:
    """A loader that goes on until it is closed; a call delivers as many samples as the folder has."""

    def __init__(self, folder, ops, n):
        self.loader = mrlib.Loader(document(folder, ops, 10 ** 6), threads=2)
        self.batches = -(-n // BATCH)
        self.close = self.loader.close

    def __call__(self):
        take(self.loader.loader, self.batches)


class Once:
    """A loader for each call, over a pipeline that is read once: nothing is remembered from one call to the next. The time is
    from opening it, its threads included, to its last batch."""

    def __init__(self, folder, ops, n):
        self.first = mrlib.Loader(document(folder, ops, 1), threads=2)
        self.batches = -(-n // BATCH)
        self.close = self.first.close

    def __call__(self):
        lib, err, loader = mrlib.lib(), mrlib.Error(), ctypes.c_void_p()
        options = self.first._options({"threads": 2})
        begun = time.perf_counter()
        mrlib._check(lib.mr_loader_open(loader, self.first.pipeline, options, err), err)
        take(loader, self.batches)
        took = time.perf_counter() - begun
        lib.mr_loader_close(loader)
        return took


# ---- The others --------------------------------------------------------------------------------


def lxml_text(path):
    import lxml.html
    with open(path, "rb") as file:
        data = file.read()
    return len(lxml.html.fromstring(data).text_content())


def torch_mels(path):
    import soundfile
    import torch
    torch.set_num_threads(1)
    wave, _ = soundfile.read(path, dtype="float32")
    window = torch.hann_window(320)
    spectrum = torch.stft(torch.from_numpy(wave), 1024, 160, 320, window, return_complex=True).abs()
    return tuple(torch.log(torch.ones(80, 513) @ spectrum + 1e-8).shape)


class Processes:
    """Two of them, forked before the loaders' threads begin."""

    def __init__(self):
        self.pool = multiprocessing.get_context("fork").Pool(2)

    def over(self, function, paths):
        return lambda: len(self.pool.map(function, paths, chunksize=max(1, len(paths) // 8)))


def tiktoken_of(tokenizer):
    import tiktoken
    with open(tokenizer, encoding="utf-8") as file:
        model = json.load(file)["model"]
    plain = [b for b in range(256) if 33 <= b <= 126 or (b >= 161 and b != 173)]
    rest = [b for b in range(256) if b not in plain]
    byte = {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(rest)}
    ranks = {bytes(byte[c] for c in token): i for token, i in model["vocab"].items() if all(c in byte for c in token)}
    pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
    return tiktoken.Encoding("same", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


# ---- The comparisons ---------------------------------------------------------------------------


def files_of(folder):
    return sorted(glob.glob(f"{folder}/*/*"))


def mels(data, pool):
    ops = [{"decode_audio": {"mono": True}}, {"mel_spectrogram": MEL}]
    for kind in ("flac", "mp3"):
        paths = files_of(f"{data}/{kind}")
        yield compare(f"{kind.upper()} to 80 log mels", "files/s", partial(Epochs, f"{data}/{kind}", ops, len(paths)),
                      "soundfile + torch.stft, 2 processes", pool.over(torch_mels, paths), len(paths))


def pages(folder, pool):
    paths = files_of(folder)
    for part in ("all", "main"):
        ours = partial(Epochs, folder, [{"extract_text": {"part": part}}], len(paths))
        yield compare(f"web pages to text, `\"part\": \"{part}\"`", "pages/s", ours, "lxml text_content, 2 processes",
                      pool.over(lxml_text, paths), len(paths))


def tokens(folder, tokenizer):
    paths = files_of(folder)
    texts = [open(p, "rb").read().decode("utf-8", "replace") for p in paths]
    size = sum(len(t.encode()) for t in texts) / 1e6
    theirs, threads = tiktoken_of(tokenizer), ThreadPoolExecutor(2)
    ops = [{"bpe_encode": {"tokenizer": tokenizer}}]
    epochs, once = partial(Epochs, folder, ops, len(paths)), partial(Once, folder, ops, len(paths))

    def in_threads():
        return len(list(threads.map(theirs.encode_ordinary, texts)))
    yield compare("tokens, pages seen before", "MB/s", epochs, "tiktoken, 2 threads", in_threads, size)
    yield compare("tokens, pages never seen", "MB/s", once, "tiktoken, 2 threads", in_threads, size)


# ---- All ---------------------------------------------------------------------------------------


def in_utf8(folder, into):
    """A copy of the pages in a folder of one class, in UTF-8: tokens are of text."""
    os.mkdir(f"{into}/all")
    for path in sorted(glob.glob(f"{folder}/*.html")):
        with open(path, "rb") as file, open(f"{into}/all/{os.path.basename(path)}", "wb") as copy:
            copy.write(file.read().decode("utf-8", "replace").encode())
    return into


def page_of(rows, pages_said):
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("torch", "soundfile", "tiktoken", "lxml"))
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next((line.split(": ")[1].strip() for line in file if line.startswith("model name")), "an unknown CPU")
    lines = ["# Sound, web pages and tokens beside others", "",
             f"Made by `./dev bench text_audio` on {cpu}, {os.cpu_count()} CPUs: {versions}; medians of {ROUNDS} turns of {SECONDS:g} s. "
             f"Pages: {pages_said}. The load beside each figure is the machine's average number of tasks that wanted a CPU, ours among "
             "them: above about 3 it was shared with other programs, and only ratios mean something, that of units a second of CPU time "
             "above all.", "",
             "| " + " | ".join(HEADS) + " |", "|" + "---|" * len(HEADS)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--pages")
    parser.add_argument("--into")
    given = parser.parse_args()
    pool = Processes()
    with tempfile.TemporaryDirectory() as folder:
        found = given.pages and glob.glob(f"{given.pages}/*.html")
        web = in_utf8(given.pages, folder) if found else f"{given.data}/pages"
        sizes = [os.path.getsize(p) for p in files_of(web)]
        said = f"{len(sizes)} {'given' if found else 'made'} ones, {statistics.mean(sizes) / 1e3:.0f} KB on average"
        rows = [*mels(given.data, pool), *pages(web, pool), *tokens(web, f"{given.data}/tokenizer.json")]
    if given.into:
        with open(given.into, "w", encoding="utf-8") as file:
            file.write(page_of(rows, said))
    pool.pool.terminate()


if __name__ == "__main__":
    main()
