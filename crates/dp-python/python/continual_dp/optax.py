"""Private gradients for JAX, as transformations for optax.

``private_aggregate`` takes the gradients of every person of a batch and returns their noisy mean; ``add_noise`` takes sums of
gradients that are clipped already. Both are chained in front of any optimizer::

    optimizer = optax.chain(private_aggregate(gradients, batch_size=64), optax.sgd(0.1))

The noise is made on the host, by an object that moves on with every step. The state of a transformation is the number of its
steps: an update that is computed twice, or one from an old state, is refused and not answered with other noise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax  # type: ignore[import-not-found,import-untyped,unused-ignore]
import jax.numpy as jnp  # type: ignore[import-not-found,import-untyped,unused-ignore]
import numpy as np
import optax  # type: ignore[import-not-found,import-untyped,unused-ignore]
from jax.experimental import io_callback  # type: ignore[import-not-found,import-untyped,unused-ignore]
from jax.flatten_util import ravel_pytree  # type: ignore[import-not-found,import-untyped,unused-ignore]

from . import InputError, Noise, PrivateGradients

__all__ = ["NoiseState", "add_noise", "private_aggregate"]


_shape: Any = jax.ShapeDtypeStruct


class NoiseState(NamedTuple):
    """How many updates were made."""

    done: Any


def _check(done: int, live: Noise | PrivateGradients) -> None:
    if int(done) != live.done:
        raise InputError(
            f"the state is that of update {int(done) + 1}, but the noise stands at {live.done + 1}; an update is made once, "
            "from the state that the one before returned"
        )


def _start(_: Any) -> NoiseState:
    return NoiseState(done=jnp.zeros((), dtype=jnp.int32))


def private_aggregate(gradients: PrivateGradients, *, batch_size: float) -> Any:
    """From the gradients of all people of a batch to their noisy sum, divided by a public batch size.

    Updates have a leading axis of people, as ``jax.vmap(jax.grad(loss), in_axes=(None, 0))`` makes them. Every person's
    gradient, over all leaves together, is clipped to the plan's norm in double precision.

    >>> import continual_dp as cdp, jax.numpy as jnp, optax
    >>> from continual_dp.optax import private_aggregate
    >>> plan = cdp.plan("count", steps=10, clip=1.0, dimension=3, relation="zero-out", rho=1e8)
    >>> optimizer = optax.chain(private_aggregate(cdp.PrivateGradients(plan), batch_size=2), optax.sgd(1.0))
    >>> params = {"w": jnp.zeros(2), "b": jnp.zeros(())}
    >>> of_people = {"w": jnp.array([[3.0, 4.0], [0.0, 0.5]]), "b": jnp.zeros(2)}
    >>> updates, state = optimizer.update(of_people, optimizer.init(params))
    >>> [round(float(value), 2) for value in updates["w"]]
    [-0.3, -0.65]
    """
    if not batch_size > 0:
        raise InputError("batch_size is outside its range: a public number above 0")

    def finish(done: Any, rows: Any) -> Any:
        _check(done, gradients)
        rows = np.asarray(rows)
        gradients.add_many(rows)
        return (gradients.finish() / batch_size).astype(rows.dtype)

    def update(updates: Any, state: NoiseState, params: Any = None) -> tuple[Any, NoiseState]:
        del params
        one, unravel = ravel_pytree(jax.tree_util.tree_map(lambda leaf: leaf[0], updates))
        rows = jax.vmap(lambda person: ravel_pytree(person)[0])(updates)
        shape = _shape(one.shape, one.dtype)
        noisy = io_callback(finish, shape, state.done, rows, ordered=True)
        return unravel(noisy), NoiseState(done=state.done + 1)

    return optax.GradientTransformation(_start, update)


def add_noise(noise: Noise) -> Any:
    """Adds correlated noise to sums of gradients that the caller has clipped, one a person, to the plan's norm.

    >>> import continual_dp as cdp, jax.numpy as jnp, optax
    >>> from continual_dp.optax import add_noise
    >>> plan = cdp.plan("momentum:0.9", steps=10, clip=1.0, dimension=3, relation="zero-out", rho=1)
    >>> optimizer = optax.chain(add_noise(cdp.Noise(plan)), optax.scale(1 / 64), optax.sgd(0.1, momentum=0.9))
    >>> params = jnp.zeros(3)
    >>> updates, state = optimizer.update(jnp.ones(3), optimizer.init(params), params)
    >>> updates.shape
    (3,)
    """

    def add(done: Any, sums: Any) -> Any:
        _check(done, noise)
        sums = np.array(sums)
        noise.add(sums)
        return sums

    def update(updates: Any, state: NoiseState, params: Any = None) -> tuple[Any, NoiseState]:
        del params
        flat, unravel = ravel_pytree(updates)
        noisy = io_callback(add, _shape(flat.shape, flat.dtype), state.done, flat, ordered=True)
        return unravel(noisy), NoiseState(done=state.done + 1)

    return optax.GradientTransformation(_start, update)
