"""Counts of many things at once."""

import copy
import csv
import io

import numpy as np
import pytest

import continual_dp as cdp

LOUD = dict(relation="zero-out", mu=200.0, reproducible_seed=6)


def test_a_histogram_counts_people():
    with cdp.Histogram(["bread", "milk", "salt"], steps=10, items=2, removals=True, **LOUD) as shop:
        assert shop.push([["bread", "milk"], "bread"]) == 1
        assert shop.push([["salt"], []], removed=[[], ["bread"]]) == 2
        value, deviation = shop.count("bread")
        assert abs(value - 1) < 6 * deviation < 1
        assert {name for name, _ in shop.top(3)} == {"bread", "milk", "salt"} and len(shop.top(1)) == 1
        assert shop.done == 2 and shop.standard_deviation == deviation
    with pytest.raises(cdp.ClosedError):
        shop.count("bread")


def test_integers_and_patterns():
    ages = cdp.Histogram(range(18, 100), steps=10, **LOUD)
    ages.push([42, 42, 99])
    assert round(ages.count("42")[0]) == 2 and ages.top(1)[0][0] == "42"
    reads = cdp.Substrings("ACGT", 2, steps=20, relation="replace", mu=500.0, reproducible_seed=6)
    for base in "GATTACA":
        reads.push(base)
    assert reads.push(None) == 8 and round(reads.count("A")[0]) == 3 and round(reads.count("AT")[0]) == 1
    words = cdp.Substrings(words=["TA", "AC"], steps=20, relation="replace", mu=500.0, reproducible_seed=6)
    for base in "GATTACA":
        words.push(base)
    assert round(words.count("TA")[0]) == 1
    alarms = cdp.Episodes("ab", 2, steps=20, relation="zero-out", mu=500.0, reproducible_seed=6)
    for letter in "abab":
        alarms.push(letter)
    assert round(alarms.count("ab")[0]) == 2


def test_an_array_of_integers_is_as_good_as_a_list():
    make = lambda: cdp.Histogram(range(-5, 100), steps=3, relation="zero-out", mu=1.0, reproducible_seed=1)
    of_list, values = make(), [3, 3, -5, 99]
    of_list.push(values)
    for array in (np.array(values), np.array(values, dtype=np.int16), np.array([[one, 0] for one in values])[:, 0]):
        counts = make()
        assert counts.push(array) == 1 and counts.top(5) == of_list.top(5)
    with pytest.raises(cdp.InputError, match="not a known item"):
        make().push(np.array([100]))
    with pytest.raises(cdp.KindError, match="people holds a float64"):
        make().push(np.array([1.0]))
    names = cdp.Histogram(["1", "2"], steps=3, relation="zero-out", mu=1e3)
    names.push(np.array([1, 1, 2], dtype=np.uint8))
    assert round(names.count("1")[0]) == 2


def test_quantiles_of_numbers(tmp_path):
    more = dict(steps=5, relation="replace", mu=100.0, state=tmp_path / "ages.state", reproducible_seed=2)
    with cdp.Quantiles(0, 100, 0.5, **more) as ages:
        assert ages.push(np.arange(0, 100, 0.5)) == 1
        assert ages.push([1000, -1000]) == 2
        first = ages.quantile(0.5), ages.between(10, 19.5), ages.count("7.5")
        (median, low, high), (between, deviation), (one, _) = first
        assert low <= 49.75 <= high and abs(median - 49.75) < 3 and abs(between - 20) < 6 * deviation < 3
        assert abs(one - 1) < 1 and all(float(name) % 0.5 == 0 for name, _ in ages.top(400))
    with cdp.Quantiles(0, 100, 0.5, **more) as ages:
        assert ages.done == 2 and (ages.quantile(0.5), ages.between(10, 19.5), ages.count("7.5")) == first
        for bad, words in [([1.0, float("nan")], "a value = NaN"), (["old"], "dtype"), ([[1.0]], "shape"), (7.0, "shape")]:
            with pytest.raises(cdp.ContinualError, match=words):
                ages.push(bad)
        for bad in (-0.1, 1.1, float("nan")):
            with pytest.raises(cdp.InputError, match="part of all values"):
                ages.quantile(bad)
        with pytest.raises(cdp.InputError):
            ages.between(2, 1)
        assert ages.done == 2
    with pytest.raises(cdp.StateError):
        cdp.Quantiles(0, 100, 0.25, **more)
    with pytest.raises(cdp.InputError, match="resolution"):
        cdp.Quantiles(0, 100, 0, steps=5, relation="replace", mu=1.0)


EDGES = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 0)]


