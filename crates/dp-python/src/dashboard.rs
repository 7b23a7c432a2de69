//! Dashboards from files of events, or from data frames.

use std::path::PathBuf;

use dp_events::calendar::Calendar;
use dp_events::rows::{Row, Table};
use dp_events::{Dashboard, Randomness, Spec};
use pyo3::prelude::*;

use crate::arguments::{self, whole_or_none};
use crate::arrow::Frame;
use crate::errors::Refusal;
use crate::live::detached;

impl Table for Frame {
    fn read(
        &self,
        columns: &[String],
        each: &mut dyn FnMut(&Row<'_>) -> dp_events::Result<()>,
    ) -> dp_events::Result<()> {
        Frame::read(self, columns, &mut |line, fields| each(&Row::new(line, fields)))
    }
}

/// What a run of a dashboard did, as far as the clock alone decides it. Made by :func:`run`.
#[pyclass(frozen, get_all, module = "continual_dp")]
pub(crate) struct Outcome {
    /// The number of steps published before the run.
    before: usize,
    /// The number of steps published now.
    published: usize,
    /// The number of all steps.
    steps: usize,
    /// The folder with the tables, the guarantee and the page.
    folder: PathBuf,
}

#[pymethods]
impl Outcome {
    fn __repr__(&self) -> String {
        format!(
            "Outcome(published {} of {} steps, {} of them now)",
            self.published,
            self.steps,
            self.published - self.before
        )
    }
}

/// Publishes every step of a dashboard that is over: reads what is new, writes tables, a guarantee in words and a page.
///
/// ``file`` describes the dashboard. Rows come from the files that it names, or from ``frame``: a table of pandas, polars or
/// pyarrow, read through the Arrow interface where it is, without copying. A frame holds all rows so far with the new ones
/// behind them, or new rows only. Steps that ended by ``until`` (a date or time; by default now) are published; a second run
/// with nothing new changes nothing.
///
/// >>> import continual_dp as cdp, pathlib, tempfile
/// >>> place = pathlib.Path(tempfile.mkdtemp())
/// >>> lines = (place / "visits.csv").write_text("day,who\n2026-01-01,ada\n2026-01-01,bob\n2026-01-02,ada\n")
/// >>> text = (place / "dashboard.toml").write_text("""
/// ... [privacy]
/// ... epsilon = 1.0
/// ... delta = 1e-6
/// ... protects = "person"
/// ... relation = "zero-out"
/// ... [input]
/// ... files = ["visits.csv"]
/// ... time = "day"
/// ... person = "who"
/// ... [limits]
/// ... rows_per_step = 1
/// ... steps = 2
/// ... separation = 1
/// ... [steps]
/// ... length = "1 day"
/// ... first = "2026-01-01"
/// ... last = "2026-01-10"
/// ... late = "drop"
/// ... [[release]]
/// ... name = "visits"
/// ... statistics = ["total", "step"]
/// ... [output]
/// ... folder = "public"
/// ... """)
/// >>> cdp.run(place / "dashboard.toml", until="2026-01-03")
/// Outcome(published 2 of 10 steps, 2 of them now)
/// >>> (place / "public" / "index.html").exists()
/// True
#[pyfunction]
#[pyo3(signature = (file, *, frame=None, until=None, reproducible_seed=None))]
pub(crate) fn run(
    py: Python<'_>,
    file: PathBuf,
    frame: Option<&Bound<'_, PyAny>>,
    until: Option<&str>,
    #[pyo3(from_py_with = whole_or_none)] reproducible_seed: Option<u64>,
) -> PyResult<Outcome> {
    let dashboard = detached(py, || Dashboard::new(Spec::load(&file)?))?;
    let until = match until {
        Some(text) => {
            let read = dashboard.spec().calendar.read_instant(text);
            read.map_err(|error| Refusal::input(format!("until: {error}")))?
        }
        None => Calendar::now(),
    };
    let randomness = match reproducible_seed {
        Some(number) => {
            arguments::warn_not_private(py)?;
            Randomness::Reproducible(number)
        }
        None => Randomness::System,
    };
    let frame = frame.map(Frame::take).transpose()?;
    if let Some(frame) = &frame {
        frame.check(&dashboard.spec().columns())?;
    }
    let outcome = detached(py, || match &frame {
        Some(frame) => dashboard.run_on(until, randomness, frame),
        None => dashboard.run(until, randomness),
    })?;
    Ok(Outcome {
        before: outcome.before,
        published: outcome.published,
        steps: outcome.steps,
        folder: dashboard.spec().output.clone(),
    })
}
