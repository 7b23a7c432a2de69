//! Strategies for the running count: how long they take to find, and how good they are.
//!
//! Whoever found a strategy, its error is computed here from its own coefficients, exactly.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dp_benches::shortest;
use dp_linalg::{dense, norms};
use dp_mechanisms::strategy::optimal::{Objective, Optimal, Stopping};
use dp_mechanisms::strategy::toeplitz::{Core, ToeplitzStrategy};
use dp_mechanisms::strategy::{RowNorms, Strategy, banded, blt, scaled_blt, unwatched};
use dp_mechanisms::{Metric, Participation, Problem, Workload, bounds, certificate, sensitivity};
use ndarray::Array2;

use crate::cores;
use crate::python::{Peers, Question, Reply, missing};
use crate::rows::{OURS, Row, Section, duration, number, three_digits};

/// The relative gap at which the dense program counts as solved.
const GAP: f64 = 1e-6;

/// How many times as long as ours the dense optimizer of jax-privacy is expected to take, at least.
const WANTED: f64 = 20.0;

/// What is asked of the other side.
struct Scale {
    steps: &'static [usize],
    /// How long the other dense optimizer may go on, for each number of steps.
    dense_seconds: &'static [u64],
    /// The longest horizon at which the other side optimizes every column of a band.
    columns_limit: usize,
}

pub(crate) fn compare(peers: &Peers, quick: bool) -> Result<Section> {
    let scale = if quick {
        Scale { steps: &[256], dense_seconds: &[40], columns_limit: 0 }
    } else {
        Scale { steps: &[1024, 4096], dense_seconds: &[300, 100], columns_limit: 1024 }
    };
    let mut section = Section {
        title: "Finding a strategy for the running count".to_owned(),
        conditions: format!(
            "One person contributes once. The time is that of the optimization; compilation is in the first run only, \
             unless the conditions say otherwise. E2 = Δ²‖B‖_F²/n (and E∞ = Δ² max‖b_t‖² where named) is computed by \
             this library for every strategy, beside its distance from the proven lower bound. This library: f64, {} threads.",
            cores()
        ),
        quality: "E2 or E∞ (above the bound)".to_owned(),
        rows: Vec::new(),
        findings: Vec::new(),
        measured: None,
        sources: Vec::new(),
    };
    for (&steps, &seconds) in scale.steps.iter().zip(scale.dense_seconds) {
        let bound = certificate::banded_bound(&Workload::count(), steps)?
            .context("the count has a bound")?
            .lower_bound;
        let work = Work { peers, steps, bound };
        section.rows.extend(work.dense(seconds)?);
        section.rows.extend(work.blt(Metric::Mse)?);
        section.rows.extend(work.blt(Metric::Max)?);
        section.rows.extend(work.banded(steps <= scale.columns_limit)?);
        let judged = finding(&section, &work.name("any matrix"));
        section.findings.extend(judged);
    }
    Ok(section)
}

/// The comparison of dense optimizers in a sentence: the other's best result, and what it took.
fn finding(section: &Section, work: &str) -> Option<String> {
    let ours = section.rows.iter().find(|row| row.work == work && row.who == OURS)?;
    let row =
        section.rows.iter().rfind(|row| row.work == work && row.who != OURS && row.seconds.is_some())?;
    Some(format!(
        "{work}: {} to a proven gap of {}, against {} to within {} of the bound by {}: {} times as long (wanted: at \
         least {WANTED}).",
        duration(ours.seconds?),
        number(ours.above_bound?),
        duration(row.seconds?),
        number(row.above_bound?),
        row.who,
        three_digits(section.times_ours(row)?),
    ))
}

struct Work<'a> {
    peers: &'a Peers,
    steps: usize,
    /// No strategy has a smaller E2.
    bound: f64,
}

