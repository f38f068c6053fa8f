# SPDX-License-Identifier: Apache-2.0
"""Four tasks, one after the other, from a stream: what a network remembers of the first.

    python examples/continual.py
    python examples/continual.py --avalanche   # with Avalanche's replay beside it (PyPI: avalanche-lib)

Each task has two of eight classes of small pictures, made here. A network of one hidden layer (numpy alone)
is trained three times: on the stream as it comes, on the stream with rehearsal, and on all tasks mixed. The
table says how many pictures of each task it knows at the end. With --avalanche the same network is trained by
Avalanche with a buffer of the same size and policy: on pieces of 32 pictures as they come, and told where tasks end.
--seed N makes other pictures, another network and other draws."""
import argparse
import tempfile

import numpy as np

import millrace as mr
from millrace import streams

TASKS, CLASSES, SIDE, EACH = 4, 8, 12, 1504  # whole steps: a last one that is short has no old samples
NEW, BUFFER = 32, 400  # samples: of a step, without the old ones; kept


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


def train(pipeline, seed):
    network = Network(np.random.default_rng(seed + 1))
    with pipeline.loader(seed=seed) as loader:
        for batch in loader:
            network.train(as_input(batch), batch["label"])
    return network


def pieces_for_avalanche(pipeline, size):
    """The stream's pictures in their order, as datasets of `size` each."""
    import torch
    from avalanche.benchmarks.utils import _make_taskaware_tensor_classification_dataset as dataset_of
    with pipeline.loader() as loader:
        x, y = zip(*((as_input(batch), batch["label"]) for batch in loader))
    x, y = torch.tensor(np.concatenate(x), dtype=torch.float32), torch.tensor(np.concatenate(y))
    return [dataset_of(x[i:i + size], y[i:i + size], task_labels=0) for i in range(0, len(y), size)]


def train_with_avalanche(pipeline, size, seed):
    """The same network and steps (Avalanche counts in torch), new pictures in pieces of `size`."""
    import torch
    from avalanche.benchmarks import benchmark_from_datasets
    from avalanche.training.plugins import EvaluationPlugin, ReplayPlugin
    from avalanche.training.storage_policy import ClassBalancedBuffer
    from avalanche.training.supervised import Naive
    torch.manual_seed(seed)
    network = Network(np.random.default_rng(seed + 1))
    layers = [torch.nn.Linear(*w.shape, bias=False) for w in (network.a, network.b)]
    for layer, weights in zip(layers, (network.a, network.b)):
        layer.weight.data = torch.tensor(weights.T, dtype=torch.float32)
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1])
    replay = ReplayPlugin(BUFFER, batch_size=NEW, batch_size_mem=NEW, storage_policy=ClassBalancedBuffer(BUFFER))
    strategy = Naive(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.05), plugins=[replay],
                     train_mb_size=NEW, evaluator=EvaluationPlugin(loggers=[]))
    for piece in benchmark_from_datasets(train=pieces_for_avalanche(pipeline, size)).train_stream:
        strategy.train(piece)
    network.a, network.b = (layer.weight.detach().numpy().T for layer in layers)
    return network


def arguments():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--avalanche", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main():
    given = arguments()
    seed, random = given.seed, np.random.default_rng(given.seed)
    shapes = random.random((CLASSES, SIDE, SIDE)) < 0.3
    tests = [np.repeat([2 * task, 2 * task + 1], 200) for task in range(TASKS)]
    tests = [(np.concatenate([pictures(200, label, random, shapes) for label in np.unique(y)])
              .reshape(-1, SIDE * SIDE) / 127.5 - 1, y) for y in tests]
    with tempfile.TemporaryDirectory() as folder:
        write_stream(f"{folder}/tasks", random, shapes, task_after_task)
        write_stream(f"{folder}/mixed", random, shapes, all_mixed)
        stream = mr.segments(f"{folder}/tasks", follow=True, until=TASKS * EACH).batch(NEW)
        runs = {
            "as it comes": stream,
            "with rehearsal": stream.batch(2 * NEW).rehearse(size=BUFFER, share=0.5, policy="class_balanced"),
            "all mixed": mr.segments(f"{folder}/mixed").batch(NEW),
        }
        trained = {name: lambda pipeline=pipeline: train(pipeline, seed) for name, pipeline in runs.items()}
        if given.avalanche:
            trained["Avalanche"] = lambda: train_with_avalanche(stream, NEW, seed)
            trained["Avalanche, tasks"] = lambda: train_with_avalanche(stream, EACH, seed)
        print(f"{'':16}" + "".join(f"task {task + 1:<6}" for task in range(TASKS)))
        for name, make in trained.items():
            network = make()
            print(f"{name:16}" + "".join(f"{network.known(*test):<11.0%}" for test in tests))


if __name__ == "__main__":
    main()
