# SPDX-License-Identifier: Apache-2.0
"""Sound: decoding against soundfile, resampling against the soxr package, spectra against the
definition in float64. Recordings are made here; ../shared has odd ones, where it is at hand."""
import io
import pathlib

import numpy as np
import pytest
import soundfile
import soxr

from mrlib import CODES, Loader, MrError, apply

SHARED = pathlib.Path(__file__).resolve().parents[3] / "shared" / "data" / "corpora"


def tones(frames, channels=1, rate=16000, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(frames)[:, None] / rate
    wave = np.sin(2 * np.pi * (220 + 330 * np.arange(channels)) * t) * 0.5
    return (wave + rng.standard_normal((frames, channels)) * 0.05).astype(np.float32)


def encoded(wave, rate, **how):
    file = io.BytesIO()
    soundfile.write(file, wave, rate, **how)
    return file.getvalue()


def refused(data, code, part="", **params):
    with pytest.raises(MrError) as caught:
        apply("decode_audio", params, data)
    assert caught.value.code == CODES[code] and part in caught.value.text, caught.value


# ---- Decoding --------------------------------------------------------------------------------

KINDS = [("WAV", "PCM_16"), ("WAV", "PCM_24"), ("WAV", "PCM_U8"), ("WAV", "FLOAT"), ("WAV", "ULAW"),
         ("WAV", "DOUBLE"), ("WAVEX", "PCM_16"), ("RF64", "PCM_16"), ("FLAC", "PCM_16"), ("FLAC", "PCM_24"),
         ("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III")]


@pytest.mark.parametrize("kind,subtype", KINDS)
@pytest.mark.parametrize("channels", [1, 2])
def test_decode_equals_soundfile(kind, subtype, channels):
    rate = 48000 if subtype == "OPUS" else 16000
    data = encoded(tones(70001, channels, rate), rate, format=kind, subtype=subtype)
    is_float = subtype in ("FLOAT", "DOUBLE")
    for dtype in ("float32", "float64") + (() if is_float else ("int16", "int32")):
        want, _ = soundfile.read(io.BytesIO(data), dtype=dtype, always_2d=True)
        got = apply("decode_audio", {"dtype": dtype}, data)
        assert got.shape == want.shape and got.dtype == want.dtype
        if kind in ("FLAC", "WAV", "WAVEX", "RF64"):
            np.testing.assert_array_equal(got, want)
        else:  # lossy: soundfile brings libraries of its own, of another version
            scale = np.iinfo(got.dtype).max if got.dtype.kind == "i" else 1
            assert np.abs(got / scale - want / scale).max() < 1e-4
    if is_float:
        refused(data, "UNSUPPORTED", "floating-point", dtype="int16")


def test_mono_is_the_mean():
    wave = tones(5000, 3)
    data = encoded(wave, 16000, format="WAV", subtype="FLOAT")
    want = wave.astype(np.float64).sum(axis=1) / 3
    np.testing.assert_array_equal(apply("decode_audio", {"mono": True}, data),
                                  want.astype(np.float32))
    short = encoded(wave[:, :1], 16000, format="WAV", subtype="PCM_16")
    got = apply("decode_audio", {"mono": True, "dtype": "int16"}, short)
    np.testing.assert_array_equal(got, soundfile.read(io.BytesIO(short), dtype="int16")[0])


def test_wishes_and_limits():
    data = encoded(tones(5000, 2), 16000, format="FLAC")
    assert apply("decode_audio", {"sample_rate": 16000, "channels": 2}, data).shape == (5000, 2)
    refused(data, "UNSUPPORTED", "16000 samples", sample_rate=8000)
    refused(data, "UNSUPPORTED", "2 channels", channels=1)
    refused(data, "LIMIT", "max_samples", max_samples=9999)
    refused(data, "LIMIT", "max_channels", max_channels=1)
    assert apply("decode_audio", {"max_samples": 10000}, data).shape == (5000, 2)


def test_bombs_are_refused():
    """A header that promises a day of sound, and one of a thousand channels."""
    flac = bytearray(encoded(tones(5000), 16000, format="FLAC"))
    flac[8 + 13:8 + 18] = bytes([flac[8 + 13] | 0x0F, 0xFF, 0xFF, 0xFF, 0xFF])
    refused(bytes(flac), "LIMIT", "frames")
    wide = encoded(np.zeros((10, 1000), np.float32), 16000, format="WAV")
    refused(wide, "LIMIT", "1000 channels")
    silence = encoded(np.zeros(3_000_000, np.int16), 16000, format="FLAC", subtype="PCM_16")
    assert len(silence) < 100_000
    refused(silence, "LIMIT", max_samples=2_000_000)


def test_damage():
    data = encoded(tones(50000), 16000, format="FLAC")
    refused(data[:len(data) // 2], "CORRUPT")
    refused(b"", "UNSUPPORTED", "empty")
    refused(b"\x89PNG\r\n\x1a\n" + bytes(20), "UNSUPPORTED", "PNG")
    refused(b"RIFF" + bytes(40), "CORRUPT")


CORPUS = sorted(p for p in SHARED.glob("*/**/*") if p.suffix in (".flac", ".mp3"))


@pytest.mark.skipif(not CORPUS, reason="../shared is not there")
@pytest.mark.parametrize("path", CORPUS, ids=lambda p: p.name)
def test_corpus_is_decoded_or_refused_as_libsndfile_does(path):
    data = path.read_bytes()
    try:
        want, _ = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError:
        with pytest.raises(MrError):
            apply("decode_audio", {}, data)
        return
    got = apply("decode_audio", {}, data)
    assert got.shape == want.shape
    if path.suffix == ".flac":
        np.testing.assert_array_equal(got, want)
    else:
        assert np.abs(got - want).max() < 1e-5


@pytest.mark.parametrize("kind", ["bytes", "struct"])
def test_sound_in_columns_is_that_in_files(tmp_path, kind):
    """Recordings as a column of bytes, and as Hugging Face keeps them, {bytes, path}."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "files"
    folder.mkdir()
    for i in range(9):
        form = ("WAV", "FLAC", "OGG")[i % 3]
        (folder / f"{i}.{form.lower()}").write_bytes(encoded(tones(500 + 300 * i, 1 + i % 2, seed=i), 16000, format=form))
    raw = [path.read_bytes() for path in sorted(folder.iterdir())]
    cells = pa.array(raw) if kind == "bytes" else pa.array(
        [{"bytes": data, "path": f"{i}.x"} for i, data in enumerate(raw)], pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    pq.write_table(pa.table({"audio": cells}), tmp_path / "a.parquet", row_group_size=4)

    def decoded(source, field):
        ops = [{"decode_audio": {"mono": True, "dtype": "float32", "field": field}}]
        with Loader({"source": source, "ops": ops, "batch": 4, "shuffle": False}, threads=2) as loader:
            return [np.array(batch[field][i]) for batch in loader for i in range(batch.size)]
    ours = decoded({"parquet": {"path": str(tmp_path / "a.parquet")}}, "audio")
    theirs = decoded({"files": {"path": str(folder), "extensions": ["wav", "flac", "ogg"]}}, "image")
    assert len(ours) == len(theirs) == 9
    for i, (a, b) in enumerate(zip(ours, theirs)):
        assert a.dtype == b.dtype == np.float32 and len(a) == 500 + 300 * i
        np.testing.assert_array_equal(a, b)


# ---- Resampling ------------------------------------------------------------------------------


@pytest.mark.parametrize("rates", [(48000, 16000), (16000, 44100), (44100, 16000), (8000, 11025)])
@pytest.mark.parametrize("quality", ["high", "medium", "low", "quick"])
def test_resample_equals_soxr(rates, quality):
    name = {"high": "HQ", "medium": "MQ", "low": "LQ", "quick": "QQ"}[quality]
    for wave in (tones(16000)[:, 0], tones(16001, 2), tones(3)[:, 0]):
        got = apply("resample_audio", {"from": rates[0], "to": rates[1], "quality": quality}, wave)
        want = soxr.resample(wave, *rates, quality=name)
        assert abs(len(got) - len(want)) <= 1
        n = min(len(got), len(want))
        np.testing.assert_array_equal(got[:n], want[:n])
        assert np.all(got[n:] == 0)


def test_resample_to_the_same_rate_changes_nothing():
    wave = (tones(500, 2) * 32767).astype(np.int16)
    np.testing.assert_array_equal(apply("resample_audio", {"from": 8000, "to": 8000}, wave), wave)


# ---- Spectra: the definitions, in float64 ----------------------------------------------------


def stft(x, n_fft, win, hop, power, center=True, pad="reflect"):
    x = np.asarray(x, np.float64)
    if center:
        x = np.pad(x, n_fft // 2, mode=pad)
    window = np.zeros(n_fft)
    left = (n_fft - win) // 2
    window[left:left + win] = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(win) / win)
    frames = np.lib.stride_tricks.sliding_window_view(x, n_fft)[::hop]
    return np.abs(np.fft.rfft(frames * window, axis=1)).T ** power


def mel_bank(rate, bins, n_mels, f_min, f_max, scale, norm):
    def to_mel(f):
        if scale == "htk":
            return 2595 * np.log10(1 + f / 700)
        return np.where(f < 1000, f * 3 / 200, 15 + np.log(np.maximum(f, 1) / 1000) * 27 / np.log(6.4))

    def to_hertz(m):
        if scale == "htk":
            return 700 * (10 ** (m / 2595) - 1)
        return np.where(m < 15, m * 200 / 3, 1000 * np.exp((m - 15) * np.log(6.4) / 27))

    edges = to_hertz(np.linspace(to_mel(np.float64(f_min)), to_mel(np.float64(f_max)), n_mels + 2))
    f = np.linspace(0, rate // 2, bins)
    up = (f - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - f) / (edges[2:] - edges[1:-1])[:, None]
    bank = np.maximum(0, np.minimum(up, down))
    return bank * (2 / (edges[2:] - edges[:-2]))[:, None] if norm else bank


def near(got, want, part=1e-6):
    assert got.shape == want.shape and got.dtype == np.float32
    assert np.abs(got - want).max() <= part * np.abs(want).max()


def both(op, params, x):
    got = apply(op, params, x)
    np.testing.assert_array_equal(got, apply(op, params, x, disable_cpu="avx2"))
    return got


SIZES = [(1024, 320, 160), (400, 400, 200), (60, 40, 10), (512, 512, 128), (90, 90, 45), (2, 2, 1),
         (6, 5, 3), (250, 250, 100), (4096, 4096, 1024)]


@pytest.mark.parametrize("n_fft,win,hop", SIZES)
@pytest.mark.parametrize("power", [1, 2])
def test_spectrogram(n_fft, win, hop, power):
    x = tones(5001)[:, 0]
    params = {"n_fft": n_fft, "win_length": win, "hop_length": hop, "power": str(power)}
    near(both("spectrogram", params, x), stft(x, n_fft, win, hop, power))
    for more in ({"center": False}, {"pad_mode": "constant"}):
        pad = more.get("pad_mode", "reflect")
        near(both("spectrogram", {**params, **more}, x),
             stft(x, n_fft, win, hop, power, more.get("center", True), pad))
    near(both("spectrogram", {**params, "layout": "time_freq"}, x), stft(x, n_fft, win, hop, power).T)


def test_spectrogram_of_channels_and_whole_numbers():
    x = (tones(3000, 2) * 20000).astype(np.int16)
    want = np.stack([stft(x[:, c] / 32768, 128, 128, 64, 2) for c in (0, 1)])
    near(both("spectrogram", {"n_fft": 128}, x), want)
    near(both("spectrogram", {"n_fft": 128}, x.astype(np.int32) << 16), want)
    near(both("spectrogram", {"n_fft": 128}, x / 32768), want)


def test_spectrogram_of_little():
    with pytest.raises(MrError, match="mirrored"):
        apply("spectrogram", {"n_fft": 128}, np.zeros(64, np.float32))
    assert apply("spectrogram", {"n_fft": 128, "pad_mode": "constant"}, np.zeros(0, np.float32)).shape == (65, 1)
    assert apply("spectrogram", {"n_fft": 128, "center": False}, np.zeros(127, np.float32)).shape == (65, 0)
    with pytest.raises(MrError, match="prime"):
        apply("spectrogram", {"n_fft": 14}, np.zeros(100, np.float32))


@pytest.mark.parametrize("scale", ["htk", "slaney"])
@pytest.mark.parametrize("norm", [False, True])
def test_mel_spectrogram(scale, norm):
    x = tones(8000)[:, 0]
    params = {"n_fft": 1024, "win_length": 320, "hop_length": 160, "n_mels": 80, "f_min": 20,
              "f_max": 7600, "mel_scale": scale, "norm": norm}
    want = mel_bank(16000, 513, 80, 20, 7600, scale, norm) @ stft(x, 1024, 320, 160, 2)
    near(both("mel_spectrogram", params, x), want)
    for name, function in (("log", np.log), ("log10", np.log10), ("db", lambda v: 10 * np.log10(v))):
        got = both("mel_spectrogram", {**params, "log": name, "log_offset": 1e-4}, x)
        near(got, function(want + 1e-4), 3e-6)


def test_logarithms_are_near_everywhere():
    """Frames of a wave of four samples, which one bin alone has, from faint to loud."""
    size = np.float32(10.0) ** np.linspace(-15, 15, 4000)
    x = (size[:, None] * [1, 0, -1, 0]).astype(np.float32).ravel()
    params = {"n_fft": 4, "hop_length": 4, "window": "ones", "center": False, "n_mels": 1,
              "sample_rate": 32000}
    mel = apply("mel_spectrogram", params, x)[0].astype(np.float64)
    log = both("mel_spectrogram", {**params, "log": "log", "log_offset": 0}, x)[0]
    assert mel.max() > 1e29 and mel.min() < 1e-29
    assert np.abs(log - np.log(mel)).max() < 1e-5
    silent = np.zeros(16, np.float32)
    log = apply("mel_spectrogram", {**params, "log": "log", "log_offset": 0}, silent)
    assert np.allclose(log, -126 * np.log(2))


def dct(n_mfcc, n_mels):
    n = np.arange(n_mels)
    rows = np.cos(np.pi / n_mels * (n + 0.5) * np.arange(n_mfcc)[:, None]) * np.sqrt(2 / n_mels)
    rows[0] /= np.sqrt(2)
    return rows


def test_mfcc():
    x = tones(8000)[:, 0]
    x[2000:4000] = 0  # so that the decibels' floor is met
    mel = mel_bank(16000, 201, 64, 0, 8000, "htk", False) @ stft(x, 400, 400, 200, 2)
    db = 10 * np.log10(np.maximum(mel, 1e-10))
    want = dct(20, 64) @ np.maximum(db, db.max() - 80)
    near(both("mfcc", {"n_mels": 64, "n_mfcc": 20}, x), want, 3e-6)
    want = dct(20, 64) @ np.log(mel + 1e-6)
    near(both("mfcc", {"n_mels": 64, "n_mfcc": 20, "log_mels": True}, x), want, 3e-6)