impl Work<'_> {
    fn name(&self, class: &str) -> String {
        format!("{class}, n = {}", self.steps)
    }

    /// A row of our own for a strategy that takes so long to build; the shortest of a few runs.
    fn ours<S: Strategy>(
        &self,
        (work, variant): (&str, &str),
        metric: Metric,
        build: impl Fn() -> dp_mechanisms::Result<S>,
        note: impl Fn(&S) -> String,
    ) -> Result<Row> {
        self.peers.doing(format!("{work}: {variant}"));
        let mut built = None;
        let seconds = shortest(if self.steps > 1024 { 1 } else { 3 }, || built = Some(build()));
        let strategy = built.context("nothing was built")??;
        let (error, bound) = self.error(&strategy, metric)?;
        Ok(Row {
            work: work.to_owned(),
            who: OURS.to_owned(),
            variant: variant.to_owned(),
            seconds: Some(seconds.as_secs_f64()),
            first_seconds: None,
            quality: Some(error),
            above_bound: Some(error / bound - 1.0),
            note: note(&strategy),
        })
    }

    /// The error of a strategy, and the lower bound on it.
    fn error(&self, strategy: &dyn Strategy, metric: Metric) -> Result<(f64, f64)> {
        let sensitivity = strategy.sensitivity(Participation::Single)?.squared;
        Ok(self.against_bound(sensitivity, &strategy.row_norms()?, metric))
    }

    fn against_bound(&self, sensitivity: f64, rows: &RowNorms, metric: Metric) -> (f64, f64) {
        match metric {
            Metric::Mse => (sensitivity * rows.mean(), self.bound),
            Metric::Max => (sensitivity * rows.max(), bounds::mathias_count(self.steps).max(self.bound)),
        }
    }

    /// The rows of the other side, its strategies evaluated.
    fn theirs(&self, work: &str, metric: Metric, arguments: &[String], limit: u64) -> Vec<Row> {
        let question = Question {
            package: "jax-privacy",
            script: "jax_factorization",
            arguments,
            limit: Duration::from_secs(limit),
        };
        let (replies, failure) = self.peers.ask(&question);
        let judge = |reply: &Reply| match self.evaluate(reply, metric) {
            Ok((error, bound)) => {
                Row { quality: Some(error), above_bound: Some(error / bound - 1.0), ..reply.row(work) }
            }
            Err(why) => missing(work, &reply.who, format!("its strategy cannot be evaluated: {why:#}")),
        };
        let mut rows: Vec<Row> = replies.iter().map(judge).collect();
        rows.extend(failure.map(|why| missing(work, question.package, why)));
        rows
    }

    fn evaluate(&self, reply: &Reply, metric: Metric) -> Result<(f64, f64)> {
        if let Some(path) = &reply.matrix {
            let strategy = read_matrix(path, self.steps)?;
            std::fs::remove_file(path).with_context(|| format!("cannot remove `{}`", path.display()))?;
            let squared = sensitivity::dense(strategy.view(), Participation::Single)?.squared;
            let rows = count_row_norms(&strategy)?;
            return Ok(self.against_bound(squared, &rows, metric));
        }
        let coefficients = reply.toeplitz.clone().context("no strategy in the answer")?;
        ensure!(coefficients.len() == self.steps, "{} coefficients for {}", coefficients.len(), self.steps);
        let (core, count) = (Core::full(coefficients)?, Workload::count());
        let strategy = if reply.normalized {
            ToeplitzStrategy::normalized("peer", &count, self.steps, core, vec![1.0; self.steps])?
        } else {
            ToeplitzStrategy::plain("peer", &count, self.steps, core)?
        };
        self.error(&strategy, metric)
    }

    /// The running count over the steps.
    fn problem(&self) -> dp_mechanisms::Result<Problem> {
        Problem::new(Workload::count(), self.steps)
    }

    fn dense(&self, seconds: u64) -> Result<Vec<Row>> {
        let work = self.name("any matrix");
        let build = || {
            let options = Stopping { tolerance: GAP, ..Stopping::default() };
            Optimal::for_objective(&self.problem()?, &Objective::Mean, options, &mut unwatched)
        };
        let note = |optimal: &Optimal| {
            let certificate = optimal.certificate();
            let (gap, count) = (number(certificate.gap()), certificate.eigendecompositions);
            format!("proven gap {gap}, {count} eigendecompositions, everything counted")
        };
        let mut rows = vec![self.ours((&work, "optimal"), Metric::Mse, build, note)?];
        let folder = self.peers.folder().to_string_lossy().into_owned();
        let arguments = [
            "dense".to_owned(),
            self.steps.to_string(),
            seconds.to_string(),
            self.bound.to_string(),
            GAP.to_string(),
            folder,
        ];
        // A step that has begun is finished, and the first one is compiled.
        rows.extend(self.theirs(&work, Metric::Mse, &arguments, 2 * seconds + 240));
        self.peers.measured(&rows);
        Ok(rows)
    }

    fn blt(&self, metric: Metric) -> Result<Vec<Row>> {
        let buffers = blt::default_buffers(self.steps);
        let (error, option) = match metric {
            Metric::Mse => ("E2", "mean"),
            Metric::Max => ("E∞", "max"),
        };
        let work = self.name(&format!("{buffers} buffers, {error}"));
        let problem = self.problem()?.with_metric(metric);
        let fit = || blt::fit(&problem, buffers, &mut unwatched);
        let build = || ToeplitzStrategy::plain("blt", problem.workload(), self.steps, Core::Rational(fit()?));
        let scaled = || scaled_blt::with_buffers(&problem, buffers, &mut unwatched);
        let mut rows = vec![
            self.ours((&work, "blt"), metric, build, |_| "fitted".to_owned())?,
            self.ours((&work, "scaled-blt"), metric, scaled, |_| {
                "core fitted, scaling of rows from a table".to_owned()
            })?,
        ];
        let arguments = ["blt", &self.steps.to_string(), &buffers.to_string(), option].map(str::to_owned);
        rows.extend(self.theirs(&work, metric, &arguments, 400));
        self.peers.measured(&rows);
        Ok(rows)
    }

    fn banded(&self, every_column: bool) -> Result<Vec<Row>> {
        let problem = self.problem()?;
        let bands = banded::default_bands(&problem);
        let work = self.name(&format!("{bands} bands"));
        let (steps, bands) = (self.steps.to_string(), bands.to_string());
        let build = || banded::banded(&problem, &mut unwatched);
        let mut rows = vec![self.ours((&work, "Toeplitz"), Metric::Mse, build, |_| "fitted".to_owned())?];
        let normalized = || {
            let core = build()?.core().into_owned();
            ToeplitzStrategy::normalized(
                "banded",
                &Workload::count(),
                self.steps,
                core,
                vec![1.0; self.steps],
            )
        };
        rows.push(self.ours((&work, "Toeplitz, columns normalized"), Metric::Mse, normalized, |_| {
            "the same fit".to_owned()
        })?);
        let arguments = ["banded", &steps, &bands].map(str::to_owned);
        rows.extend(self.theirs(&work, Metric::Mse, &arguments, 400));
        if every_column {
            let folder = self.peers.folder().to_string_lossy();
            let arguments = ["banded-columns", &steps, &bands, &folder].map(str::to_owned);
            rows.extend(self.theirs(&work, Metric::Mse, &arguments, 200));
        }
        self.peers.measured(&rows);
        Ok(rows)
    }
}

