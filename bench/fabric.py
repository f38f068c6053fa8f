#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ranks gain that send each other what they keep; writes docs/benchmarks_fabric.md.

    bench/fabric.py [BUILD] [MB] [ROUNDS] [--no-namespaces] [--only=TABLE]

Open MPI on this machine, through shared memory. Ranks stand for those of several machines, so they send each other messages ("map=0")
and do not look into each other's memory, but in the table against a store, which has both. Then MPICH over TCP between network namespaces, one for each
rank, whose links (veth) carry 1 GB/s (tc tbf). That needs root, ip, tc and mpirun.mpich; where one of these is missing, the page and the
terminal say why that table is not there. --no-namespaces: without it.
--only: a table alone, to the terminal: four, store, moves, ranks, simulated, namespaces.

Storage is slowed down to 100 MB/s for all ranks together (preload/throttle.c). An epoch after the first is the difference
between a run of 1 epoch and one of several; all kinds take turns. Figures are those of the fastest round, which was disturbed
least. The model has no figure of what it predicts but CPU time: T = max(bytes from storage / rate, bytes that a link carries /
its rate, CPU seconds of all ranks / CPUs that others leave).
"""
import contextlib
import json
import math
import os
import resource
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
arguments = [word for word in sys.argv[1:] if not word.startswith("--")]
build = os.path.abspath(arguments[0] if arguments else "build/release")
megabytes = int(arguments[1]) if len(arguments) > 1 else 100
rounds = int(arguments[2]) if len(arguments) > 2 else 3
rate, link_rate, cpus = 100e6, 1e9, len(os.sched_getaffinity(0))
# Liu, Nicolae et al., ThetaGPU, ResNet-50: seconds from the parallel file system and from /dev/shm, by GPUs.
published = {1: (36247, 15263), 4: (8345, 3852), 8: (4298, 1975), 16: (2709, 1038), 32: (1744, 576), 64: (1209, 364)}


def in_shared_memory(ranks):
    env = dict(os.environ, OMPI_MCA_btl="self,vader", OMPI_MCA_pml="ob1", OMPI_MCA_btl_vader_single_copy_mechanism="none",
               OMPI_MCA_oob_tcp_if_include="lo")
    return env, ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)]


def in_namespaces(ranks):
    """A node of its own for each rank: nothing but TCP between them. Hydra speaks with its ranks through sockets that they inherit."""
    env = dict(os.environ, UCX_TLS="tcp,self", UCX_NET_DEVICES="eth0", MPIR_CVAR_NOLOCAL="1")
    return env, ["mpirun.mpich", "-n", str(ranks), "sh", "-c", f'exec ip netns exec {space}"$PMI_RANK" "$0" "$@"']


start = in_shared_memory
space, bridge = f"mr{os.getpid()}-", f"mr{os.getpid()}br"


def command_line(text):
    done = subprocess.run(text.split(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{text}: {done.stderr.strip()}")


@contextlib.contextmanager
def namespaces(ranks):
    """Raises OSError where they cannot be made; nothing is left behind."""
    try:
        command_line(f"ip link add {bridge} type bridge")
        command_line(f"ip link set {bridge} up")
        for rank in range(ranks):
            inside = f"ip netns exec {space}{rank}"
            command_line(f"ip netns add {space}{rank}")
            command_line(f"ip link add {bridge}{rank} type veth peer name eth0 netns {space}{rank}")
            command_line(f"ip link set {bridge}{rank} master {bridge} up")
            command_line(f"{inside} ip addr add 10.213.7.{rank + 1}/24 dev eth0")
            command_line(f"{inside} ip link set eth0 up")
            command_line(f"{inside} ip link set lo up")
            command_line(f"{inside} tc qdisc add dev eth0 root tbf rate 8gbit burst 4mb latency 50ms")
        yield
    finally:
        for rank in range(ranks):
            subprocess.run(["ip", "netns", "del", f"{space}{rank}"], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", bridge], capture_output=True, check=False)


class Data:
    """Files of one size, that all ranks see; batches that divide them."""

    def __init__(self, folder, name, n, size, batch, epochs):
        self.folder, self.path, self.n, self.size, self.batch, self.epochs = folder, f"{folder}/{name}", n, size, batch, epochs
        self.bytes = n * size
        os.mkdir(self.path)
        for i in range(n):
            with open(f"{self.path}/{i:06}.bin", "wb") as out:
                out.write(i.to_bytes(4, "little") * (size // 4))


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


MESSAGES = "mpi?map=0"  # as between machines
STORE = "store"  # in place of a fabric: all ranks have one store in memory, which is warm after the first epoch


def busy_seconds():
    """Of all CPUs and all processes of the machine."""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def run(data, ranks, share, fabric, times, throttle):
    """Seconds, bytes from storage, bytes that moved, messages, CPU seconds of all ranks, and of all other processes meanwhile."""
    document = {"source": {"files": {"path": data.path, "extensions": []}}, "ops": [], "batch": data.batch * ranks,
                "seed": 1, "remainder": "drop", "share": share}
    if fabric == STORE:
        document["ops"] = [{"cache": {"path": f"{data.path}.store", "size": 2 * data.bytes}}]
    path = f"{data.path}.{share}.{ranks}.json"
    with open(path, "w") as out:
        json.dump(document, out)
    env, command = start(ranks)
    if throttle:
        command += ["env", f"LD_PRELOAD={data.folder}/throttle.so", f"THROTTLE_FILE={data.folder}/clock", f"THROTTLE_RATE={rate}"]
    # mpirun forwards pieces of lines, and mixes those of several ranks
    own_file = f'exec "$0" "$@" >{path}.${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}'
    command += ["sh", "-c", own_file, f"{build}/millrace", "run", path,
                "--json", "--quiet", "--no-digest", "--threads", "1", "--epochs", str(times)]
    command += ["--io", "pread", "--reads", "4"] if throttle else []  # which can be slowed down
    command += ["--fabric", fabric] if fabric and fabric != STORE else []
    before, busy = cpu_seconds(), busy_seconds()
    done = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    own = cpu_seconds() - before
    others = busy_seconds() - busy - own
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.returncode} {done.stderr}")
    lines = []
    for rank in range(ranks):
        with open(f"{path}.{rank}", encoding="utf-8") as file:
            lines += [json.loads(line) for line in file if line.startswith("{")]
    fabrics = [line["fabric"] for line in lines if line.get("fabric")]
    return (max(line["seconds"] for line in lines), sum(line["bytes_read"] for line in lines),
            sum(f["bytes_in"] for f in fabrics), sum(f["messages"] for f in fabrics), own, others)


def later_epoch(data, ranks, share, fabric, throttle):
    epochs = data.epochs if throttle and not fabric else 4 * data.epochs  # short ones many times
    one, many = (run(data, ranks, share, fabric, times, throttle) for times in (1, epochs))
    later = [(b - a) / (epochs - 1) for a, b in zip(one, many)]
    # What was read beyond the whole dataset, once: a rank tells its figures when it is done, and may read for others after that,
    # so those of a short run lack some of the first reading.
    later[1] = max(0, many[1] - data.bytes) / (epochs - 1)
    later[5] = max(0, later[5] / later[0])  # CPUs that others had
    return later


def measure(data, kinds, times=None):
    results = {name: [] for name in kinds}
    for _ in range(times or rounds):
        for name, kind in kinds.items():
            results[name].append(later_epoch(data, *kind))
    return {name: min(rows, key=lambda row: row[0]) for name, rows in results.items()}


def four_ranks(data, has_links):
    ranks, batch = 4, 4 * data.batch
    steps = data.n // batch
    kinds = {"each reads its files": (ranks, "strict", None, True), "`strict` over MPI": (ranks, "strict", MESSAGES, True),
             "`local` over MPI": (ranks, "local", MESSAGES, True), "each reads its files, storage not slowed": (ranks, "strict", None, False)}
    found = measure(data, kinds)
    beta = math.sqrt(1 - 1 / ranks) / math.sqrt(2 * math.pi * batch / ranks)
    moves = {"`strict` over MPI": (ranks - 1) / ranks, "`local` over MPI": beta}
    base = found["each reads its files"][0]
    yield (f"## An epoch after the first: 4 ranks, {data.n} files of {data.size:,} bytes, batch {batch}, storage 100 MB/s for all together; "
           f"load {os.getloadavg()[0]:.1f}\n")
    yield "| | seconds | model | off by | bound by | times faster | bytes from storage | moved | predicted | messages a step | CPU s | CPUs of others |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for name, (seconds, read, moved, messages, cpu, others) in found.items():
        parts = {"storage": read / rate if kinds[name][3] else 0, "network": moved / ranks / link_rate if has_links else 0,
                 "CPU": cpu / cpus}
        bound = max(parts, key=parts.get)
        if bound == "CPU":  # who waits for something else leaves CPUs that others then have
            parts[bound] = cpu / (cpus - min(others, cpus - 0.1))
        words = [name, f"{seconds:.3f}", f"{parts[bound]:.3f}", f"{seconds / parts[bound] - 1:+.0%}", bound,
                 f"{base / seconds:.1f}", f"{read / data.bytes:.1%}", f"{moved / data.bytes:.1%}",
                 f"{moves[name]:.1%}" if name in moves else "", f"{messages / steps:.0f}" if messages else "", f"{cpu:.3f}",
                 f"{others:.1f}"]
        yield "| " + " | ".join(words) + " |"


def against_store(data):
    """In pairs, one after the other: whoever else uses the machine disturbs both."""
    yield f"\n## Against a warm store on this machine: an epoch after the first, 4 ranks, pairs in turns; load {os.getloadavg()[0]:.1f}\n"
    yield "| | s an epoch | CPU s | speed against the store | by CPU |"
    yield "|---|---|---|---|---|"
    rows = {"a store of this machine": STORE, "`strict`, memory that ranks map": "mpi", "`local`, memory that ranks map": "mpi",
            "`strict`, messages of MPI alone": MESSAGES, "`local`, messages of MPI alone": MESSAGES}
    found = measure(data, {name: (4, "local" if "local" in name else "strict", fabric, False) for name, fabric in rows.items()}, 2 * rounds)
    base = found["a store of this machine"]
    for name, figures in found.items():
        yield (f"| {name} | {figures[0]:.4f} | {figures[4]:.3f} | {base[0] / figures[0]:.2f} | {base[4] / figures[4]:.2f} |")


def what_moves(folder):
    """Small files and many steps, so that what is drawn comes near to what is expected."""
    data = Data(folder, "small", 51_200, 2_000, 64, 3)
    yield f"\n## What moves: 4 ranks, {data.n:,} files of {data.size:,} bytes, batch 256, {data.epochs} epochs of {data.n // 256} steps\n"
    yield "| | moved | predicted | off by | bytes from storage, of the set once |"
    yield "|---|---|---|---|---|"
    beta = math.sqrt(3 / 4) / math.sqrt(2 * math.pi * 64)
    for share, predicted in (("strict", 3 / 4), ("local", beta)):
        _, read, moved, _, _, _ = run(data, 4, share, MESSAGES, data.epochs, False)
        part = moved / data.bytes / data.epochs
        yield f"| `{share}` | {part:.2%} | {predicted:.2%} | {part / predicted - 1:+.1%} | {read / data.bytes:.1%} |"


def over_links(folder):
    """Files of 1 MB as they are: what is measured is to be the links and the engine, not the cost of many small messages on two CPUs."""
    global start
    data = Data(folder, "large", 128, 1_000_000, 8, 5)
    try:
        with namespaces(4):
            start = in_namespaces
            yield ("\n# The same between network namespaces\n\nEach rank has a network namespace of its own; MPICH over TCP, links of 1 GB/s (veth, tc tbf). "
                   "Files of 1 MB that nobody decodes: 4 ranks share 2 CPUs here, which copy every byte of a TCP connection several times, and small files would measure "
                   "what messages cost these CPUs rather than the links.\n")
            yield from four_ranks(data, True)
    except OSError as error:
        print(f"network namespaces cannot be used here, so that table is left out: {error}", file=sys.stderr)
        yield f"\n# The same between network namespaces\n\nNot measured: they could not be used where this page was made ({error})."
    finally:
        start = in_shared_memory


def by_ranks(data):
    yield "\n## Liu et al., tables 1 and 2: from slow shared storage and from memory, measured\n"
    yield (f"{data.n} files of {data.size:,} bytes, 64 a rank. Storage is the limit of all rows on the left; on the right one rank has one thread, and from 2 on the {cpus} CPUs are the limit. "
           "The published runs train while they load: their factors are those of training.\n")
    yield "| ranks | from storage, s an epoch | `local` over MPI, s | times | published, GPUs |"
    yield "|---|---|---|---|---|"
    for ranks in (1, 2, 4, 8):
        kinds = {"storage": (ranks, "strict", None, True), "kept": (ranks, "local", MESSAGES if ranks > 1 else STORE, True)}
        found = measure(data, kinds)
        slow, fast = found["storage"][0], found["kept"][0]
        theirs = f"{published[ranks][0] / published[ranks][1]:.1f}" if ranks in published else ""
        yield f"| {ranks} | {slow:.3f} | {fast:.3f} | {slow / fast:.1f} | {theirs} |"
    yield "\nOne rank has nobody to share with: its memory is a warm store (`cache`)."


def simulated(folder):
    samples = 1_281_167
    yield "\n## The same simulated to 64 ranks, with rates that the published figures mean\n"
    yield ("ImageNet-1k, 110 KB a sample. V is what one GPU trains from memory (the published 15,263 s), R the storage's rate at 64 GPUs "
           "(1,209 s, where it is the limit); both for one pass. So the rows for 1 from memory and 64 from storage are inputs.\n")
    yield "| GPUs | published: storage, s | memory, s | times | simulated: storage, s | memory, s | times |"
    yield "|---|---|---|---|---|---|---|"
    document = {"samples": samples, "sample_bytes": 110_000, "nodes": list(published), "local_batch": 64, "memory": "2TB",
                "storage": samples * 110_000 // published[64][0], "network": 12_500_000_000, "prepare": 1e9,
                "train": samples / published[1][1], "steps": 16}
    path = f"{folder}/simulate.json"
    with open(path, "w") as out:
        json.dump(document, out)
    done = subprocess.run([f"{build}/millrace", "simulate", path], capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines() if line.split()[3:4] in (["storage"], ["local"])]
    speed = {(int(row[0]), row[3]): float(row[9]) for row in rows}
    for gpus, (slow, fast) in published.items():
        model_slow, model_fast = (samples / speed[gpus, kind] for kind in ("storage", "local"))
        yield (f"| {gpus} | {slow:,} | {fast:,} | {slow / fast:.1f} | {model_slow:,.0f} | {model_fast:,.0f} | "
               f"{model_slow / model_fast:.1f} |")
    yield ("\nThe published runs are slower from storage at every size, not only where its rate is the limit: reads there are latency that a "
           "GPU waits for (the difference times the GPUs stays near 18,000 s up to 8). The simulation overlaps reading with training, so it has "
           "no such difference below the storage's rate; from memory its GPUs scale without loss (238 s at 64), those of the paper do not (364 s).")


def machine():
    with open("/proc/cpuinfo") as file:
        cpu = next(line.split(": ")[1].strip() for line in file if line.startswith("model name"))
    return (f"{cpu}, {cpus} CPUs, all ranks on one machine. Figures are of the fastest of {rounds} rounds. Storage is slowed down "
            "by a preloaded pread (`bench/preload/throttle.c`), not by a network. The model is T = max(bytes from storage / 100 MB/s, bytes that a link carries / 1 GB/s, "
            "CPU seconds of all ranks / CPUs that other processes of the machine left).\n")


def tables(folder):
    """By name: what makes them, in the page's order."""
    n = megabytes * 10 // 512 * 512  # whole batches of 2, 4 and 8 ranks: every epoch has every file
    data = Data(folder, "data", n, 100_000, 64, 7)
    return {"four": lambda: four_ranks(data, False), "store": lambda: against_store(data), "moves": lambda: what_moves(folder),
            "ranks": lambda: by_ranks(data), "simulated": lambda: simulated(folder), "namespaces": lambda: over_links(folder)}


def page(folder):
    yield "# Ranks that send each other what they keep, measured\n"
    yield "Made by `bench/fabric.py` (`./dev bench fabric`): Open MPI through shared memory, " + machine()
    for name, table in tables(folder).items():
        if name != "namespaces" or "--no-namespaces" not in sys.argv:
            yield from table()


def main():
    only = next((word.removeprefix("--only=") for word in sys.argv if word.startswith("--only=")), None)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-D_GNU_SOURCE", f"{here}/preload/throttle.c", "-o", f"{folder}/throttle.so",
                        "-ldl"], check=True)
        text = "\n".join(tables(folder)[only]() if only else page(folder)) + "\n"
    if not only:
        with open(f"{here}/../docs/benchmarks_fabric.md", "w") as out:
            out.write(text)
    print(text, end="")


main()
