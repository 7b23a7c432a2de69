"""Noise in place, private gradients, and the transformations for JAX and PyTorch."""

import array
import copy
import json
import pathlib
import pickle
import struct

import numpy as np
import pytest

import continual_dp as cdp

GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden.json").read_text())


def plan(dimension=5, steps=8, **more):
    arguments = dict(clip=1.0, relation="zero-out", mu=1.0, strategy="blt")
    arguments.update(more)
    return cdp.plan("count", steps=steps, dimension=dimension, **arguments)


@pytest.mark.parametrize("case", GOLDEN["noise"], ids=lambda case: case["name"])
def test_the_same_seeds_give_the_same_noise_as_rust(case):
    noise = cdp.Noise(cdp.plan(case["workload"], **case["arguments"]), reproducible_seed=case["seed"])
    found = []
    for row in np.array(case["inputs"], dtype=np.float32).reshape(-1, case["arguments"]["dimension"]):
        row = row.copy()
        noise.add(row)
        found += [struct.pack(">f", value).hex() for value in row]
    assert found == case["released"]


def test_any_writable_buffer_is_written_in_place():
    make = lambda: cdp.Noise(plan(6), reproducible_seed=2)
    expected = np.zeros(6)
    make().add(expected)
    assert (expected != 0).all()
    matrix = np.zeros((2, 3))
    make().add(matrix)
    assert np.array_equal(matrix.ravel(), expected)
    of_python = array.array("d", [0.0] * 6)
    make().add(of_python)
    assert list(of_python) == list(expected)
    of_bytes = memoryview(bytearray(8 * 6)).cast("d")
    make().add(of_bytes)
    assert list(of_bytes) == list(expected)
    single = np.zeros(6, dtype=np.float32)
    make().add(single)
    assert np.array_equal(single, expected.astype(np.float32))
    part = np.zeros(10)
    make().add(part[2:8])
    assert np.array_equal(part[2:8], expected) and part[[0, 1, 8, 9]].any() == False

    class Shared:
        """Memory that comes by DLPack alone, as a tensor of torch does."""

        def __init__(self, values):
            self.values = values

        def __dlpack__(self, **more):
            return self.values.__dlpack__(**more)

        def __dlpack_device__(self):
            return self.values.__dlpack_device__()

    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        values = np.zeros(6)
        make().add(Shared(values))
        assert np.array_equal(values, expected)


@pytest.mark.parametrize(
    "sum, error, words",
    [
        (np.zeros(5, dtype=np.int64), TypeError, "sum has dtype int64"),
        (np.zeros(5, dtype=np.float16), TypeError, "sum has dtype float16"),
        (np.zeros(5, dtype=">f8"), TypeError, "sum has dtype >f8"),
        ([0.0] * 5, TypeError, "sum is a list"),
        ("gradient", TypeError, "sum is a str"),
        (b"\0" * 40, ValueError, "read-only"),
        (np.broadcast_to(0.0, 5), ValueError, "read-only"),
        (np.zeros(10)[::2], ValueError, "not contiguous"),
        (np.zeros(4), ValueError, "has 4 coordinates, but 5 are needed"),
        (np.array([0, 0, np.nan, 0, 0]), ValueError, "coordinate 2 of the input is NaN"),
        (np.array([0, 0, 0, -np.inf, 0]), ValueError, "coordinate 3 of the input is infinite"),
    ],
)
def test_bad_buffers_are_refused_and_stay_as_they_are(sum, error, words):
    noise, untouched = (cdp.Noise(plan(), reproducible_seed=1) for _ in range(2))
    before = copy.copy(sum)
    with pytest.raises(error) as refused:
        noise.add(sum)
    assert isinstance(refused.value, cdp.ContinualError) and words in str(refused.value)
    assert np.array_equal(np.asarray(before), np.asarray(sum), equal_nan=not isinstance(sum, (str, bytes)))
    # Nothing of the noise was used.
    first, second = np.zeros(5), np.zeros(5)
    assert (noise.add(first), untouched.add(second)) == (1, 1) and np.array_equal(first, second)