/// A square matrix of little-endian f64, by rows.
fn read_matrix(path: &Path, steps: usize) -> Result<Array2<f64>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let (values, rest) = bytes.as_chunks();
    ensure!(
        values.len() == steps * steps && rest.is_empty(),
        "`{}` has {} bytes, not those of {steps} × {steps} numbers",
        path.display(),
        bytes.len()
    );
    let values = values.iter().map(|value| f64::from_le_bytes(*value)).collect();
    Ok(Array2::from_shape_vec((steps, steps), values)?)
}

/// `‖b_t‖²` of `B = A C⁻¹` for the count: the rows of B are running sums of the rows of the inverse.
fn count_row_norms(strategy: &Array2<f64>) -> Result<RowNorms> {
    let mut decoder = dense::inverse_lower(strategy.view())?;
    for row in 1..decoder.nrows() {
        let (before, mut now) = decoder.multi_slice_mut((ndarray::s![row - 1, ..], ndarray::s![row, ..]));
        now += &before;
    }
    Ok(RowNorms::exact(norms::row_squared_norms(decoder.view()).to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dp_mechanisms::Method;
    use indicatif::ProgressBar;

    fn check(evaluate: impl Fn(&Work<'_>, &Path) -> (f64, f64)) {
        let folder = tempfile::tempdir().unwrap();
        let peers =
            Peers::install("no-such-python", folder.path(), folder.path(), ProgressBar::hidden()).unwrap();
        let (error, expected) = evaluate(&Work { peers: &peers, steps: 20, bound: 1.0 }, folder.path());
        assert!((error / expected - 1.0).abs() < 1e-12, "{error} {expected}");
    }

    #[test]
    fn a_matrix_from_a_file_has_the_error_of_its_strategy() {
        check(|work, folder| {
            let strategy = scaled_blt::scaled_blt(&work.problem().unwrap(), &mut unwatched).unwrap();
            let matrix = strategy.materialize().unwrap().strategy;
            let path = folder.join("matrix.f64");
            let bytes: Vec<u8> = matrix.iter().flat_map(|value| value.to_le_bytes()).collect();
            std::fs::write(&path, bytes).unwrap();
            let reply = Reply { matrix: Some(path.clone()), ..Reply::default() };
            let (error, _) = work.evaluate(&reply, Metric::Mse).unwrap();
            assert!(!path.exists(), "matrices are large, and not kept");
            (error, work.error(&strategy, Metric::Mse).unwrap().0)
        });
    }

    #[test]
    fn coefficients_have_the_error_of_their_strategy() {
        for normalized in [false, true] {
            check(|work, _| {
                let method = if normalized { Method::NormalizedSqrt } else { Method::Sqrt };
                let strategy = method.build(&work.problem().unwrap()).unwrap();
                let toeplitz = Some(dp_linalg::series::binomial(0.5, work.steps));
                let reply = Reply { toeplitz, normalized, ..Reply::default() };
                let (error, _) = work.evaluate(&reply, Metric::Mse).unwrap();
                (error, work.error(strategy.as_ref(), Metric::Mse).unwrap().0)
            });
        }
    }

    #[test]
    fn a_file_of_another_size_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("short.f64");
        std::fs::write(&path, [0; 31]).unwrap();
        assert!(read_matrix(&path, 2).unwrap_err().to_string().contains("31 bytes"));
    }
}
