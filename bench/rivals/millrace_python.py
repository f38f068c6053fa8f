# SPDX-License-Identifier: Apache-2.0
"""millrace itself, as the rivals are run: from Python, batches as numpy arrays. --data is a pipeline."""

import harness


def batches(work):
    import millrace as mr

    with open(work.data, encoding="utf-8") as document:
        pipeline = mr.Pipeline.from_json(document.read())
    loader = pipeline.loader(threads=work.threads, epochs=1_000_000)
    return (batch.size for batch in loader.all_epochs())


if __name__ == "__main__":
    harness.main(batches)
