#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_data.py FOLDER [--photos DIR] [--vocabulary DIR] [--scale N] [--only NAMES]: data for
the seven pipelines beside it, with the sizes a sample that PRESTO's datasets have.

Photos are those of --photos, else made by scripts/photos. The BPE vocabulary is GPT-2's where --vocabulary has
encoder.json and vocab.bpe, else one is made of the generated text. All else is generated, the same for everybody.
What is there already stays. Needs numpy, pillow, soundfile, h5py and xxhash; the folder takes 600 MB."""
import argparse
import json
import pathlib
import shutil
import subprocess
import zlib

import numpy as np
import soundfile
import xxhash
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def folder_once(path, make):
    """Makes a folder beside its name and renames it, so that it is whole or not there."""
    if path.exists():
        return
    part = path.with_name(path.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    (part / "all").mkdir(parents=True)
    make(part / "all")
    part.rename(path)
    files = [p for p in path.rglob("*") if p.is_file()]
    print(f"{path}: {len(files)} files, {sum(p.stat().st_size for p in files) / len(files) / 1e3:.1f} KB each")


# ---- Images ------------------------------------------------------------------------------------


def scene(rng, height, width):
    """Smooth shapes with fine structure on top, as photos have."""
    def layer(rows, amplitude):
        small = rng.normal(0, amplitude, (rows, rows * width // height + 1, 3)).astype(np.float32)
        planes = [Image.fromarray(small[..., c]).resize((width, height), Image.BICUBIC) for c in range(3)]
        return np.stack([np.asarray(p) for p in planes], axis=-1)
    return np.clip(0.5 + layer(5, 0.15) + layer(40, 0.06) + layer(300, 0.03), 0, 1)


def cube_jpg(folder, n):
    for i in range(n):
        pixels = scene(np.random.default_rng(i), 1728, 2592)
        Image.fromarray((pixels * 255).astype(np.uint8)).save(folder / f"{i:05}.jpg", quality=87)


def write_png16(path, pixels):
    """16 bits a channel, which Pillow does not write: PNG's own format is short enough."""
    height, width, _ = pixels.shape
    big = pixels.astype(">u2").view(np.uint8).reshape(height, width * 6)
    delta = big.copy()
    delta[1:] -= big[:-1]  # filter 2, up
    rows = np.concatenate([np.full((height, 1), 2, np.uint8), delta], axis=1)

    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([16, 2, 0, 0, 0])
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
                     + chunk(b"IDAT", zlib.compress(rows.tobytes(), 1)) + chunk(b"IEND", b""))


def cube_png(folder, n):
    for i in range(n):
        rng = np.random.default_rng(i)
        pixels = scene(rng, 1728, 2592) * 65535
        noise = rng.integers(-30, 31, pixels.shape)  # a sensor's, of 14 bits
        write_png16(folder / f"{i:05}.png", np.clip(pixels + noise, 0, 65535).astype(np.uint16) & 0xFFFC)


def photos(target, given, n):
    if given:
        if not target.exists():
            target.symlink_to(pathlib.Path(given).resolve())
        return
    subprocess.run(["sh", str(ROOT / "scripts" / "photos"), str(target), str(n)], check=True)


# ---- Text --------------------------------------------------------------------------------------


def words_of(rng, n=4000):
    letters = np.array(list("etaoinshrdlucmfwypvbgkqjxz"))
    weights = 1 / np.arange(1, 27)
    return ["".join(rng.choice(letters, size=rng.integers(2, 11), p=weights / weights.sum())) for _ in range(n)]


def sentence(rng, words):
    places = np.minimum(rng.zipf(1.3, rng.integers(6, 22)), len(words)) - 1
    text = " ".join(words[i] for i in places)
    return text[0].upper() + text[1:] + rng.choice([".", ".", ".", "?", "!"])


def page(rng, words):
    """About 43 KB of HTML, of which 3.3 KB are the article."""
    def link():
        return f'<li class="menu-item depth-2"><a href="/{words[rng.integers(4000)]}/{rng.integers(10**6)}.html" ' \
               f'data-track="click-{rng.integers(10**9)}">{words[rng.integers(4000)]}</a></li>'
    text, paragraphs = 0, []
    while text < 3300:
        one = " ".join(sentence(rng, words) for _ in range(4))
        text += len(one)
        paragraphs.append(f"<p>{one}</p>")
    style = "".join(f".c{rng.integers(10**6)}{{margin:{rng.integers(99)}px;color:#{rng.integers(10**6):06}}}" for _ in range(290))
    script = "".join(f"var a{rng.integers(10**6)}=function(x){{return x+{rng.integers(10**6)};}};" for _ in range(260))
    return (f"<!doctype html><html><head><title>{sentence(rng, words)}</title><style>{style}</style>"
            f"<script>{script}</script></head><body><nav><ul>{''.join(link() for _ in range(90))}</ul></nav>"
            f"<article><h1>{sentence(rng, words)}</h1>{''.join(paragraphs)}</article>"
            f"<aside><ul>{''.join(link() for _ in range(70))}</ul></aside></body></html>")


def pages(folder, n):
    words = words_of(np.random.default_rng(1))
    for i in range(n):
        (folder / f"{i:05}.html").write_text(page(np.random.default_rng(i), words))


