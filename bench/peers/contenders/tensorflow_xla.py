"""TensorFlow: textbook code with tf.function, compiled by XLA."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from arrays import Inputs, cos_sin
from contender import Contender, Run


def rotation(pairing: str, layout: str, cosines: np.ndarray, sines: np.ndarray):  # noqa: ANN201
    if layout == "THD":
        cosines, sines = cosines[:, None], sines[:, None]

    def rotate_one(x: tf.Tensor) -> tf.Tensor:
        wide = tf.cast(x, tf.float32)
        if pairing == "halves":
            a, b = tf.split(wide, 2, axis=-1)
            out = tf.concat((a * cosines - b * sines, b * cosines + a * sines), axis=-1)
        else:
            a, b = wide[..., 0::2], wide[..., 1::2]
            out = tf.stack((a * cosines - b * sines, b * cosines + a * sines), axis=-1)
        return tf.cast(tf.reshape(out, tf.shape(x)), x.dtype)

    return tf.function(lambda q, k: (rotate_one(q), rotate_one(k)), jit_compile=True)


class TensorFlow(Contender):
    name = "TensorFlow XLA, textbook"

    def prepare(self, inputs: Inputs) -> Run:
        case = inputs.case
        table = [part.astype(np.float32) for part in cos_sin(case, list(range(case.tokens)))]
        rotate = rotation(case.pairing, case.layout, *table)
        arrays = []
        for stored in inputs.stored:
            x = tf.constant(stored)
            arrays.append(tf.bitcast(x, tf.bfloat16) if case.dtype == "bf16" else x)
        return Run.keeping(
            lambda: rotate(*arrays),
            lambda out, rows: [
                inputs.tokens_of(tf.cast(x, tf.float32).numpy(), rows) for x in out
            ],
        )


def contenders(threads: int) -> list[Contender]:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return [TensorFlow()]


def versions() -> dict[str, str]:
    return {"tensorflow-cpu": tf.__version__}