@pytest.mark.parametrize(
    "what, more, expected",
    [
        ("edges", {}, 5),
        ("forest", {}, 3),
        ("triangles", {}, 2),
        ("stars", {}, 8),
        ("high-degree", dict(threshold=3), 2),
        ("degrees", dict(degree_bound=3), [0, 0, 2, 2]),
        ("weights", dict(weights=(0, 1)), [1, 1, 1, 1, 0, 1]),
        ("cuts", dict(weights=(0, 1), cuts=[[0], ([0, 1], [3])]), [3, 1]),
    ],
)
def test_what_is_released_of_a_graph(what, more, expected):
    with cdp.Graph(what, 4, steps=3, relation="zero-out", mu=1e6, **more) as graph:
        graph.push(EDGES[:2])
        released = graph.push(EDGES[2:])
        assert np.allclose(released, expected, atol=0.01) and graph.done == 2
        names, answers = graph.names, graph.answers()
        assert [name for name, _, _ in answers] == names and np.array_equal([one for _, one, _ in answers], np.ravel(released))
        assert all(deviation > 0 for _, _, deviation in answers[1:-1])
        if what == "weights":
            assert graph.min_cut()[0] == pytest.approx(2, abs=0.1) and sorted(sum(graph.min_cut()[1:], [])) == [0, 1, 2, 3]
            assert graph.max_cut()[0] == pytest.approx(4, abs=0.1) and len(graph.sparsest_cut()) == 3
        else:
            with pytest.raises(cdp.InputError, match="weights"):
                graph.min_cut()


def test_graphs_are_those_of_the_command_line(dp, tmp_path):
    (tmp_path / "edges.csv").write_text("step,u,v,weight\n1,0,1,1\n1,1,2,1\n2,2,0,0.3\n")
    steps = [[(0, 1), (1, 2)], [(2, 0, 0.3)], []]
    for what, words, more in [
        ("triangles", ["--degree-bound", 4], dict(degree_bound=4)),
        ("cuts", ["--weights", "0:1", "--cut", "0:1,2"], dict(weights=(0, 1), cuts=[([0], [1, 2])])),
        ("forest", [], {}),
    ]:
        if what == "triangles":
            # Edges that are counted have weight 1.
            rows, given = (tmp_path / "edges.csv").read_text().replace("0.3", "1"), [steps[0], [(2, 0)], []]
        else:
            rows, given = (tmp_path / "edges.csv").read_text(), steps
        (tmp_path / "in.csv").write_text(rows)
        line = ["graph", what, "--input", tmp_path / "in.csv", "--vertices", 4, "--steps", 3, "--relation", "zero-out"]
        lines = csv.DictReader(io.StringIO(dp(*line, *words, "--rho", 0.5, "--reproducible-seed", 8).stdout))
        there = [(line["name"], float(line["release"]), float(line["standard_deviation"])) for line in lines]
        graph = cdp.Graph(what, 4, steps=3, relation="zero-out", rho=0.5, reproducible_seed=8, **more)
        here = []
        for edges in given:
            graph.push(edges)
            here += graph.answers()
        assert [(name.replace(",", " "), *rest) for name, *rest in here] == there


@pytest.mark.parametrize(
    "edges, error, words",
    [
        ([(0, 9)], ValueError, "not one of the 4 vertices"),
        ([(1, 1)], ValueError, "to itself"),
        ([(0, 1, 17.5)], ValueError, "a weight outside [-1, 1]"),
        ([(0, 1, float("nan"))], ValueError, "a weight outside"),
        ([(0,)], TypeError, "edges holds a tuple"),
        (["01"], TypeError, "edges holds a str"),
        (7, TypeError, ""),
    ],
)
def test_bad_edges_change_nothing_and_are_not_repeated(edges, error, words):
    make = lambda: cdp.Graph("weights", 4, steps=2, relation="replace", mu=1.0, reproducible_seed=5)
    graph, untouched = make(), make()
    with pytest.raises(error) as refused:
        graph.push([(0, 1), *edges] if isinstance(edges, list) else edges)
    assert words in str(refused.value) and "17" not in str(refused.value)
    assert graph.done == 0 and np.array_equal(graph.push([(2, 3)]), untouched.push([(2, 3)]))
    graph.push([])
    with pytest.raises(cdp.HorizonError):
        graph.push([])
    with pytest.raises(TypeError, match="one noise"):
        copy.copy(graph)


def test_graphs_refuse_what_makes_no_sense():
    for what, more, words in [
        ("paths", {}, "nothing that is released of a graph"),
        ("cuts", {}, "cuts are given"),
        ("edges", dict(cuts=[[0]]), "cuts are given"),
        ("cuts", dict(cuts=[[0, 0]]), "stands twice"),
        ("cuts", dict(cuts=["0"]), "cuts holds a str"),
        ("degrees", dict(workload="window:2"), "leave workload at count"),
        ("triangles", dict(degree_bound=1), "degree bound"),
    ]:
        with pytest.raises(cdp.ContinualError, match=words):
            cdp.Graph(what, 4, steps=3, relation="zero-out", mu=1.0, **more)


