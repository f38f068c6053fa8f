# SPDX-License-Identifier: Apache-2.0
"""tf.data over an array in memory, shuffled through a buffer of 10,000."""

import harness


def batches(work):
    import numpy as np
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = work.threads
    data = tf.data.Dataset.from_tensor_slices(np.load(work.data)).shuffle(10000).repeat()
    data = data.batch(harness.BATCH, num_parallel_calls=work.threads).prefetch(2)
    return (len(rows) for rows in data.with_options(options))


if __name__ == "__main__":
    harness.main(batches)
