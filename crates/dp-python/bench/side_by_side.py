"""The package beside jax-privacy, OpenDP and dp-accounting, on the same work in one run.

side_by_side.py --wheel FILE [--quick] [--record]

Started by `cargo xtask python bench`, which builds the published wheel and installs the others. All sides of a work take turns,
and the shortest of several turns counts, so that whatever else the machine does meets all of them. Others are used as their
documentation recommends; what is compiled is compiled before it is measured. A package that is missing costs its rows.
"""

import argparse
import datetime
import importlib.metadata
import itertools
import os
import pathlib
import subprocess
import sys
import time
import warnings

import numpy as np

import continual_dp as cdp

warnings.simplefilter("ignore")
OURS = f"continual_dp {cdp.__version__}"
RECORD = pathlib.Path(__file__).resolve().parents[3] / "benches" / "record" / "python.md"


def version(package):
    return f"{package} {importlib.metadata.version(package)}"


def timed(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turns(sides, turns):
    """The shortest time of every side, from turns that alternate, in one order and the other."""
    best = {name: float("inf") for name in sides}
    for turn in range(turns):
        order = list(sides.items())
        for name, work in order if turn % 2 == 0 else reversed(order):
            best[name] = min(best[name], work())
    return best


class Table:
    def __init__(self):
        self.rows = []

    def add(self, work, times, note="", notes=None):
        """The first side is ours; the others are given as multiples of it."""
        ours = next(iter(times.values()))
        for name, seconds in times.items():
            self.rows.append((work, name, seconds, seconds / ours, (notes or {}).get(name, note)))
            print(f"{work:46} {name:42} {show(seconds):>9} {seconds / ours:9.3g}  {(notes or {}).get(name, note)}", flush=True)

    def markdown(self):
        head = ["| work | who | time | times ours | conditions |", "|---|---|---|---|---|"]
        return "\n".join(head + [f"| {work} | {who} | {show(seconds)} | {ratio:.3g} | {note} |" for work, who, seconds, ratio, note in self.rows])


def show(seconds):
    for unit, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 1e-9:.3g} ns"


def attempt(part, *arguments):
    """A part whose package is not there costs its rows and nothing else."""
    try:
        return part(*arguments)
    except ImportError as missing:
        print(f"not measured: {missing}", flush=True)
        return None


def planning(table, quick):
    from jax_privacy.matrix_factorization import buffered_toeplitz
    import jax

    jax.config.update("jax_enable_x64", True)
    steps = 256 if quick else 1024
    arguments = dict(steps=steps, bounds=(0, 1), relation="zero-out", epsilon=1, delta=1e-6)
    theirs = f"{version('jax-privacy')}, 4 buffers"

    def optimize():
        buffered_toeplitz.optimize(n=steps, error="mean", min_buffers=4, max_buffers=4)

    sides = {
        OURS: lambda: timed(lambda: cdp.plan("count", **arguments)),
        theirs: lambda: timed(optimize),
    }
    times = in_turns(sides, 1 if quick else 2)
    gap = cdp.plan("count", **arguments).gap
    notes = {
        OURS: f"auto, {gap:.2%} above what nothing can beat, noise calibrated, exact",
        theirs: "about 7 % above; it compiles at every call",
    }
    table.add(f"a plan for a count of {steps}", times, notes=notes)