def test_unknown_items_appear_once_they_stand_out(tmp_path):
    # A secret is shown with probability threshold_delta at most; the noise is the same in every run.
    more = dict(steps=10, relation="zero-out", epsilon=8.0, delta=1e-6, threshold_delta=1e-6, reproducible_seed=6)
    more["state"] = tmp_path / "words.state"
    with cdp.Discovery(**more) as words:
        words.push(["rust"] * 300 + ["secret"])
        assert [name for name, _ in words.top()] == ["rust"] and 1 < words.threshold < 300
        first = words.top()
    with cdp.Discovery(**more) as words:
        assert words.done == 1 and words.top() == first
    del more["state"]
    thresholds = {}
    for every in (1, 10):
        with cdp.Discovery(every=every, **more) as words:
            thresholds[every] = []
            for _ in range(10):
                words.push(["rust"])
                thresholds[every].append(words.threshold)
    # Lower after the one step that is planned to be printed, higher after all others.
    assert thresholds[10][-1] < thresholds[1][-1]
    assert all(other > one for one, other in zip(thresholds[1][:-1], thresholds[10]))
    with pytest.raises(cdp.ContinualError):
        cdp.Discovery(every=0, **more)


def test_a_state_goes_on_with_the_same_noise(tmp_path, python):
    more = dict(steps=10, relation="zero-out", mu=1.0, state=tmp_path / "shop.state")
    with cdp.Histogram(["bread", "milk"], **more) as shop:
        shop.push(["bread"])
        before = shop.count("bread")
        with pytest.raises(cdp.StateError, match="another process"):
            cdp.Histogram(["bread", "milk"], **more)
    with cdp.Histogram(["bread", "milk"], **more) as shop:
        assert shop.done == 1 and shop.count("bread") == before
    with pytest.raises(cdp.StateError):
        cdp.Histogram(["bread", "salt"], **more)


@pytest.mark.parametrize("exact", [True, False])
def test_counts_are_those_of_the_command_line(dp, tmp_path, exact):
    (tmp_path / "universe.txt").write_text("bread\nmilk\nsalt\n")
    (tmp_path / "in.csv").write_text("item\nbread\nmilk\nbread\n")
    words = ["histogram", "--input", tmp_path / "in.csv", "--column", "item", "--universe", tmp_path / "universe.txt"]
    words += ["--relation", "zero-out", "--steps", 12, "--mu", 1, "--reproducible-seed", 3, "--show", "bread"]
    lines = list(csv.DictReader(io.StringIO(dp(*words, *([] if exact else ["--idealized"])).stdout)))
    shop = cdp.Histogram(["bread", "milk", "salt"], steps=12, relation="zero-out", mu=1.0, exact=exact, reproducible_seed=3)
    for item in ("bread", "milk", "bread"):
        shop.push([item])
    assert shop.count("bread") == (float(lines[-1]["release"]), float(lines[-1]["standard_deviation"]))


@pytest.mark.parametrize(
    "people, error, words",
    [
        (["butter"], ValueError, "not a known item"),
        ([["bread", "milk"]], ValueError, "more items than the 1"),
        ([3.5], TypeError, "people holds a float"),
        ([[None]], TypeError, "people holds a NoneType"),
        (7, TypeError, ""),
    ],
)
def test_bad_events_change_nothing_and_are_not_repeated(people, error, words):
    shop, untouched = (cdp.Histogram(["bread", "milk"], steps=3, relation="zero-out", mu=1.0, reproducible_seed=2) for _ in range(2))
    with pytest.raises(error) as refused:
        shop.push(people)
    assert words in str(refused.value) and "butter" not in str(refused.value)
    for counts in (shop, untouched):
        counts.push(["bread"])
    assert shop.done == 1 and shop.count("bread") == untouched.count("bread")
    with pytest.raises(TypeError, match="one noise"):
        copy.copy(shop)


def test_the_end_is_the_end():
    letters = cdp.Substrings("ab", 1, steps=2, relation="zero-out", mu=1.0)
    with pytest.raises(cdp.InputError, match="one letter"):
        letters.push("ab")
    letters.push("a"), letters.push("b")
    with pytest.raises(cdp.HorizonError):
        letters.push("a")
    with pytest.raises(cdp.InputError, match="either alphabet"):
        cdp.Episodes("ab", steps=2, relation="zero-out", mu=1.0)
