"""JAX on XLA's CPU backend: textbook code with jit."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from arrays import Inputs
from cases import Case
from contender import Contender, Run

WORKS = ("rotate", "rotate_backward", "rotary_table", "sinusoidal_table", "add_table")


def table(case: Case, start: jax.Array) -> tuple[jax.Array, jax.Array]:
    steps = jnp.arange(0, case.size, 2, dtype=jnp.float32) / case.size
    turns = (start + jnp.arange(case.tokens, dtype=jnp.float32))[:, None] / 10000.0**steps
    return jnp.cos(turns), jnp.sin(turns)


def sinusoidal(case: Case, start: jax.Array) -> tuple[jax.Array]:
    cosines, sines = table(case, start)
    return (jnp.stack((sines, cosines), axis=-1).reshape(case.tokens, case.size),)


def rotation(case: Case) -> Callable:
    def rotate_one(x: jax.Array, cosines: jax.Array, sines: jax.Array) -> jax.Array:
        wide = x.astype(jnp.float32)
        if case.layout == "THD":
            cosines, sines = cosines[None, :, None], sines[None, :, None]
        if case.pairing == "halves":
            a, b = jnp.split(wide, 2, axis=-1)
            out = jnp.concatenate((a * cosines - b * sines, b * cosines + a * sines), axis=-1)
        else:
            a, b = wide[..., 0::2], wide[..., 1::2]
            out = jnp.stack((a * cosines - b * sines, b * cosines + a * sines), axis=-1)
        return out.reshape(x.shape).astype(x.dtype)

    def rotate(q: jax.Array, k: jax.Array, *parts: jax.Array) -> tuple[jax.Array, jax.Array]:
        return rotate_one(q, *parts), rotate_one(k, *parts)

    def back(q: jax.Array, k: jax.Array, *parts: jax.Array) -> tuple[jax.Array, jax.Array]:
        # Linear, so the gradient does not depend on the point.
        return jax.vjp(lambda q, k: rotate(q, k, *parts), q, k)[1]((q, k))

    return back if case.work == "rotate_backward" else rotate


class Jax(Contender):
    name = "JAX jit, textbook"
    works = WORKS
    own_table = True

    def takes(self, case: Case) -> bool:
        return super().takes(case) and (case.rotates or case.dtype == "f32")

    def prepare(self, inputs: Inputs) -> Run:
        case = inputs.case

        def as_jax(stored: np.ndarray) -> jax.Array:
            return jnp.array(
                stored.view(ml_dtypes.bfloat16) if case.dtype == "bf16" else stored
            )

        # An argument, because otherwise XLA computes the table during compilation.
        start = jnp.float32(case.start)
        if case.rotates:
            arguments = [*map(as_jax, inputs.stored), *table(case, start)]
            compute = jax.jit(rotation(case))
        elif case.work == "add_table":
            arguments = [as_jax(inputs.stored[0]), jnp.array(inputs.table)]
            compute = jax.jit(jnp.add)
        else:
            arguments = [start]
            make = table if case.work == "rotary_table" else sinusoidal
            compute = jax.jit(lambda start: make(case, start))

        def results(out: tuple, rows: list[int]) -> list[np.ndarray]:
            if case.rotates:
                return [inputs.tokens_of(np.asarray(x), rows).astype(np.float32) for x in out]
            if case.work == "add_table":
                return [np.asarray(out)[0][rows]]
            return [np.asarray(part)[rows] for part in out]

        return Run.keeping(lambda: jax.block_until_ready(compute(*arguments)), results)


def contenders(threads: int) -> list[Contender]:
    return [Jax()]


def versions() -> dict[str, str]:
    return {"jax": jax.__version__, "jaxlib": jax.lib.__version__}