def noise(table, quick):
    import jax
    import jax.numpy as jnp
    from jax_privacy import noise_addition
    from jax_privacy.matrix_factorization import buffered_toeplitz

    dimension, steps, turns = 10**6, 5, 5 if quick else 15
    jax.config.update("jax_enable_x64", True)
    fitted = buffered_toeplitz.optimize(n=256 if quick else 4096, error="mean", min_buffers=5, max_buffers=5)
    decays, scales = np.asarray(fitted.buf_decay), np.asarray(fitted.output_scale)
    for single in (True, False):
        dtype = np.float32 if single else np.float64
        jax.config.update("jax_enable_x64", not single)
        plan = cdp.plan("count", steps=4096, clip=1.0, dimension=dimension, relation="zero-out", mu=1, strategy="blt")
        made = cdp.Noise(plan)
        buffer = np.zeros(dimension, dtype=dtype)
        strategy = buffered_toeplitz.BufferedToeplitz.build(
            jnp.asarray(decays, dtype), jnp.asarray(scales, dtype), dtype=jnp.dtype(dtype)
        )
        privatizer = noise_addition.matrix_factorization_privatizer(
            strategy.inverse_as_streaming_matrix(), stddev=1.0, prng_key=1, dtype=jnp.dtype(dtype)
        )
        gradient = jnp.zeros(dimension, dtype)
        update = jax.jit(privatizer.update, donate_argnums=1)
        state = privatizer.init(gradient)

        def theirs():
            nonlocal state
            for _ in range(steps):
                noisy, state = update(gradient, state)
                noisy.block_until_ready()

        def ours():
            for _ in range(steps):
                made.add(buffer)

        theirs(), ours()
        inside = "the same steps inside, in Rust"
        sides = {
            OURS: lambda: timed(ours) / steps,
            inside: lambda: made._seconds_of(steps, single) / steps,
        }
        # A few percent are asked for here, and threads of the other side look for work for a while after their own is done.
        time.sleep(1)
        times = in_turns(sides, 4 * turns)
        times |= in_turns({version("jax-privacy"): lambda: timed(theirs) / steps}, turns)
        note = f"5 buffers, {'float32' if single else 'float64'}, {os.cpu_count()} threads, warm"
        table.add(f"a step of noise, d = 10^6, {np.dtype(dtype).name}", times, note)
        print(f"    Python over Rust: {times[OURS] / times[inside] - 1:+.2%}", flush=True)


def counting(table, quick):
    events = 10**5 if quick else 10**6
    ones = np.ones(events)
    plan = cdp.plan("count", steps=events, bounds=(0, 1), relation="zero-out", rho=0.5, strategy="binary-tree")
    blt = cdp.plan("count", steps=events, bounds=(0, 1), relation="zero-out", rho=0.5, strategy="blt", exact=False)
    sides = {
        f"{OURS}, exact binary tree": lambda: timed(lambda: cdp.Release(plan).steps(ones)),
        f"{OURS}, blt": lambda: timed(lambda: cdp.Release(blt).steps(ones)),
    }
    notes = {
        f"{OURS}, exact binary tree": f"one step an event; error {plan.mean_squared_error ** 0.5:.3g}",
        f"{OURS}, blt": f"one step an event; error {blt.mean_squared_error ** 0.5:.3g}",
    }
    times = in_turns(sides, 2)
    try:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T=int), size=events), dp.l2_distance(T=int)
        tree = dp.t.make_b_ary_tree(*space, leaf_count=events, branching_factor=2)
        noisy = dp.binary_search_chain(lambda scale: tree >> dp.m.then_gaussian(scale), d_in=1, d_out=0.5)
        release = noisy >> dp.t.make_consistent_b_ary_tree(branching_factor=2, TIA="i32", TOA="f64")
        values = [1] * events
        name = f"{version('opendp')}, consistent binary tree"
        counts = []
        times[name] = timed(lambda: counts.extend(itertools.accumulate(release(values))))
        error = np.sqrt(np.mean((np.array(counts) - np.arange(1, events + 1)) ** 2))
        notes[name] = f"all events at once; error {error:.3g}; one turn"
    except ImportError as missing:
        print(f"not measured: {missing}", flush=True)
    table.add(f"a running count of {events} events in an array", times, notes=notes)

    items = np.arange(events) % 100
    histogram = lambda: cdp.Histogram(range(100), steps=10, relation="zero-out", rho=0.5)
    ready = [histogram() for _ in range(4)]
    sides = {OURS: lambda: timed(lambda: (ready[-1].push(items), ready.pop().top(100)))}
    try:
        import opendp.prelude as dp

        domain = dp.vector_domain(dp.atom_domain(T="i64"))
        count = dp.t.make_count_by_categories(
            domain, dp.symmetric_distance(), categories=list(range(100)), null_category=False, MO=dp.L2Distance[int], TOA=int
        )
        noisy = dp.binary_search_chain(lambda scale: count >> dp.m.then_gaussian(scale), d_in=1, d_out=0.5)
        sides[version("opendp")] = lambda: timed(lambda: noisy(items))
    except ImportError as missing:
        print(f"not measured: {missing}", flush=True)
    table.add(f"{events} items of 100 kinds in an array, counted", in_turns(sides, 3), "exact discrete noise, all counts asked for")


