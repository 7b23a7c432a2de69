"""Prefix counts of many events by OpenDP, from a noisy binary tree made consistent.

opendp_count.py STEPS RHO

OpenDP 0.16 has no continual counter. The nearest it offers takes all events at once: a binary tree of sums, exact discrete
Gaussian noise on every node, and least squares over the tree, which gives the leaves. Their running sums are the counts.
Its stability map for the tree says that one event moves the nodes by the number of levels in ℓ2, where the root of that
number would do; the noise follows what it says.
"""

import itertools
import sys

import opendp.prelude as dp

from reply import progress, reply, timed, version

dp.enable_features("contrib")


def counter(steps, rho):
    space = dp.vector_domain(dp.atom_domain(T=int), size=steps), dp.l2_distance(T=int)
    tree = dp.t.make_b_ary_tree(*space, leaf_count=steps, branching_factor=2)
    # The smallest scale at which the library itself vouches for ρ.
    noisy = dp.binary_search_chain(lambda scale: tree >> dp.m.then_gaussian(scale), d_in=1, d_out=rho)
    return noisy >> dp.t.make_consistent_b_ary_tree(branching_factor=2, TIA="i32", TOA="f64")


if __name__ == "__main__":
    steps, rho = int(sys.argv[1]), float(sys.argv[2])
    release = counter(steps, rho)
    events = [1] * steps
    progress(f"a tree over {steps} events")
    counts, seconds = timed(lambda: list(itertools.accumulate(release(events))))
    error = (sum((count - step) ** 2 for step, count in enumerate(counts, 1)) / steps) ** 0.5
    note = "all events at once, exact discrete noise, ℓ2 sensitivity taken as the number of levels, 1 thread"
    reply(version("opendp"), "consistent binary tree", seconds=seconds, quality=error, note=note)