def test_shards_make_up_the_whole():
    dimension = 10_000
    whole, values = cdp.Noise(plan(dimension), reproducible_seed=3), np.zeros(dimension)
    parts = cdp.Noise.shards(plan(dimension), 3, reproducible_seed=3)
    assert [part.range for part in parts] == [(0, 4096), (4096, 8192), (8192, dimension)]
    for step in range(1, 9):
        values[:] = 0
        whole.prepare()
        assert whole.add(values) == step
        for part in parts:
            first, end = part.range
            own = np.zeros(end - first)
            part.add(own)
            assert np.array_equal(own, values[first:end])
    with pytest.raises(cdp.HorizonError):
        whole.add(values)


def test_noise_has_the_planned_deviation():
    # n = 40,000 independent values of σ; the mean square is within 1 ± 0.05 with probability above 1 - 1e-9, and noise
    # times 2/3 or 3/2 has 0.44 or 2.25.
    noisy = np.zeros(40_000)
    made = plan(40_000, strategy="identity", mu=0.5)
    assert made.sigma == pytest.approx(2.0)
    cdp.Noise(made, reproducible_seed=8).add(noisy)
    ratio = np.mean((noisy / made.sigma) ** 2)
    assert abs(ratio - 1) < 0.05 and not abs(ratio * 4 / 9 - 1) < 0.05 and not abs(ratio * 9 / 4 - 1) < 0.05


def test_kept_noise_answers_a_step_once(tmp_path):
    place, made = tmp_path / "noise", plan(100)
    assert cdp.Noise.create(place, made, reproducible_seed=4) == 1
    with pytest.raises(cdp.StateError):
        cdp.Noise.create(place, made, reproducible_seed=4)
    whole = cdp.Noise(made, reproducible_seed=4)
    expected = [np.zeros(100) for _ in range(4)]
    for values in expected:
        whole.add(values)
    with cdp.Noise.open(place, made) as noise:
        with pytest.raises(cdp.StateError, match="another process"):
            cdp.Noise.open(place, made)
        first, second = np.zeros(100), np.zeros(100)
        noise.add(first)
        assert noise.checkpoint() == 1
        noise.add(second)
    with cdp.Noise.open(place, made) as noise:
        # The second step was answered behind the checkpoint: again for the same sum, and for no other.
        assert (noise.done, noise.answered) == (1, 2)
        with pytest.raises(cdp.StateError, match="for another input"):
            noise.add(np.ones(100))
        again = np.zeros(100)
        noise.add(again)
        assert np.array_equal(again, second) and np.array_equal(second, expected[1])
        noise.skip_to(3)
        fourth = np.zeros(100)
        assert noise.add(fourth) == 4 and np.array_equal(fourth, expected[3])
        with pytest.raises(cdp.StateError):
            noise.skip_to(1)
    with pytest.raises(cdp.StateError, match="another plan"):
        cdp.Noise.open(place, plan(100, mu=2.0))
    with pytest.raises(cdp.ContinualError):
        cdp.Noise.open(place, made, shard=1)
    with pytest.raises(cdp.StateError, match="not kept"):
        whole.checkpoint()


def test_gradients_are_clipped_in_either_precision_and_order(tmp_path):
    loud = plan(3, mu=1e9)
    rows = np.array([[3.0, 4.0, 0.0], [0.0, 0.5, 0.0], [1e30, 0.0, 0.0]])
    expected = [1.6, 1.3, 0.0]
    for given in (rows, rows.astype(np.float32), rows[:, ::-1].copy()[:, ::-1]):
        gradients = cdp.PrivateGradients(loud)
        gradients.add_many(given)
        assert np.allclose(gradients.finish(), expected, atol=1e-6)
    one_by_one = cdp.PrivateGradients(loud, reproducible_seed=1)
    together = cdp.PrivateGradients(loud, reproducible_seed=1)
    kept = cdp.PrivateGradients(loud, reproducible_seed=1, state=tmp_path / "gradients.state")
    for row in rows:
        one_by_one.add(row)
    together.add_many(rows)
    kept.add_many(rows)
    first = one_by_one.finish()
    assert np.array_equal(first, together.finish()) and np.array_equal(first, kept.finish())
    kept.close()
    kept = cdp.PrivateGradients(loud, reproducible_seed=1, state=tmp_path / "gradients.state")
    assert kept.done == 1 and np.array_equal(kept.last_finished(), first)
    # An empty batch has its noise like every other.
    assert np.array_equal(kept.finish(), one_by_one.finish())


