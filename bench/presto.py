# SPDX-License-Identifier: Apache-2.0
"""presto.py MILLRACE [DATA] [--one NAME]: the seven pipelines of PRESTO (Isenko et al., SIGMOD 2022), cut at every
place, with 2 threads, beside the figures that the paper has for 8 cores and a Ceph cluster; then whether its ten
conclusions hold here, each with its figure, and whether `millrace tune` chooses from short runs what full runs choose. DATA is
what examples/presto/make_data.py made; without it build/presto is made. What was measured is kept in DATA/measured: a pipeline
that is there is not measured again, and --one measures one (or "sizes", the sweep of sample sizes) and prints no page, for
machines that are quiet for some minutes only.

Each strategy is a pack: what stands before the cut is done once. Strategies of a pipeline take turns for ROUNDS
short runs, and the median counts. Each is measured twice: from the page cache, beside the paper's warm figures (epoch
1), and with reads slowed down in the io layer (--storage) as fio measured the paper's Ceph: 910 MB/s, and so long to open a file
that files of 0.2 MB come at 40.4 MB/s, beside its cold ones (epoch 0)."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

ROUNDS, SECONDS, TUNE_SECONDS = 3, 1.0, 1.5
BANDWIDTH, SMALL, SMALL_RATE = 910e6, 0.2e6, 40.4e6  # bytes/s; a small file, and bytes/s of such files
OPEN = SMALL / SMALL_RATE - SMALL / BANDWIDTH
STORAGE = f"{BANDWIDTH / 1e6:.0f}MB,{OPEN * 1e3:.3f}ms"
PAPER = {  # strategy by strategy: samples/s cold, warm
    "cv": [(107, 126), (962, 957), (746, 753), (1789, 1808), (576, 580)],
    "cv2_jpg": [(88, 302), (288, 308), (64, 198), (1571, 2541), (643, 2044)],
    "cv2_png": [(15, 18), (21, 21), (73, 208), (1786, 3285), (631, 2201)],
    "nlp": [(6, 5), (6, 6), (251, 252), (1726, 1764), (131, 138)],
    "nilm": [(42, 43), (55, 55), None, (9053, 9890)],
    "mp3": [(37, 188), None, (205, 210), (5220, 8429)],
    "flac": [(15, 38), None, (47, 47), (1436, 5989)],
}
# Places to cut behind, beside the whole done in every epoch; NILM's windows come decoded from their file.
CUTS = {"cv": ["source", "decode_image", "resize", "normalize"],
        "cv2_jpg": ["source", "decode_image", "resize", "normalize"],
        "cv2_png": ["source", "decode_image", "resize", "normalize"],
        "nlp": ["source", "extract_text", "bpe_encode", "embedding_lookup"],
        "nilm": ["source", "power", "cusum"],
        "mp3": ["source", "decode_audio", "mel_spectrogram"],
        "flac": ["source", "decode_audio", "mel_spectrogram"]}
WINNERS = {"cv": "resize", "cv2_jpg": "resize", "cv2_png": "resize", "nlp": "bpe_encode", "nilm": "cusum",
           "mp3": "mel_spectrogram", "flac": "mel_spectrogram"}
IMAGES = ("cv", "cv2_jpg", "cv2_png")
# Conclusion 11: bytes a sample, and the seconds that the paper's 8 cores took for 15 GB of them from the page cache.
SWEEP = {20_480_000: 4.8, 10_240_000: 4.5, 5_120_000: 4.3, 2_560_000: 4.4, 1_280_000: 4.6, 640_000: 5.2, 320_000: 6.0,
         160_000: 11.2, 80_000: 20.7, 40_000: 42.2, 20_000: 85.5, 10_000: 167.3}
SWEEP_BYTES = 102_400_000


def millrace(*arguments):
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return done.stdout


def rate(document, epochs, *more):
    said = json.loads(millrace("run", document, "--threads", 2, "--epochs", epochs, "--json", "--quiet", "--no-digest",
                               *more))
    return said["samples_per_second"]


class Strategy:
    """A place to cut at, and what came of it."""

    def __init__(self, name, folder, cut, compress=None):
        self.name, self.cut, self.rates, self.slow_rates = name, cut, [], []
        self.offline, self.bytes, self.samples = 0.0, 0, 0
        self.document = f"{DATA}/{name}.json"
        if cut != "-":
            begun, to = time.perf_counter(), f"{folder}/{cut}{compress or ''}"
            more = ["--compress", compress] if compress else []
            said = json.loads(millrace("pack", self.document, "-o", to, "--upto", cut, "--shard", 100,
                                       "--threads", 2, "--json", "--quiet", *more))
            self.offline, self.bytes, self.samples = time.perf_counter() - begun, said["bytes"], said["samples"]
            self.document = f"{to}/pipeline.json"
        self.slow_document = self.document if cut == "-" else self.in_order(to)

    @staticmethod
    def in_order(folder):
        """The shards read one after the other, as the paper did: shuffled sample by sample they are mapped, which
        nothing slows down."""
        document = json.load(open(f"{folder}/pipeline.json"))
        document["shuffle"] = False
        document["source"].get("tar", {}).pop("in_memory", None)  # what is compressed is unpacked in every epoch
        json.dump(document, open(f"{folder}/in_order.json", "w"))
        return f"{folder}/in_order.json"

    def epochs(self, document, *more):
        """So many that a run takes about SECONDS: the start of a short run would count for too much."""
        often, took = 1, 0.0
        while took < 0.5 * SECONDS:
            often = min(100000, max(often + 1, int(often * SECONDS / max(took, 0.01 * SECONDS)))) if took else 1
            said = json.loads(millrace("run", document, "--threads", 2, "--epochs", often, "--json", "--quiet", "--no-digest",
                                       *more))
            took = said["seconds"]
            if often == 100000:
                break
        return often

    def prepare(self):
        self.often = self.epochs(self.document)
        self.slow_often = self.epochs(self.slow_document, "--storage", STORAGE)

    def measure(self):
        self.rates.append(rate(self.document, self.often))
        self.slow_rates.append(rate(self.slow_document, self.slow_often, "--storage", STORAGE))

    def figures(self):
        return {"cut": self.cut, "samples": self.samples, "bytes": self.bytes, "offline": self.offline, "rate": self.rate,
                "slow": self.slow}

    @property
    def rate(self):
        return statistics.median(self.rates)

    @property
    def slow(self):
        return statistics.median(self.slow_rates)


def run(name, folder):
    strategies = [Strategy(name, folder, cut) for cut in ["-", *CUTS[name]]]
    strategies[0].samples = strategies[1].samples
    for one in strategies:
        one.prepare()
    for _ in range(ROUNDS):
        for one in strategies:
            one.measure()
    return strategies


def print_table(name, strategies):
    best, slow = max(strategies, key=lambda s: s.rate), max(strategies, key=lambda s: s.slow)
    for place, one in enumerate(strategies):
        paper = PAPER[name][place] or ("-", "-")
        even = "-"
        if place and one.slow > strategies[0].slow:
            gain = one.samples / strategies[0].slow - one.samples / one.slow
            even = f"{one.offline / gain:.2f}"
        print(f"| {name} | {one.samples} | {one.cut} | {one.bytes / one.samples / 1e6:.4f} | {one.offline / one.samples * 1e3:.2f} | "
              f"{one.slow:,.0f}{' *' if one is slow else ''} | {paper[0]} | "
              f"{one.rate:,.0f}{' *' if one is best else ''} | {paper[1]} | {even} |", flush=True)


# ---- What the conclusions need beside the table ------------------------------------------------


def in_memory(name, folder, strategies):
    """The last strategy kept by the op cache in memory, beside the page cache: samples/s."""
    document = json.load(open(f"{DATA}/{name}.json"))
    last = max(i for i, op in enumerate(document["ops"]) if strategies[-1].cut in op)
    document["ops"].insert(last + 1, {"cache": {"tier": "memory", "size": "2GB", "path": f"/dev/shm/presto-{os.getpid()}"}})
    path = f"{folder}/memory.json"
    json.dump(document, open(path, "w"))
    often, taken = max(4, 2 * strategies[-1].often), {}
    for epochs in (1, 1 + often):  # the first makes what is kept, and it goes with its process
        runs = [json.loads(millrace("run", path, "--threads", 2, "--epochs", epochs, "--json", "--quiet", "--no-digest"))
                for _ in range(ROUNDS)]
        taken[epochs] = min(said["seconds"] for said in runs)
    seen = often * strategies[-1].samples / max(1e-3, taken[1 + often] - taken[1])
    shutil.rmtree(f"/dev/shm/presto-{os.getpid()}", ignore_errors=True)
    return seen


def greyscale(folder):
    """CV with a step that makes samples smaller, before and behind the one that makes them larger; kept up to its end."""
    rates = {}
    for order in (["grayscale", "normalize"], ["normalize"]):
        document = json.load(open(f"{DATA}/cv.json"))
        ops = {next(iter(op)): op for op in document["ops"]}
        ops["grayscale"] = {"grayscale": {"channels": 1}}
        document["ops"] = [ops["decode_image"], ops["resize"], *(ops[name] for name in order), ops["random_crop"]]
        path, to = f"{folder}/{'-'.join(order)}.json", f"{folder}/{'-'.join(order)}"
        json.dump(document, open(path, "w"))
        millrace("pack", path, "-o", to, "--upto", "normalize", "--shard", 100, "--threads", 2, "--json", "--quiet")
        slow = Strategy.in_order(to)
        rates[order[0]] = statistics.median(rate(slow, 2, "--storage", STORAGE) for _ in range(ROUNDS))
    return rates["grayscale"] / rates["normalize"]


def sample_sizes(folder):
    """Bytes a second for samples of different sizes, as many bytes of each, as .npy in the page cache. They take turns."""
    import numpy
    for size in SWEEP:
        n = SWEEP_BYTES // size
        numpy.save(f"{folder}/{size}.npy", numpy.ones((n, size // 4), numpy.float32))
        document = {"source": {"array": {"path": f"{folder}/{size}.npy"}}, "batch": max(1, min(n, 20_480_000 // size)), "seed": 1}
        with open(f"{folder}/{size}.json", "w", encoding="utf-8") as file:
            json.dump(document, file)
    turns = [[rate(f"{folder}/{size}.json", 20) for size in SWEEP] for _ in range(ROUNDS)]
    return [statistics.median(seen) * size for seen, size in zip(zip(*turns), SWEEP)]


def said_by_tune(name, *more):
    """The cut that tune chooses for many epochs, and the rates that it saw, by cut."""
    said = json.loads(millrace("tune", f"{DATA}/{name}.json", "--keep", "pack tar", "--threads", 2, "--epochs", 1000, "--seconds",
                               TUNE_SECONDS, "--scratch", DATA, "--json", "--quiet", *more))
    cut_of = lambda row: row["behind"] if row["keeps"] != "nothing" else "-"
    rates = {cut_of(row): row["samples_per_second"] for row in said["strategies"] if row["measured"] and row["reads"] == 32}
    return {"chosen": cut_of(next(row for row in said["strategies"] if row["chosen"])), "rates": rates}


# ---- Conclusions -------------------------------------------------------------------------------


def said(number, text, holds, figure):
    verdict = "not measured" if not figure else f"holds ({figure})" if holds else f"does not hold ({figure})"
    print(f"{number}. {text}: {verdict}", flush=True)


def at(strategies, cut):
    return next(one for one in strategies if one.cut == cut)


def conclusions(results, extra):
    best = {n: max(s, key=lambda one: one.slow) for n, s in results.items()}
    last = {n: s[-1] for n, s in results.items()}
    said(1, "Doing all in every epoch is never the fastest, and the winners are the paper's",
         all(best[n].cut == WINNERS[n] for n in results),
         ", ".join(f"{n} {best[n].cut}{'' if best[n].cut == WINNERS[n] else ' instead of ' + WINNERS[n]}" for n in results))
    four = [n for n in (*IMAGES, "nlp") if n in results]
    said(2, "Doing all once is not the best for images and text, and is for signals and sound",
         all((last[n].slow < best[n].slow) == (n in four) for n in results),
         ", ".join(f"{n} {best[n].slow / last[n].slow:.1f} times slower" for n in four))
    bound = {n: BANDWIDTH / (last[n].bytes / last[n].samples) for n in four}
    said(3, "There the last step makes samples larger, and bandwidth is the bound",
         all(last[n].bytes > best[n].bytes and last[n].slow <= 1.02 * bound[n] for n in four),
         ", ".join(f"{n} {last[n].bytes / best[n].bytes:.1f} times larger, at {last[n].slow / bound[n]:.0%} of the bound" for n in four))
    two = [n for n in ("cv2_jpg", "cv2_png") if n in results]
    said(4, "From memory the ranking stays and the factor shrinks",
         all(1 < at(results[n], "resize").rate / last[n].rate < best[n].slow / last[n].slow for n in two),
         ", ".join(f"{n} {best[n].slow / last[n].slow:.2f} to {at(results[n], 'resize').rate / last[n].rate:.2f}" for n in two))
    gains = {n: at(results[n], "source").slow / results[n][0].slow for n in four}
    said(5, "Files one behind the other: 1.4 times and more for images, nothing for text, which the CPU bounds",
         all(gains[n] >= 1.4 for n in gains if n != "nlp") and gains.get("nlp", 1) < 1.4,
         ", ".join(f"{n} {gain:.1f}" for n, gain in gains.items()))
    cpu = [(n, cut) for n, cut in (("nlp", "extract_text"), ("mp3", "decode_audio"), ("flac", "decode_audio")) if n in results]
    said(6, "The page cache does not mend what the CPU bounds",
         all(at(results[n], cut).rate < 1.1 * at(results[n], cut).slow for n, cut in cpu),
         ", ".join(f"{n} {cut} {at(results[n], cut).rate / at(results[n], cut).slow:.2f} times" for n, cut in cpu))
    memory = extra.get("memory", {})
    said(7, "Samples in memory are not slower than in the page cache",
         all(value >= 0.95 * last[n].rate for n, value in memory.items()),
         ", ".join(f"{n} {value / last[n].rate:.2f} times" for n, value in memory.items()))
    packed = extra.get("packed", {})
    said(8, "Compression pays only where it saves 73 % and more, and bandwidth is the bound",
         all(gain < 1.05 or saved >= 0.73 for gain, saved in packed.values()),
         ", ".join(f"{n} saves {saved:.0%}, {gain:.2f} times" for n, (gain, saved) in packed.items()))
    threads = extra.get("threads", {})
    said(9, "The right cut brings more than the second thread",
         all(cut > thread for cut, thread in threads.values()),
         ", ".join(f"{n} {cut:.1f} against {thread:.1f}" for n, (cut, thread) in threads.items()))
    said(10, "A step that makes samples smaller belongs early (greyscale)", extra.get("grey", 0) >= 2.8,
         f"{extra['grey']:.1f} times" if "grey" in extra else "")
    sizes = extra.get("sizes", [])
    said(11, "Not of the paper's, where the smallest are 35 times slower: small samples are as quick as large ones",
         bool(sizes) and min(sizes) * 2 > max(sizes),
         ", ".join(f"{size / 1e6:g} MB {seen / 1e9:.1f} GB/s" for size, seen in zip(SWEEP, sizes)) + "; the paper's: "
         + ", ".join(f"{15 / seconds:.2f}" for seconds in SWEEP.values()))
    below = [f"{n} {one.cut} ({where} {value:,.0f})" for n, s in results.items() for place, one in enumerate(s) if PAPER[n][place]
             for where, value, papers in (("slow", one.slow, PAPER[n][place][0]), ("cache", one.rate, PAPER[n][place][1]))
             if value < papers]
    said(12, "Every rate is above the paper's of 8 cores, cold and warm", not below,
         "below: " + ", ".join(below) if below else "all")


def tuned(results, extra):
    right, within, n = 0, 0, 0
    for name, strategies in results.items():
        for label, value in (("slow storage", lambda one: one.slow), ("page cache", lambda one: one.rate)):
            said = extra["tune"][name][label]
            best = max(strategies, key=value)
            mine = next((one for one in strategies if one.cut == said["chosen"]), strategies[0])
            same = mine is best or value(mine) >= 0.95 * value(best)
            errors = {one.cut: said["rates"][one.cut] / value(one) - 1 for one in strategies if one.cut in said["rates"]}
            right += same and label == "slow storage"
            within += sum(abs(error) <= 0.15 for error in errors.values())
            n += len(errors)
            print(f"- {label}, {name}: {said['chosen']}, full runs: {best.cut}{'' if same else ' (another)'}; rates off by "
                  + ", ".join(f"{where} {error:+.0%}" for where, error in errors.items()), flush=True)
    print(f"\ntune chooses as full runs in {right} of {len(results)} with slow storage; "
          f"{within} of {n} rates are within 15 %")


def compression(name, folder, strategies):
    """What the last strategy gains from zstd on slow storage where each epoch reads and unpacks all of it."""
    plain, small = strategies[-1], Strategy(name, folder, strategies[-1].cut, "zstd")
    often = small.epochs(small.slow_document, "--storage", STORAGE)
    seen = statistics.median(rate(small.slow_document, often, "--storage", STORAGE) for _ in range(ROUNDS))
    return seen / plain.slow, 1 - small.bytes / plain.bytes


def second_thread(strategies):
    one = json.loads(millrace("run", strategies[0].document, "--threads", 1, "--epochs", strategies[0].often, "--json", "--quiet",
                              "--no-digest"))["samples_per_second"]
    return max(s.rate for s in strategies) / strategies[0].rate, strategies[0].rate / one


# ---- What was measured is kept ---------------------------------------------------------------------


def measured_pipeline(name, folder):
    strategies = run(name, folder)
    made = {"strategies": [one.figures() for one in strategies], "load": os.getloadavg()[0], "threads": second_thread(strategies),
            "tune": {"slow storage": said_by_tune(name, "--storage", STORAGE), "page cache": said_by_tune(name)}}
    if name in ("cv2_jpg", "cv2_png", "flac", "mp3", "nilm"):
        made["memory"] = in_memory(name, folder, strategies)
    if name != "nlp":
        made["packed"] = compression(name, folder, strategies)
    if name == "cv":
        made["grey"] = greyscale(folder)
    return made


def measured(name):
    path = f"{DATA}/measured/{name}.json"
    if not os.path.exists(path):
        folder = tempfile.mkdtemp(prefix="presto-", dir=DATA)
        try:
            made = sample_sizes(folder) if name == "sizes" else measured_pipeline(name, folder)
        finally:
            shutil.rmtree(folder)
        os.makedirs(f"{DATA}/measured", exist_ok=True)
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            json.dump(made, file)
        os.rename(f"{path}.part", path)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        model = next(line.split(": ")[1].strip() for line in lines if line.startswith("model name"))
    print("# PRESTO's seven pipelines\n")
    print(f"Made by `./dev bench presto` on {model}, {os.cpu_count()} CPUs: 2 threads, medians of {ROUNDS} runs of {SECONDS} s in turn; the paper "
          f"had 8 cores. Slow storage: {STORAGE} to open a file, as the paper's Ceph; * is the fastest. Page cache: everything is in memory.\n")
    print("| pipeline | samples | cut behind | MB/sample kept | offline ms/sample | slow storage, samples/s | paper cold | "
          "page cache, samples/s | paper warm | pays off after epochs |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    results, extra = {}, {"sizes": measured("sizes")}
    for name in CUTS:
        made = measured(name)
        results[name] = [SimpleNamespace(**one) for one in made["strategies"]]
        print_table(name, results[name])
        for key, value in made.items():
            extra.setdefault(key, {})[name] = value
    extra["grey"] = extra["grey"]["cv"]
    print("\n## The paper's conclusions\n")
    conclusions(results, extra)
    print("\n## What `tune` says from short runs\n")
    tuned(results, extra)
    print(f"\nThe load average was {max(extra['load'].values()):.1f} at most: above about 3 other programs used the machine too, and rates "
          "are below what it can do.")


if __name__ == "__main__":
    BINARY = os.path.abspath(sys.argv[1])
    ONE = sys.argv[sys.argv.index("--one") + 1] if "--one" in sys.argv else None
    DATA = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 and sys.argv[2] != "--one" else "build/presto")
    if not os.path.exists(f"{DATA}/cv.json"):
        subprocess.run([sys.executable, "examples/presto/make_data.py", DATA], check=True)
    if ONE:
        measured(ONE)
    else:
        main()
