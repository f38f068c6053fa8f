#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ranks gain that send each other what they keep; writes docs/benchmarks_fabric.md.

    bench/fabric.py [BUILD] [MB] [ROUNDS] [--namespaces]

Open MPI on this machine, through shared memory; --namespaces: also MPICH over TCP between network namespaces, one for each
rank, whose links (veth) carry 1 GB/s (tc tbf). That needs root, ip, tc and mpirun.mpich; where it cannot be made it is left out.
 storage is slowed down to 100 MB/s for all ranks together (preload/throttle.c). An epoch after the
first is the difference between a run of 1 epoch and one of 9, over 8; all kinds take turns, and the median counts. The
model is T = max(bytes from storage / rate, T of the same run with storage that is not slowed down).
"""
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
arguments = [word for word in sys.argv[1:] if not word.startswith("--")]
build = os.path.abspath(arguments[0] if arguments else "build/release")
megabytes = int(arguments[1]) if len(arguments) > 1 else 100
rounds = int(arguments[2]) if len(arguments) > 2 else 3
size, rate, epochs = 100_000, 100e6, 9
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


def figures_of(paths):
    """What the ranks have told; None: not all have yet."""
    lines = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
            lines += [json.loads(line) for line in file if line.startswith("{") and line.endswith("}\n")]
    return lines if len(lines) == len(paths) else None


def finish(command, env, paths):
    """Waits for ranks, but not long once all have told their figures: MPICH 4.0 over TCP now and then never comes back from MPI_Finalize."""
    patience = 5
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as ranks:
        while patience > 0 and ranks.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                ranks.wait(timeout=1)
            patience -= figures_of(paths) is not None
        ranks.terminate()
        said = ranks.stderr.read()
    lines = figures_of(paths)
    if lines is None:
        sys.exit(f"{' '.join(command)}: {said}")
    return lines


def run(folder, ranks, share, fabric, times, throttle):
    batch = 64 * ranks
    document = {"source": {"files": {"path": f"{folder}/data", "extensions": []}}, "ops": [], "batch": batch,
                "seed": 1, "remainder": "drop", "share": share}
    path = f"{folder}/{share}.{ranks}.json"
    with open(path, "w") as out:
        json.dump(document, out)
    env, command = start(ranks)
    if throttle:
        command += ["env", f"LD_PRELOAD={folder}/throttle.so", f"THROTTLE_FILE={folder}/clock", f"THROTTLE_RATE={rate}"]
    # mpirun forwards pieces of lines, and mixes those of several ranks
    own_file = f'exec "$0" "$@" >{path}.${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}'
    command += ["sh", "-c", own_file, f"{build}/millrace", "run", path,
                "--json", "--quiet", "--no-digest", "--threads", "1", "--io", "pread", "--epochs", str(times)]
    command += ["--fabric", fabric] if fabric and ranks > 1 else []
    told = [f"{path}.{rank}" for rank in range(ranks)]
    for old in told:
        with contextlib.suppress(FileNotFoundError):
            os.remove(old)
    lines = finish(command, env, told)
    fabrics = [line["fabric"] for line in lines if line.get("fabric")]
    return (max(line["seconds"] for line in lines), sum(line["bytes_read"] for line in lines),
            sum(f["bytes_in"] for f in fabrics), sum(f["messages"] for f in fabrics))


def later_epoch(folder, ranks, share, fabric, throttle):
    one, many = (run(folder, ranks, share, fabric, times, throttle) for times in (1, epochs))
    later = [(b - a) / (epochs - 1) for a, b in zip(one, many)]
    # What was read beyond the whole dataset, once: a rank tells its figures when it is done, and may read for others after that,
    # so those of a short run lack some of the first reading.
    later[1] = max(0, many[1] - len(os.listdir(f"{folder}/data")) * size) / (epochs - 1)
    return later


def measure(folder, kinds):
    results = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, kind in kinds.items():
            results[name].append(later_epoch(folder, *kind))
    return {name: [statistics.median(column) for column in zip(*rows)] for name, rows in results.items()}


def four_ranks(folder, n):
    ranks, batch = 4, 256
    whole = n // batch * batch * size
    kinds = {"each reads its files": (ranks, "strict", None, True), "`strict` over MPI": (ranks, "strict", "mpi", True),
             "`local` over MPI": (ranks, "local", "mpi", True), "each, storage not slowed": (ranks, "strict", None, False),
             "`strict`, not slowed": (ranks, "strict", "mpi", False), "`local`, not slowed": (ranks, "local", "mpi", False)}
    found = measure(folder, kinds)
    beta = math.sqrt(1 - 1 / ranks) / math.sqrt(2 * math.pi * batch / ranks)
    moves = {"`strict` over MPI": (ranks - 1) / ranks, "`local` over MPI": beta}
    base = found["each reads its files"][0]
    unslowed = {"each reads its files": "each, storage not slowed", "`strict` over MPI": "`strict`, not slowed",
                "`local` over MPI": "`local`, not slowed"}
    yield f"## An epoch after the first: 4 ranks, {n} files of {size} bytes, batch {batch}, storage 100 MB/s for all together\n"
    yield "| | seconds | model | off by | times faster | bytes from storage | moved | predicted | messages a step | bytes a message |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for name, (seconds, read, moved, messages) in found.items():
        model = max(read / rate, found[unslowed[name]][0]) if name in unslowed else None
        steps = n // batch
        words = [name, f"{seconds:.3f}", f"{model:.3f}" if model else "", f"{seconds / model - 1:+.0%}" if model else "",
                 f"{base / seconds:.1f}", f"{read / whole:.1%}", f"{moved / whole:.1%}",
                 f"{moves[name]:.1%}" if name in moves else "", f"{messages / steps:.0f}" if messages else "",
                 f"{moved / messages:.0f}" if messages else ""]
        yield "| " + " | ".join(words) + " |"


def over_links(folder, n):
    global start
    try:
        with namespaces(4):
            start = in_namespaces
            yield ("\n# The same between network namespaces\n\nEach rank has a network namespace of its own; MPICH over TCP, links of 1 GB/s (veth, tc tbf).\n")
            yield from four_ranks(folder, n)
    except OSError as error:
        print(f"network namespaces cannot be used here, so that table is left out: {error}", file=sys.stderr)
    finally:
        start = in_shared_memory


def by_ranks(folder, n):
    yield "\n## Liu et al., tables 1 and 2: from slow shared storage and from memory, measured\n"
    yield "| ranks | from storage, s an epoch | `local` over MPI, s | times |"
    yield "|---|---|---|---|"
    for ranks in (2, 4, 8):
        kinds = {"storage": (ranks, "strict", None, True), "kept": (ranks, "local", "mpi", True)}
        found = measure(folder, kinds)
        slow, fast = found["storage"][0], found["kept"][0]
        yield f"| {ranks} | {slow:.3f} | {fast:.3f} | {slow / fast:.1f} |"
    yield "\nOne rank has nobody to share with: it reads at the storage's rate in every epoch."


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


def page(folder, n):
    load = os.getloadavg()[0]
    with open("/proc/cpuinfo") as file:
        cpu = next(line.split(": ")[1].strip() for line in file if line.startswith("model name"))
    yield "# Ranks that send each other what they keep, measured\n"
    yield (f"Made by `bench/fabric.py` (`./dev bench fabric`): {cpu}, {os.cpu_count()} CPUs, Open MPI through shared memory, all on one "
           f"machine; load {load:.0f} at the start. Medians of {rounds}. Storage is slowed down by a preloaded pread (`bench/preload/throttle.c`), not by a network. "
           "The model is T = max(bytes from storage / rate, seconds of the same run with storage that is not slowed). On a busy machine seconds vary from run to run by more than the model is off; bytes and messages do not.\n")
    yield from four_ranks(folder, n)
    yield from by_ranks(folder, n)
    yield from simulated(folder)
    if "--namespaces" in sys.argv:
        yield from over_links(folder, n)


def main():
    n = megabytes * 1_000_000 // size // 512 * 512  # whole batches of 2, 4 and 8 ranks: every epoch has every file
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.mkdir(f"{folder}/data")
        for i in range(n):
            with open(f"{folder}/data/{i:06}.bin", "wb") as out:
                out.write(i.to_bytes(4, "little") * (size // 4))
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-D_GNU_SOURCE", f"{here}/preload/throttle.c", "-o", f"{folder}/throttle.so",
                        "-ldl"], check=True)
        text = "\n".join(page(folder, n)) + "\n"
    with open(f"{here}/../docs/benchmarks_fabric.md", "w") as out:
        out.write(text)
    print(text, end="")


main()