def test_layers_are_clipped_each_for_itself():
    layers = cdp.plan("count", steps=4, clip=[(2, 1.0), (3, 0.5)], relation="zero-out", mu=1e9, strategy="identity")
    assert layers.dimension == 5
    # The noise covers both layers together: sqrt(1 + 1/4).
    assert layers.sigma * 1e9 == pytest.approx(1.25**0.5, rel=1e-12)
    assert layers.to_dict()["clip"].startswith("2 layers of norms [1.0, 0.5]")
    gradients = cdp.PrivateGradients(layers)
    gradients.add_many(np.array([[3.0, 4.0, 0.0, 2.0, 0.0], [0.3, 0.0, 0.0, 0.0, 0.1]]))
    assert np.allclose(gradients.finish(), [0.9, 0.8, 0.0, 0.5, 0.1], atol=1e-6)
    whole = cdp.plan("count", steps=4, clip=[(2, 1.0), (3, 0.5)], relation="replace", mu=1, strategy="identity")
    assert whole.sigma == pytest.approx(2 * 1.25**0.5, rel=1e-12)


def test_bad_gradients_change_nothing():
    gradients, untouched = (cdp.PrivateGradients(plan(2), reproducible_seed=1) for _ in range(2))
    for bad, words in [
        (np.array([[0.0, 1.0], [np.nan, 0.0]]), "row 1 of gradients holds NaN"),
        (np.zeros((2, 3)), "shape [2, 3]"),
        (np.zeros(2), "shape [2]"),
        (np.zeros((2, 2), dtype=complex), "dtype complex128"),
        ([["a", "b"]], "dtype <U1"),
    ]:
        with pytest.raises(cdp.ContinualError) as refused:
            gradients.add_many(bad)
        assert words in str(refused.value)
    with pytest.raises(ValueError, match="NaN"):
        gradients.add([np.nan, 0])
    assert np.array_equal(gradients.finish(), untouched.finish())


def test_live_objects_and_plans_are_not_mixed_up(week):
    with pytest.raises(cdp.InputError, match="clip"):
        cdp.Noise(week)
    with pytest.raises(cdp.InputError, match="clipped vectors"):
        cdp.Release(plan())
    for live in (cdp.Noise(plan()), cdp.PrivateGradients(plan())):
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="one noise"):
                attempt(live)
        live.close()
        with pytest.raises(cdp.ClosedError):
            live.done


def test_a_plan_for_a_large_model_has_a_short_memory():
    large = cdp.plan("momentum:0.9", steps=2000, clip=1.0, dimension=10**7, relation="zero-out", mu=1)
    assert large.table[0]["memory"] < 30 * 10**7 and large.strategy != "sqrt"


class Tensor:
    """As much of a torch tensor as the optimizer needs."""

    def __init__(self, values, requires_grad=False):
        self.values = np.array(values, dtype=np.float32)
        self.requires_grad = requires_grad
        self.grad = None
        self.grad_sample = None

    detach = cpu = lambda self: self

    def numpy(self):
        return self.values

    def clone(self):
        return Tensor(self.values)

    def new_tensor(self, values):
        return Tensor(values)

    def copy_(self, other):
        self.values[...] = other.values


class Descent:
    """As much of torch.optim.SGD as the wrapper needs."""

    def __init__(self, parameters, rate):
        self.param_groups = [{"params": list(parameters)}]
        self.rate = rate

    def step(self):
        for one in self.param_groups[0]["params"]:
            if one.grad is not None:
                one.values -= self.rate * one.grad.values

    def zero_grad(self, set_to_none=True):
        for one in self.param_groups[0]["params"]:
            one.grad = None


def test_an_optimizer_of_torch_sees_noisy_sums_only():
    from continual_dp.torch import PrivateOptimizer

    weight, bias, frozen = Tensor(np.zeros((2, 2)), True), Tensor([0.0], True), Tensor([7.0])
    gradients = cdp.PrivateGradients(plan(5, mu=1e9))
    optimizer = PrivateOptimizer(Descent([weight, bias, frozen], 1.0), gradients, batch_size=2)
    with pytest.raises(cdp.InputError, match="grad_sample"):
        optimizer.step()
    weight.grad_sample = Tensor([[[3.0, 0.0], [0.0, 0.0]], [[0.0, 0.5], [0.0, 0.0]]])
    bias.grad_sample = Tensor([[4.0], [0.0]])
    optimizer.step()
    assert np.allclose(weight.values, [[-0.3, -0.25], [0, 0]], atol=1e-5) and np.allclose(bias.values, -0.4, atol=1e-5)
    assert frozen.values == 7 and weight.grad_sample is None
    optimizer.zero_grad()
    assert weight.grad is None
    # In two parts, and with nobody.
    part = [Tensor(np.zeros((0, 2, 2))), Tensor(np.zeros((0, 1)))]
    optimizer.add(part)
    optimizer.add(part)
    optimizer.step()
    assert gradients.done == 2
    weight.grad_sample, bias.grad_sample = Tensor(np.zeros((2, 2, 2))), Tensor(np.zeros((1, 1)))
    with pytest.raises(cdp.InputError, match="different numbers of people"):
        optimizer.step()


