# SPDX-License-Identifier: Apache-2.0
"""Trains a linear classifier with jax on a folder of class folders, in a few lines.

    python examples/train_jax.py photos
"""
import sys

import jax
import jax.numpy as jnp

import millrace as mr

Parameters = dict[str, jax.Array]


def loss_of(parameters: Parameters, image: jax.Array, label: jax.Array) -> jax.Array:
    features = image.reshape(image.shape[0], -1)
    scores = features @ parameters["weights"] + parameters["bias"]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(scores), label[:, None], axis=1)
    return -jnp.mean(chosen)


@jax.jit
def step(parameters: Parameters, image: jax.Array,
         label: jax.Array) -> tuple[Parameters, jax.Array]:
    loss, slopes = jax.value_and_grad(loss_of)(parameters, image, label)
    return jax.tree.map(lambda p, g: p - 0.01 * g, parameters, slopes), loss


def main(folder: str) -> None:
    loader = (mr.files(folder)
              .decode_image()
              .random_resized_crop(16)
              .random_flip()
              .normalize(mean=0.5, std=0.25)
              .batch(4)
              .remainder("drop")  # one shape, so that jit compiles once
              .loader(seed=1, to="jax"))
    n = len(loader.classes)
    parameters = {"weights": jnp.zeros((3 * 16 * 16, n)), "bias": jnp.zeros(n)}
    losses = []
    for _ in range(20):
        for batch in loader:
            parameters, loss = step(parameters, batch["image"], batch["label"])
            losses.append(float(loss))
    print(f"{len(losses)} steps, loss {losses[0]:.3f} to {losses[-1]:.3f}")
    if losses[-1] >= losses[0]:
        raise SystemExit("the loss did not fall")


if __name__ == "__main__":
    main(*sys.argv[1:])
