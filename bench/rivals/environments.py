# SPDX-License-Identifier: Apache-2.0
"""The rivals' environments: one venv per family, so that their pins stay apart. Versions are fixed;
one that cannot be installed is reported with the last thing that pip said."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field


@dataclass
class Environment:
    steps: list  # of arguments to pip install
    shown: list  # packages whose versions the report names
    debian: list = field(default_factory=list)  # packages that must be there


OPENCV = "opencv-python-headless==5.0.0.93"
TORCH = "torch==2.13.0"  # a CPU build; an unpinned one would bring gigabytes of CUDA

ENVIRONMENTS = {
    "torch": Environment(
        [[TORCH, "numpy==2.4.6", "pillow==13.0.0", OPENCV], ["--no-deps", "torchvision==0.28.0"]],
        ["torch", "torchvision", "pillow", "opencv-python-headless", "numpy"],
    ),
    "tf": Environment([["tensorflow-cpu==2.21.0"]], ["tensorflow-cpu"]),
    "dali": Environment([["nvidia-dali-cuda120==2.4.0", "numpy==2.4.6"]], ["nvidia-dali-cuda120"]),
    "grain": Environment(
        [["grain==0.2.18", "numpy==2.4.6", OPENCV]], ["grain", "opencv-python-headless"]
    ),
    "ffcv": Environment(
        [
            [TORCH, "numpy==2.2.6", "numba", OPENCV, "pillow==13.0.0", "assertpy", "fastargs"],
            ["terminaltables", "psutil", "tqdm", "pandas", "setuptools", "wheel", "Cython"],
            ["--no-build-isolation", "--no-deps", "ffcv==1.0.2"],
        ],
        ["ffcv", "numba"],
        ["libopencv-dev", "libturbojpeg0-dev", "pkg-config", "g++", "python3-dev"],
    ),
    "spdl": Environment(
        [["numpy==2.4.6"], ["--no-deps", "spdl==0.8.0", "spdl-core==0.8.0", "spdl-io==0.8.0"]],
        ["spdl-io"],
        ["libavdevice59", "libavfilter8"],
    ),
}


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR") or "Error" in line]
    return (errors or lines or ["nothing was said"])[-1]


def run(command, log):
    with open(log, "a", encoding="utf-8") as out:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        out.write(f"$ {' '.join(command)}\n{done.stdout}{done.stderr}\n")
    if done.returncode != 0:
        raise RuntimeError(last_line(done.stdout + done.stderr))


def missing_packages(names):
    """Debian packages that are not installed; none where there is no dpkg to ask."""
    query = ["dpkg-query", "-W", "-f=${Package} ${db:Status-Status}\n", *names]
    try:
        shown = subprocess.run(query, capture_output=True, text=True).stdout
    except FileNotFoundError:
        return []
    have = {line.split()[0] for line in shown.splitlines() if line.endswith(" installed")}
    return [name for name in names if name not in have]


def install_packages(names, log):
    absent = missing_packages(names)
    if not absent:
        return
    if os.geteuid() != 0:
        raise RuntimeError(f"needs the Debian packages {' '.join(absent)}")
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    run(["apt-get", "-qq", "update"], log)
    run(["apt-get", "-qq", "install", "-y", "--no-install-recommends", *absent], log)


def install(environment, folder, log):
    stamp = os.path.join(folder, "installed.json")
    wanted = json.dumps(environment.steps)
    if os.path.exists(stamp) and open(stamp, encoding="utf-8").read() == wanted:
        return
    install_packages(environment.debian, log)
    if not os.path.exists(os.path.join(folder, "bin/pip")):
        run([sys.executable, "-m", "venv", folder], log)
    for step in environment.steps:
        run([f"{folder}/bin/pip", "install", "--disable-pip-version-check", *step], log)
    with open(stamp, "w", encoding="utf-8") as out:
        out.write(wanted)


def versions(environment, folder):
    program = "import sys, importlib.metadata as m; print(*[m.version(n) for n in sys.argv[1:]])"
    command = [f"{folder}/bin/python", "-c", program, *environment.shown]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return dict(zip(environment.shown, shown))


def make(name, root):
    """Installs one; gives {"versions": ...} or {"error": ...}."""
    folder, log = os.path.join(root, name), os.path.join(root, f"{name}.log")
    try:
        os.makedirs(root, exist_ok=True)
        install(ENVIRONMENTS[name], folder, log)
        return {"versions": versions(ENVIRONMENTS[name], folder)}
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        return {"error": str(error)}
