# %% [markdown]
# # Train with JAX
#
# A classifier is trained on the data of 400 people, each of whom takes part four times. Everything that is ever seen of the
# gradients is noisy sums, so the model keeps the promise whatever is done with it.

# %%
import jax
import jax.numpy as jnp
import numpy as np
import optax

import continual_dp as cdp
from continual_dp.optax import private_aggregate

# %%
random = np.random.default_rng(5)
labels = np.repeat([0.0, 1.0], 200)
points = random.normal(size=(400, 2)) + np.where(labels[:, None] == 1, 1.5, -1.5)
order = random.permutation(400)
points, labels = jnp.array(points[order], dtype=jnp.float32), jnp.array(labels[order], dtype=jnp.float32)

# %% [markdown]
# The plan: forty steps of batches of forty people, so that everybody takes part four times, ten steps apart; gradients clipped
# to norm 1. The noise is correlated over the steps and fitted to exactly that schedule.

# %%
steps, batch = 40, 40
plan = cdp.plan(
    "count", steps=steps, clip=1.0, dimension=3, relation="zero-out", participation=(4, 10), epsilon=8, delta=1e-5
)
print(plan.strategy, plan.sigma)

# %%
gradients = cdp.PrivateGradients(plan, reproducible_seed=1)
optimizer = optax.chain(private_aggregate(gradients, batch_size=batch), optax.sgd(0.5))
params = {"bias": jnp.zeros(()), "weight": jnp.zeros(2)}
state = optimizer.init(params)


def loss(params, point, label):
    return optax.sigmoid_binary_cross_entropy(point @ params["weight"] + params["bias"], label)


@jax.jit
def train(params, state, points, labels):
    of_people = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(params, points, labels)
    updates, state = optimizer.update(of_people, state, params)
    return optax.apply_updates(params, updates), state


# %%
for step in range(steps):
    rows = slice(step % 10 * batch, (step % 10 + 1) * batch)
    params, state = train(params, state, points[rows], labels[rows])
jax.block_until_ready(params)
accuracy = float(((points @ params["weight"] + params["bias"] > 0) == (labels == 1)).mean())
print(f"{accuracy:.1%} of the people are on the right side")
