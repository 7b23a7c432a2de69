"""Counts of many things at once."""

import copy
import csv
import io

import pytest

import continual_dp as cdp

LOUD = dict(relation="zero-out", mu=200.0)


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
    reads = cdp.Substrings("ACGT", 2, steps=20, relation="replace", mu=500.0)
    for base in "GATTACA":
        reads.push(base)
    assert reads.push(None) == 8 and round(reads.count("A")[0]) == 3 and round(reads.count("AT")[0]) == 1
    words = cdp.Substrings(words=["TA", "AC"], steps=20, relation="replace", mu=500.0)
    for base in "GATTACA":
        words.push(base)
    assert round(words.count("TA")[0]) == 1
    alarms = cdp.Episodes("ab", 2, steps=20, relation="zero-out", mu=500.0)
    for letter in "abab":
        alarms.push(letter)
    assert round(alarms.count("ab")[0]) == 2


def test_unknown_items_appear_once_they_stand_out(tmp_path):
    more = dict(steps=10, relation="zero-out", epsilon=8.0, delta=1e-6, threshold_delta=1e-6, state=tmp_path / "words.state")
    with cdp.Discovery(**more) as words:
        words.push(["rust"] * 300 + ["secret"])
        assert [name for name, _ in words.top()] == ["rust"] and 1 < words.threshold < 300
        first = words.top()
    with cdp.Discovery(**more) as words:
        assert words.done == 1 and words.top() == first


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
