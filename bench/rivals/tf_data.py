# SPDX-License-Identifier: Apache-2.0
"""tf.data with the decoder that decodes only the crop. Its resize is the one its users take, without
antialiasing, which is less work than the others do."""

import harness


def train(tf, path):
    data = tf.io.read_file(path)
    box = tf.image.sample_distorted_bounding_box(
        tf.image.extract_jpeg_shape(data),
        tf.zeros([1, 0, 4]),
        aspect_ratio_range=(3 / 4, 4 / 3),
        area_range=(0.08, 1.0),
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.concat([box[0][:2], box[1][:2]], axis=0)
    image = tf.image.decode_and_crop_jpeg(data, window, channels=3)
    return tf.image.random_flip_left_right(tf.image.resize(image, [harness.SIZE, harness.SIZE]))


def val(tf, path):
    data = tf.io.read_file(path)
    shape = tf.image.extract_jpeg_shape(data)
    side = tf.cast(tf.minimum(shape[0], shape[1]) * harness.SIZE / 256, tf.int32)
    window = tf.stack([(shape[0] - side) // 2, (shape[1] - side) // 2, side, side])
    image = tf.image.decode_and_crop_jpeg(data, window, channels=3)
    return tf.image.resize(image, [harness.SIZE, harness.SIZE])


def batches(work):
    import tensorflow as tf

    mean = tf.constant([255 * m for m in harness.MEAN])
    std = tf.constant([255 * s for s in harness.STD])
    load = train if work.workload == "train" else val
    names = harness.paths(work)
    data = tf.data.Dataset.from_tensor_slices(names).shuffle(len(names)).repeat()
    data = data.map(
        lambda path: tf.transpose((load(tf, path) - mean) / std, [2, 0, 1]),
        num_parallel_calls=work.threads,
        deterministic=True,
    )
    options = tf.data.Options()
    options.threading.private_threadpool_size = work.threads
    data = data.batch(harness.BATCH).prefetch(2).with_options(options)
    return (len(images) for images in data)


if __name__ == "__main__":
    harness.main(batches)
