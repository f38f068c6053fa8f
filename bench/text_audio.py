# SPDX-License-Identifier: Apache-2.0
"""text_audio.py SPEECH_FOLDER PAGES_FOLDER TOKENIZER.json: tokens, web pages and mel spectrograms,
millrace with 2 threads beside what else there is with 2 threads or processes. Takes turns, and prints
the medians of the rounds and their ratio: on a busy machine only the ratio means something.

SPEECH_FOLDER and PAGES_FOLDER have one folder with the files in it. Needs numpy; torch, soundfile,
tiktoken and lxml for the others, each of which is left out where it is not installed. MILLRACE_LIB
names libmillrace.so."""
import glob
import json
import multiprocessing
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests", "python"))
import mrlib  # noqa: E402

ROUNDS, SECONDS = 5, 1.0
MEL = {"n_fft": 1024, "win_length": 320, "hop_length": 160, "n_mels": 80, "power": "1", "log": "log",
       "layout": "time_freq"}


def rate_of(step, size):
    """Units a second: step() is called for SECONDS and does `size` units each time."""
    step()
    begun, done = time.perf_counter(), 0
    while time.perf_counter() - begun < SECONDS:
        step()
        done += size
    return done / (time.perf_counter() - begun)


def compare(title, unit, ours, theirs, size):
    rates = [[], []]
    for _ in range(ROUNDS):
        for place, step in enumerate((ours, theirs)):
            rates[place].append(rate_of(step, size))
    mine, other = map(statistics.median, rates)
    print(f"{title}: {mine:.1f} {unit} beside {other:.1f}, ratio {mine / other:.2f} "
          f"({min(a / b for a, b in zip(*rates)):.2f} to {max(a / b for a, b in zip(*rates)):.2f})",
          flush=True)


class Epochs:
    """A loader that goes on for ever; a call delivers as many samples as the folder has."""

    def __init__(self, folder, ops, n):
        source = {"files": {"path": folder, "extensions": []}}
        self.loader = mrlib.Loader({"source": source, "ops": ops, "batch": n, "epochs": 10 ** 6,
                                    "shuffle": False, "fields": ["image"]}, threads=2)

    def __call__(self):
        batch, err = mrlib.c.c_void_p(), mrlib.Error()
        mrlib._check(mrlib.lib().mr_loader_next(self.loader.loader, batch, err), err)
        mrlib.lib().mr_batch_unref(batch)


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


def in_processes(function, paths):
    pool = multiprocessing.get_context("fork").Pool(2)
    return lambda: pool.map(function, paths, chunksize=max(1, len(paths) // 8))


def tiktoken_of(tokenizer):
    import tiktoken
    model = json.load(open(tokenizer, encoding="utf-8"))["model"]
    plain = [b for b in range(256) if 33 <= b <= 126 or (b >= 161 and b != 173)]
    rest = [b for b in range(256) if b not in plain]
    byte = {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(rest)}
    ranks = {bytes(byte[c] for c in token): i for token, i in model["vocab"].items()
             if all(c in byte for c in token)}
    pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
    return tiktoken.Encoding("same", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


# ---- The three comparisons ---------------------------------------------------------------------


def tokens(folder, tokenizer):
    paths = sorted(glob.glob(f"{folder}/*/*"))
    texts = [open(p, "rb").read().decode("utf-8", "replace") for p in paths]
    size = sum(len(t.encode()) for t in texts) / 1e6
    encoding = tiktoken_of(tokenizer)
    threads = ThreadPoolExecutor(2)
    ours = Epochs(folder, [{"bpe_encode": {"tokenizer": tokenizer}}], len(paths))
    compare("tokens, raw pages, tiktoken", "MB/s", ours,
            lambda: list(threads.map(encoding.encode_ordinary, texts)), size)


def pages(folder):
    paths = sorted(glob.glob(f"{folder}/*/*"))
    for part in ("all", "main"):
        ours = Epochs(folder, [{"extract_text": {"part": part}}], len(paths))
        compare(f"web pages, {part}, lxml's text_content", "pages/s", ours,
                in_processes(lxml_text, paths), len(paths))


def mels(folder):
    paths = sorted(glob.glob(f"{folder}/*/*"))
    ops = [{"decode_audio": {"mono": True}}, {"mel_spectrogram": MEL}]
    compare("80 log mels, soundfile and torch", "files/s", Epochs(folder, ops, len(paths)),
            in_processes(torch_mels, paths), len(paths))


def main(speech, web, tokenizer):
    for name, run in (("torch", lambda: mels(speech)), ("lxml", lambda: pages(web)),
                      ("tiktoken", lambda: tokens(web, tokenizer))):
        try:
            __import__(name)
        except ImportError:
            print(f"without {name}: its comparison is left out")
            continue
        run()


if __name__ == "__main__":
    main(*sys.argv[1:])