def discrete(table, quick):
    import opendp.prelude as dp

    dp.enable_features("contrib")
    size = 10**4 if quick else 10**5
    for sigma in (1, 1000):
        plan = cdp.plan(
            "step", steps=40, bounds=(0, 1), grid=1.0, dimension=size, relation="zero-out", rho=size / (2 * sigma**2), strategy="identity"
        )
        assert abs(plan.sigma / sigma - 1) < 1e-6, plan.sigma
        release, zeros = cdp.Release(plan), np.zeros(size)
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
        other, integers = space >> dp.m.then_gaussian(float(sigma)), [0] * size
        sides = {
            OURS: lambda: timed(lambda: release.step(zeros)) / size,
            version("opendp"): lambda: timed(lambda: other(integers)) / size,
        }
        note = f"added to an array of {size}; a value"
        table.add(f"discrete Gaussian noise, σ = {sigma}", in_turns(sides, 3), note)


def calibration(table, quick):
    import dp_accounting
    from dp_accounting.pld import privacy_loss_distribution

    sides = {
        OURS: lambda: timed(lambda: [cdp.calibrate(epsilon=1, delta=1e-6) for _ in range(1000)]) / 1000,
        version("dp-accounting"): lambda: timed(lambda: [dp_accounting.get_sigma_gaussian(1, 1e-6) for _ in range(20)]) / 20,
    }
    table.add("σ for ε = 1, δ = 1e-6", in_turns(sides, 3))

    def theirs():
        step = privacy_loss_distribution.from_gaussian_mechanism(1.1, sampling_prob=0.01, value_discretization_interval=1e-4)
        return step.self_compose(1000).get_epsilon_for_delta(1e-5)

    ours = lambda: cdp.account(noise_multiplier=1.1, delta=1e-5, sampling_rate=0.01, steps=1000)
    bracket, theirs_found = ours(), theirs()
    notes = {
        OURS: f"ε proven in [{bracket.lower:.6f}, {bracket.upper:.6f}]",
        version("dp-accounting"): f"ε at most {theirs_found:.6f}, interval 1e-4",
    }
    sides = {OURS: lambda: timed(ours), version("dp-accounting"): lambda: timed(theirs)}
    table.add("ε of 1000 sampled steps of noise", in_turns(sides, 2 if quick else 3), notes=notes)


def importing(turns):
    """The time to import the package, which loads numpy when it is first needed, and that of numpy: shortest of several."""

    def process(text):
        program = f"import time; start = time.perf_counter(); {text}; print(time.perf_counter() - start)"
        done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd="/")
        return float(done.stdout)

    both = "import continual_dp, numpy"
    return in_turns({"alone": lambda: process("import continual_dp"), "both": lambda: process(both)}, turns)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--wheel", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--record", action="store_true")
    words = parser.parse_args()
    size = os.path.getsize(words.wheel) / 1e6
    imported = importing(5)
    facts = f"Wheel: {size:.1f} MB. Import: {show(imported['alone'])}, with numpy {show(imported['both'])}."
    print(facts, flush=True)
    table = Table()
    for part in (planning, noise, counting, discrete, calibration):
        attempt(part, table, words.quick)
    if words.record:
        day = datetime.date.today().isoformat()
        head = f"Measured on {day} with `cargo xtask python bench` ({os.uname().machine}, {os.cpu_count()} cores, Python {sys.version.split()[0]}).\n\n{facts}\n\nAll sides of a work take turns; the shortest turn counts.\n"
        RECORD.write_text(f"{head}\n{table.markdown()}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
