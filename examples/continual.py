# SPDX-License-Identifier: Apache-2.0
"""Four tasks, one after the other, from a stream: what a network remembers of the first.

    python examples/continual.py

Each task has two of eight classes of small pictures, made here. A network of one hidden layer (numpy alone)
is trained three times: on the stream as it comes, on the stream with rehearsal, and on all tasks mixed. The
table says how many pictures of each task it knows at the end."""
import tempfile

import numpy as np

import millrace as mr
from millrace import streams

TASKS, CLASSES, SIDE, EACH = 4, 8, 12, 1500


def pictures(n, label, random, shapes):
    """n noisy, shifted pictures of a class."""
    moved = [np.roll(shapes[label], random.integers(-2, 3, 2), (0, 1)) for _ in range(n)]
    return np.clip(np.stack(moved) * 200 + random.normal(0, 40, (n, SIDE, SIDE)), 0, 255).astype(np.uint8)


def write_stream(folder, random, shapes, order):
    with streams.Writer(folder) as stream:
        for label in order(random):
            stream.append(pictures(1, label, random, shapes)[0], label=int(label))


def task_after_task(random):
    for task in range(TASKS):
        yield from random.integers(2 * task, 2 * task + 2, EACH)


def all_mixed(random):
    yield from random.permutation(np.concatenate([random.integers(2 * t, 2 * t + 2, EACH) for t in range(TASKS)]))


class Network:
    def __init__(self, random):
        self.a = random.normal(0, 0.1, (SIDE * SIDE, 64))
        self.b = random.normal(0, 0.1, (64, CLASSES))

    def scores(self, x):
        hidden = np.maximum(x @ self.a, 0)
        return hidden, hidden @ self.b

    def train(self, x, y, rate=0.05):
        hidden, scores = self.scores(x)
        chances = np.exp(scores - scores.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        chances[np.arange(len(y)), y] -= 1
        back = (chances @ self.b.T) * (hidden > 0)
        self.b -= rate * hidden.T @ chances / len(y)
        self.a -= rate * x.T @ back / len(y)

    def known(self, x, y):
        return float((self.scores(x)[1].argmax(1) == y).mean())


def as_input(batch):
    return np.asarray(batch["value"].values).reshape(-1, SIDE * SIDE) / 127.5 - 1


def train(pipeline):
    network = Network(np.random.default_rng(1))
    with pipeline.loader() as loader:
        for batch in loader:
            network.train(as_input(batch), batch["label"])
    return network


def main():
    random = np.random.default_rng(0)
    shapes = random.random((CLASSES, SIDE, SIDE)) < 0.3
    tests = [np.repeat([2 * task, 2 * task + 1], 200) for task in range(TASKS)]
    tests = [(np.concatenate([pictures(200, label, random, shapes) for label in np.unique(y)])
              .reshape(-1, SIDE * SIDE) / 127.5 - 1, y) for y in tests]
    with tempfile.TemporaryDirectory() as folder:
        write_stream(f"{folder}/tasks", random, shapes, task_after_task)
        write_stream(f"{folder}/mixed", random, shapes, all_mixed)
        stream = mr.segments(f"{folder}/tasks", follow=True, until=TASKS * EACH).batch(32)
        runs = {
            "as it comes": stream,
            "with rehearsal": stream.batch(64).rehearse(size=400, share=0.5, policy="class_balanced"),
            "all mixed": mr.segments(f"{folder}/mixed").batch(32),
        }
        print(f"{'':16}" + "".join(f"task {task + 1:<6}" for task in range(TASKS)))
        for name, pipeline in runs.items():
            network = train(pipeline)
            print(f"{name:16}" + "".join(f"{network.known(*test):<11.0%}" for test in tests))


if __name__ == "__main__":
    main()