def save_tokenizer(target, vocab, merges):
    document = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                                  "use_regex": True},
                "post_processor": None,
                "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
                "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                          "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                          "ignore_merges": False, "vocab": vocab, "merges": merges}}
    target.write_text(json.dumps(document))


def train_tokenizer(target):
    from tokenizers import ByteLevelBPETokenizer
    rng = np.random.default_rng(2)
    words = words_of(np.random.default_rng(1))
    made = ByteLevelBPETokenizer()
    made.train_from_iterator([sentence(rng, words) for _ in range(20000)], vocab_size=8000)
    model = json.loads(made.to_str())["model"]
    save_tokenizer(target, model["vocab"], model["merges"])


def tokenizer(folder, given):
    target, table = folder / "tokenizer.json", folder / "embedding.npy"
    if not target.exists() and given:
        given = pathlib.Path(given)
        vocab = json.loads((given / "encoder.json").read_text())
        lines = (given / "vocab.bpe").read_text(encoding="utf-8").splitlines()[1:]
        save_tokenizer(target, vocab, [line.split(" ") for line in lines if line])
    elif not target.exists():
        train_tokenizer(target)
    if not table.exists():
        np.save(table, np.random.default_rng(3).normal(0, 1, (50257, 768)).astype(np.float32))
    return xxhash.xxh128(target.read_bytes()).hexdigest(), xxhash.xxh128(table.read_bytes()).hexdigest()


# ---- Sound and signals -------------------------------------------------------------------------


def speech(rng, seconds, rate):
    """Syllables: harmonics of a moving pitch, with pauses and breath."""
    t = np.arange(int(seconds * rate)) / rate
    pitch = 120 + 40 * np.sin(2 * np.pi * 0.4 * t + rng.uniform(0, 6))
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voice = sum(np.sin(k * phase) / k * rng.uniform(0.3, 1) for k in range(1, 25))
    syllables = np.clip(np.sin(2 * np.pi * rng.uniform(2.5, 4) * t) + 0.4, 0, 1) ** 0.5
    return (0.12 * voice * syllables + rng.normal(0, 0.0022, t.size)).astype(np.float32)


def flac(folder, n):
    for i in range(n):
        rng = np.random.default_rng(i)
        soundfile.write(folder / f"{i:05}.flac", speech(rng, rng.uniform(9.7, 15.7), 16000), 16000)


def mp3(folder, n):
    for i in range(n):
        rng = np.random.default_rng(i)
        soundfile.write(folder / f"{i:05}.mp3", speech(rng, rng.uniform(1.5, 3.4), 48000), 48000, format="MP3",
                        compression_level=0.9, bitrate_mode="CONSTANT")


def nilm(folder, n):
    """An hour's file has 360 windows of 10 s at 6.4 kHz, of voltage and current as a converter with steps of 1/16 V and 1/256 A
    gave them."""
    import h5py
    rng = np.random.default_rng(0)
    t = np.arange(64000) / 6400
    with h5py.File(folder / "hour-000.h5", "w") as file:
        windows = file.create_dataset("windows", (n, 2, 64000), "f8", chunks=(1, 2, 64000), compression="gzip", compression_opts=4,
                                      shuffle=True)
        for i in range(n):
            load = np.repeat(np.clip(np.cumsum(rng.normal(0, 1, 50)) + 8, 1, 16), 1280)
            voltage = 325 * np.sin(2 * np.pi * 50 * t) + rng.normal(0, 0.85, t.size)
            current = load * np.sin(2 * np.pi * 50 * t - 0.4) + rng.normal(0, 0.042, t.size)
            windows[i] = np.round(voltage * 16) / 16, np.round(current * 256) / 256


# ---- All ---------------------------------------------------------------------------------------


def documents(folder, digests):
    """The documents with the data's folder in them, and the digests without which nothing made by a
    tokenizer or table can be kept."""
    for path in sorted(HERE.glob("*.json")):
        text = path.read_text().replace("presto-data/", f"{folder}/")
        document = json.loads(text)
        for op in document["ops"]:
            for name, key in (("bpe_encode", 0), ("embedding_lookup", 1)):
                if name in op:
                    op[name]["digest"] = digests[key]
        (folder / path.name).write_text(json.dumps(document, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--photos", help="a folder of class folders")
    parser.add_argument("--vocabulary", help="a folder with GPT-2's encoder.json and vocab.bpe")
    parser.add_argument("--scale", type=float, default=1, help="of the numbers of samples")
    parser.add_argument("--only", help="names of folders, with commas; no documents then")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    only = given.only.split(",") if given.only else None
    if not only:
        photos(folder / "photos", given.photos, max(2, int(350 * given.scale)))
    for name, make, n in (("cube_jpg", cube_jpg, 48), ("cube_png", cube_png, 12), ("pages", pages, 600),
                          ("flac", flac, 160), ("mp3", mp3, 400), ("nilm", nilm, 96)):
        if not only or name in only:
            folder_once(folder / name, lambda path, make=make, n=n: make(path, max(2, int(n * given.scale))))
    digests = tokenizer(folder, given.vocabulary)
    if not only:
        documents(folder, digests)


if __name__ == "__main__":
    main()