def test_an_optimizer_of_torch_where_it_is_installed():
    torch = pytest.importorskip("torch")
    from continual_dp.torch import PrivateOptimizer

    model = torch.nn.Linear(2, 1)
    optimizer = PrivateOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), cdp.PrivateGradients(plan(3, mu=1e9)), batch_size=1)
    before = model.weight.detach().clone()
    model.weight.grad_sample, model.bias.grad_sample = torch.tensor([[[3.0, 4.0]]]), torch.tensor([[0.0]])
    optimizer.step()
    assert torch.allclose(model.weight, before - torch.tensor([[0.6, 0.8]]), atol=1e-5)
    values = torch.zeros(5)
    cdp.Noise(plan()).add(values)
    assert values.abs().sum() > 0


def test_jax_learns_and_refuses_to_repeat_a_step():
    jax = pytest.importorskip("jax")
    optax = pytest.importorskip("optax")
    import jax.numpy as jnp

    from continual_dp.optax import add_noise, private_aggregate

    # Two clouds that a line separates.
    random = np.random.default_rng(5)
    labels = np.repeat([0.0, 1.0], 200)
    points = random.normal(size=(400, 2)) + np.where(labels[:, None] == 1, 1.5, -1.5)
    order = random.permutation(400)
    points, labels = jnp.array(points[order], dtype=jnp.float32), jnp.array(labels[order], dtype=jnp.float32)
    params = {"bias": jnp.zeros(()), "weight": jnp.zeros(2)}

    def loss(params, point, label):
        return optax.sigmoid_binary_cross_entropy(point @ params["weight"] + params["bias"], label)

    def accuracy(params):
        return float(((points @ params["weight"] + params["bias"] > 0) == (labels == 1)).mean())

    steps, batch = 40, 40
    made = cdp.plan("count", steps=steps, clip=1.0, dimension=3, relation="zero-out", participation=(4, 10), epsilon=8, delta=1e-5)
    gradients = cdp.PrivateGradients(made, reproducible_seed=1)
    optimizer = optax.chain(private_aggregate(gradients, batch_size=batch), optax.sgd(0.5))
    state = optimizer.init(params)

    @jax.jit
    def train(params, state, points, labels):
        of_people = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(params, points, labels)
        updates, state = optimizer.update(of_people, state, params)
        return optax.apply_updates(params, updates), state

    before = accuracy(params)
    for step in range(steps):
        rows = slice(step % 10 * batch, (step % 10 + 1) * batch)
        old = (params, state)
        params, state = train(params, state, points[rows], labels[rows])
        jax.block_until_ready(params)
    assert gradients.done == steps
    # 400 people, ε = 8: the line is found through the noise.
    assert accuracy(params) > 0.9 > before
    # An old state is refused, and nothing of the noise is used.
    with pytest.raises(Exception, match="an update is made once|made once"):
        jax.block_until_ready(train(*old, points[:batch], labels[:batch]))
    # Noise on sums that are clipped already is that of the plan.
    made = plan(3, strategy="identity")
    direct, noise = cdp.Noise(made, reproducible_seed=3), cdp.Noise(made, reproducible_seed=3)
    transformation = add_noise(noise)
    expected = np.ones(3, dtype=np.float32)
    direct.add(expected)
    sums = {"bias": jnp.ones(()), "weight": jnp.ones(2)}
    updates, state = jax.jit(transformation.update)(sums, transformation.init(sums))
    assert np.array_equal(np.concatenate([np.ravel(updates["bias"]), updates["weight"]]), expected)
    assert int(state.done) == 1
