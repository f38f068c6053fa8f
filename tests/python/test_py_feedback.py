# SPDX-License-Identifier: Apache-2.0
"""What a trainer says of its samples, from Python; and streams of Redis, where there is a server."""

import numpy as np
import pytest

import millrace as mr
from millrace import streams


@pytest.fixture
def folder(tmp_path):
    with streams.Writer(tmp_path / "s", sync="never") as writer:
        for i in range(3000):
            writer.append(b"%d" % i, label=i % 4)
    return tmp_path


def pipeline(folder, policy):
    return (mr.segments(str(folder / "s"), follow=True).rehearse(size=600, share=0.5, policy=policy)
            .batch(32).fields(["value", "label", "is_replay", "extra"]))


def follow(loader, steps, values=True):
    """Labels of what is shown again, digests, and how often numbers came back."""
    shown, digests, extras = [], [], 0
    batches = iter(loader)
    for _ in range(steps):
        batch = next(batches)
        again = batch["is_replay"].astype(bool)
        shown += list(batch["label"][again])
        for sample, extra, old in zip(batch.samples, batch["extra"], again):
            assert len(extra) in (0, 2) and (old or len(extra) == 0)
            if len(extra):
                assert list(extra) == [sample, -sample]
                extras += 1
        digests.append(batch.digest)
        samples = batch.samples.astype(np.float32)
        loader.feed_back(batch, np.where(batch["label"] == 2, 100.0, 1.0) if values else None,
                         extra=np.stack([samples, -samples], axis=1))
    return shown, digests, extras


def test_values_decide_what_is_shown_again(folder):
    with pipeline(folder, "priority").loader(journal=folder / "j", digest=True) as loader:
        shown, digests, extras = follow(loader, 60)
        assert shown.count(2) > len(shown) / 2 and extras > 100
        state = loader.state_dict()
    with pipeline(folder, "priority").loader(journal=folder / "j", digest=True) as loader:
        again, same, _ = follow(loader, 60)  # says everything once more
        assert again == shown and same == digests
        assert loader.state_dict() == state


def test_what_cannot_be_said(folder):
    with pipeline(folder, "reservoir").loader(journal=folder / "j", digest=True) as loader:
        batch = next(iter(loader))
        with pytest.raises(ValueError, match="priority"):
            loader.feed_back(batch, np.ones(len(batch["label"])))
        with pytest.raises(ValueError, match="2 values for"):
            loader.feed_back(batch, [1, 2])
        with pytest.raises(ValueError, match="a row for each"):
            loader.feed_back(batch, extra=np.ones((1, 3)))
        loader.feed_back(batch.samples[:2], extra=np.ones((2, 3)))
    with pipeline(folder, "priority").loader() as loader:
        batch = next(iter(loader))
        with pytest.raises(ValueError, match="journal"):
            loader.feed_back(batch, np.ones(len(batch["label"])))


@pytest.mark.skipif(not hasattr(mr, "redis_stream"), reason="this build has no hiredis")
def test_streams_of_redis(redis, say):
    for i in range(40):
        assert say("XADD", f"clicks{i % 2}", "*", "value", b"entry %d" % i, "label", i % 4).startswith(b"$")
    source = mr.redis_stream(url=redis, keys=["clicks0", "clicks1"], until=20)
    with source.rehearse(size=20, share=0.5, policy="class_balanced").batch(8).loader() as loader:
        new = []
        for batch in loader:
            for value, label, old in zip(batch["value"], batch["label"], batch["is_replay"]):
                number = int(bytes(value).split()[1])
                assert label == number % 4
                if not old:
                    new.append(number)
        assert new == list(range(40))
        assert loader.stream()["entries"] == 40 and loader.stream()["behind"] == 0
