"""Dashboards from files and from data frames."""

import datetime
import json
import pathlib

import pytest

import continual_dp as cdp

DESCRIPTION = """
[privacy]
rho = 2e6
protects = "person"
relation = "zero-out"

[input]
files = ["visits.csv"]
time = "day"
person = "who"

[limits]
rows_per_step = 2
steps = 3
separation = 1

[steps]
length = "1 day"
first = "2026-01-01"
last = "2026-01-10"
late = "drop"

[[release]]
name = "visits"
statistics = ["total", "step"]
by = { column = "region", values = ["North", "South"] }

[[release]]
name = "cost"
value = { column = "cost", bounds = [0, 10] }
statistics = ["total"]

[output]
folder = "public"
"""

DAYS = [datetime.date(2026, 1, 1), datetime.date(2026, 1, 1), datetime.date(2026, 1, 2), datetime.date(2026, 1, 3)]
ROWS = {
    "day": DAYS,
    "who": ["ada", "somebody with a long name", "ada", None],
    "region": ["North", "South", "South", "North"],
    "cost": [3.0, 10.0, 2.0, None],
    "unused": [[1], [2], [3], [4]],
}


@pytest.fixture
def place(tmp_path):
    def make(name="here"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "dashboard.toml").write_text(DESCRIPTION)
        return folder

    return make


def lines(folder):
    return {path.name: path.read_text() for path in (folder / "public").iterdir() if path.suffix in (".csv", ".jsonl")}


def text(rows):
    head = [name for name in rows if name != "unused"]
    cell = lambda value: "" if value is None else str(int(value) if isinstance(value, float) else value)
    return "\n".join([",".join(head)] + [",".join(cell(rows[name][row]) for name in head) for row in range(len(rows["day"]))]) + "\n"


def frames():
    """The same rows as every library has them."""
    pyarrow = pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    table = pyarrow.table(ROWS)
    yield "pyarrow", table
    yield "pyarrow in batches", pyarrow.Table.from_batches([*table.slice(0, 1).to_batches(), *table.slice(1).to_batches()])
    yield "pyarrow dictionaries", table.set_column(1, "who", table["who"].dictionary_encode())
    yield "pyarrow instants", table.set_column(0, "day", pyarrow.array([datetime.datetime(d.year, d.month, d.day, 5) for d in DAYS], pyarrow.timestamp("us", "UTC")))
    yield "polars", polars.DataFrame(ROWS)
    yield "polars categories", polars.DataFrame(ROWS).with_columns(polars.col("region").cast(polars.Categorical))
    yield "pandas", pandas.DataFrame(ROWS)
    days = pandas.DataFrame(ROWS).assign(day=pandas.to_datetime(ROWS["day"]), region=pandas.Categorical(ROWS["region"]))
    yield "pandas with dates", days


def test_frames_are_read_as_the_file_would_be(place):
    files = place("files")
    (files / "visits.csv").write_text(text(ROWS))
    outcome = cdp.run(files / "dashboard.toml", until="2026-01-04", reproducible_seed=1)
    assert (outcome.before, outcome.published, outcome.steps) == (0, 3, 10)
    expected = lines(files)
    assert expected and "North" in expected["visits.csv"]
    seen = 0
    for number, (name, frame) in enumerate(frames()):
        folder = place(f"frame{number}")
        cdp.run(folder / "dashboard.toml", frame=frame, until="2026-01-04", reproducible_seed=1)
        assert lines(folder) == expected, name
        seen += 1
    assert seen == 8


def test_a_dashboard_goes_on_with_new_rows(place):
    pyarrow = pytest.importorskip("pyarrow")
    table, whole, parts = pyarrow.table(ROWS), place("whole"), place("parts")
    cdp.run(whole / "dashboard.toml", frame=table, until="2026-01-05", reproducible_seed=1)
    path = parts / "dashboard.toml"
    assert cdp.run(path, frame=table.slice(0, 2), until="2026-01-02", reproducible_seed=1).published == 1
    # All rows so far, and new ones behind them.
    assert cdp.run(path, frame=table, until="2026-01-05", reproducible_seed=1).before == 1
    assert lines(parts) == lines(whole)
    # A past that changed is refused, and says so without its contents.
    changed = pyarrow.table({**ROWS, "who": ["eve", *ROWS["who"][1:]]})
    with pytest.raises(cdp.StateError) as refused:
        cdp.run(path, frame=pyarrow.concat_tables([table.slice(0, 1), changed.slice(0, 1), table.slice(2)]), until="2026-01-06", reproducible_seed=1)
    assert "not as an earlier run read them" in str(refused.value) and "eve" not in str(refused.value)
    with pytest.raises(cdp.StateError):
        cdp.run(path, frame=table, until="2026-01-06")


def test_mistakes_are_named(place, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    folder = place()
    path = folder / "dashboard.toml"
    for frame, error, words in [
        ({"day": []}, TypeError, "frame is a dict"),
        (pyarrow.table({"day": DAYS}), ValueError, "no column `who`; the columns are `day`"),
        (pyarrow.table({**ROWS, "who": [[1], [2], [3], [4]]}), TypeError, "column `who` of frame has Arrow type `+l`"),
    ]:
        with pytest.raises(error) as refused:
            cdp.run(path, frame=frame, until="2026-01-03")
        assert isinstance(refused.value, cdp.ContinualError) and words in str(refused.value)
        assert not (folder / "public").exists()
    with pytest.raises(ValueError, match="until"):
        cdp.run(path, until="soon")
    with pytest.raises(OSError) as refused:
        cdp.run(path, until="2026-01-03")
    assert isinstance(refused.value, cdp.FileError) and "visits.csv" in str(refused.value)
    (tmp_path / "bad.toml").write_text("[privacy]\nepsilon = -1\n")
    with pytest.raises(cdp.DescriptionError, match="bad.toml:"):
        cdp.run(tmp_path / "bad.toml")
