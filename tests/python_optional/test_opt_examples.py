# SPDX-License-Identifier: Apache-2.0
"""The examples run, and type checkers accept them."""
import os
import re
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
PHOTOS = os.path.join(HERE, "..", "cli", "data", "photos")
EXAMPLES = os.path.join(HERE, "..", "..", "examples")
PROGRAMS = [("train_torch.py", "torch", "identical"), ("train_jax.py", "jax", "steps, loss"),
            ("ddp_torch.py", "torch", "every sample was seen 2 to 2 times"),
            ("shared_torch.py", "torch", "samples, made here: 0")]
UNTYPED = [("shared_tf.py", "tensorflow", "samples, made here:"),
           ("shared_dali.py", "nvidia.dali", "samples")]


@pytest.mark.parametrize("name,needs,said", PROGRAMS + UNTYPED)
def test_examples(name, needs, said, tmp_path):
    pytest.importorskip(needs, reason=f"{needs} is not installed")
    out = subprocess.run([sys.executable, os.path.join(EXAMPLES, name), PHOTOS], cwd=tmp_path,
                         capture_output=True, text=True, timeout=900, check=False)
    assert out.returncode == 0 and said in out.stdout, out.stdout + out.stderr


def test_the_migration_guide_runs(tmp_path):
    """Its blocks, one after the other in one program."""
    pytest.importorskip("torch", reason="torch is not installed")
    with open(os.path.join(EXAMPLES, "migrate_from_dataloader.md"), encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
    assert len(blocks) >= 4
    os.symlink(PHOTOS, tmp_path / "photos")
    program = tmp_path / "guide.py"
    program.write_text("\n".join(blocks))
    out = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True,
                         text=True, timeout=900, check=False)
    assert out.returncode == 0, out.stdout + out.stderr


@pytest.mark.parametrize("checker", [["mypy", "--strict", "--allow-untyped-calls"],
                                     ["pyright", "--pythonpath", sys.executable]], ids=["mypy", "pyright"])
def test_type_checkers_accept_the_examples(checker, tmp_path):
    pytest.importorskip(checker[0], reason=f"{checker[0]} is not installed")
    good = tmp_path / "good.py"
    good.write_text("import millrace as mr\n"
                    "p: mr.Pipeline = mr.files('x').decode_image().resize([1, 2], 'nearest')\n"
                    "state: dict[str, object] = p.batch(3).loader(to='numpy').state_dict()\n"
                    "import millrace.torch\n"
                    "for batch in mr.torch.DataLoader([1, 2], batch_size=2):\n    print(batch)\n")
    bad = tmp_path / "bad.py"
    bad.write_text("import millrace as mr\nmr.files('x').decode_image().resize('big')\n")
    unknown = tmp_path / "unknown.py"
    unknown.write_text("import millrace as mr\nmr.files('x').resise(3)\n")
    programs = [os.path.join(EXAMPLES, name) for name, _, _ in PROGRAMS]
    environment = {**os.environ, "MYPYPATH": os.environ.get("PYTHONPATH", "")}

    def run(*files):
        return subprocess.run([sys.executable, "-m", *checker, *files], cwd=tmp_path,
                              capture_output=True, text=True, env=environment, timeout=900,
                              check=False)
    out = run(*programs, str(good))
    assert out.returncode == 0, out.stdout + out.stderr
    assert run(str(bad)).returncode != 0 and run(str(unknown)).returncode != 0
