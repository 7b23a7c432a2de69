# %% [markdown]
# # A dashboard from a data frame
#
# Every day a clinic publishes how many patients were seen, by region. The rows are in a data frame; the description of what is
# published, and of what one patient can change, is a file. The frame is read where it is, through the Arrow interface.

# %%
import pathlib
import tempfile

import pyarrow

import continual_dp as cdp

place = pathlib.Path(tempfile.mkdtemp())
(place / "dashboard.toml").write_text("""
[privacy]
epsilon = 1.0
delta = 1e-6
protects = "person"
relation = "zero-out"

[input]
files = ["cases.csv"]
time = "date"
person = "patient"

[limits]
rows_per_step = 1
steps = 3
separation = 1

[steps]
length = "1 day"
first = "2026-01-01"
last = "2026-01-31"
late = "drop"

[[release]]
name = "cases"
statistics = ["total", "step"]
by = { column = "region", values = ["North", "South"] }

[output]
folder = "public"
""")

# %%
days = [f"2026-01-{day:02}" for day in range(1, 15) for _ in range(200)]
people = [f"patient {number % 1500}" for number in range(len(days))]
regions = ["North" if number % 3 else "South" for number in range(len(days))]
frame = pyarrow.table({"date": days, "patient": people, "region": regions})

# %% [markdown]
# Steps that are over are published: tables, a guarantee in words, and a page that opens from disk. A second run with nothing new
# changes nothing.

# %%
print(cdp.run(place / "dashboard.toml", frame=frame, until="2026-01-15", reproducible_seed=1))
print(cdp.run(place / "dashboard.toml", frame=frame, until="2026-01-15", reproducible_seed=1))
print("".join((place / "public" / "cases.csv").read_text().splitlines(keepends=True)[:5]))
