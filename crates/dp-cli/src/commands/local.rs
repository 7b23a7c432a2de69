//! `dp local`: quantiles of values that every client privatizes for itself.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use dp_apps::local::{Protocol, Server, intervals};
use dp_mechanisms::budget::Kind;
use dp_mechanisms::{Budget, Participation, Seed, Workload};
use serde::Serialize;

use crate::arguments::{self, NoiseArguments, Usage};
use crate::files::Files;
use crate::guarantee::{self, Guarantee, Unit};
use crate::output::{self, Table};
use crate::plot::{self, Curve, Panel};
use crate::records::{self, Records, RowArguments};

/// Estimate quantiles in the local model
///
/// Plays all parts: each row of the column is a client, who privatizes the value on its own with the whole budget and
/// sends one message; the server sees the messages only.
#[derive(Args)]
pub(crate) struct Local {
    /// The CSV file with a header line and one row per client, or - for standard input
    #[arg(long, value_name = "FILE|-")]
    input: PathBuf,
    /// The column to read
    #[arg(long, value_name = "NAME")]
    column: String,
    /// What a value may be, chosen without looking at the data; values outside are moved to the nearest bound
    #[arg(long, value_name = "LO:HI", value_parser = arguments::bounds, allow_hyphen_values = true)]
    bounds: (f64, f64),
    /// The quantiles to estimate
    #[arg(long, value_name = "Q,…", value_delimiter = ',', default_value = "0.5")]
    quantiles: Vec<f64>,
    /// The number of intervals [default: ε times the root of the number of clients]
    #[arg(long, value_parser = arguments::steps)]
    intervals: Option<usize>,
    /// What clients send: `answers`, one sign each that is ε-differentially private without a δ; a strategy that `dp plan` lists, for vectors
    /// with its noise; or `auto`, which is `answers` or `sqrt`, whichever has the smaller mean squared deviation
    #[arg(long, default_value = "auto")]
    strategy: String,
    /// Draw the estimated distribution with its 95 % band
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Compute messages in floating point instead of exact integers: the low bits of a message can give its client away
    #[arg(long)]
    idealized: bool,
    #[command(flatten)]
    rows: RowArguments,
    #[command(flatten)]
    noise: NoiseArguments,
}

#[derive(Serialize)]
struct Report {
    clients: usize,
    intervals: usize,
    quantiles: Vec<Quantile>,
    /// With probability 95 %, by how much the average distance to the estimated median exceeds the smallest possible.
    median_excess_risk: f64,
}

#[derive(Serialize)]
struct Quantile {
    level: f64,
    value: f64,
}

impl Local {
    pub(crate) fn run(&self) -> Result<()> {
        let (low, high) = self.bounds;
        if !(low < high && (high - low).is_finite()) {
            return Err(Usage::error("the bounds must be two finite numbers LO:HI with LO below HI"));
        }
        let budget = self.noise.budget.exact()?;
        let seed = self.noise.reproducible_seed();
        let mut files = Files::default();
        files.reads("--input", &self.input);
        if let Some(plot) = &self.plot {
            files.writes("--plot", plot);
            plot::check(plot, false)?;
        }
        files.check()?;
        let values = self.values(Records::open(&self.input, &[&self.column], &[])?)?;
        let number = match self.intervals {
            Some(number) => number,
            None => intervals(unit(&budget), values.len()).map_err(Usage::error)?,
        };
        let protocol = self.protocol(number, budget)?;
        self.guarantee(&protocol);
        let mut server = Server::new(&protocol);
        for (index, value) in values.iter().enumerate() {
            let seed = match seed {
                Some(seed) => Seed::reproducible(seed.wrapping_mul(1 << 32).wrapping_add(index as u64)),
                None => Seed::from_system()?,
            };
            // A blank client lies to the right of everything: all its numbers are noise.
            let message = match value {
                Some(value) => protocol.message((value.clamp(low, high) - low) / (high - low), seed)?,
                None => protocol.message_of_loss(|_| -1.0, seed)?,
            };
            server.receive(&message)?;
        }
        let scale = |position: f64| low + position * (high - low);
        let mut quantiles = Vec::new();
        for level in &self.quantiles {
            let value = scale(server.quantile(*level).map_err(Usage::error)?);
            quantiles.push(Quantile { level: *level, value });
        }
        let median_excess_risk = server.excess_risk(0.05)? * (high - low);
        let report = Report { clients: server.clients(), intervals: number, quantiles, median_excess_risk };
        if let Some(path) = &self.plot {
            let distribution = server.distribution()?;
            let place = |interval| scale(protocol.midpoint(interval));
            let curve = Curve::noisy(
                "distribution, with the band that holds 95 % of the noise".to_owned(),
                plot::BLUE,
                distribution.iter().enumerate().map(|(i, (value, deviation))| (place(i), *value, *deviation)),
            );
            let panel = Panel {
                title: format!("distribution of {}", self.column),
                horizontal: self.column.clone(),
                vertical: "share of clients below".to_owned(),
                headroom: 0.15,
                curves: vec![curve],
            };
            plot::draw(path, "From privatized messages", &[panel])?;
        }
        if self.json {
            return output::json(&report);
        }
        let mut table = Table::new(&["quantile", "estimate"]);
        for quantile in &report.quantiles {
            table.row(vec![quantile.level.to_string(), format!("{:.6}", quantile.value)]);
        }
        table.row(vec!["excess risk of the median, 95 %".to_owned(), format!("{median_excess_risk:.6}")]);
        table.print()
    }

    fn protocol(&self, intervals: usize, budget: Budget) -> Result<Protocol> {
        let strategy =
            |name: &str| arguments::strategy(name, &Workload::count(), intervals, Participation::Single);
        let pure = matches!(budget.kind(), Kind::Pure { .. });
        let protocol = match (self.strategy.as_str(), self.idealized) {
            ("answers", false) => Protocol::answers(intervals, budget),
            ("answers", true) => {
                return Err(Usage::error("answers are drawn in integers: --idealized is for vectors only"));
            }
            ("auto", false) => Protocol::best(&strategy("sqrt")?, budget),
            _ if pure => {
                return Err(Usage::error(
                    "--epsilon needs --delta for vectors: with pure ε clients send answers (--strategy answers)",
                ));
            }
            ("auto", true) => Protocol::idealized(&strategy("sqrt")?, budget),
            (name, false) => Protocol::new(&strategy(name)?, budget),
            (name, true) => Protocol::idealized(&strategy(name)?, budget),
        };
        protocol.map_err(Usage::error)
    }

    fn guarantee(&self, protocol: &Protocol) {
        let budget = self.noise.budget.words();
        if let Some(plan) = protocol.plan() {
            let participation = Participation::Single;
            return Guarantee { unit: Unit::Client, participation, budget, plan }.print();
        }
        if let Some(response) = protocol.response() {
            guarantee::print_answers(&budget, protocol.intervals(), response);
        }
    }

    /// The value of each client, moved into the bounds; none for a row that counts as blank.
    fn values(&self, mut records: Records) -> Result<Vec<Option<f64>>> {
        let mut values = Vec::new();
        while let Some(row) = records.next_row()? {
            let value = row.fields.and_then(|fields| {
                records::number(&self.column, fields.first().map_or("", String::as_str)).map(Some)
            });
            values.push(self.rows.settle(&row.place, value, || None)?);
        }
        if values.is_empty() {
            bail!("{} has no rows; it needs one per client", records.name());
        }
        Ok(values)
    }
}

/// The ε of a budget, or the like of it in another form.
fn unit(budget: &Budget) -> f64 {
    match budget.kind() {
        Kind::Approximate { epsilon, .. } | Kind::Pure { epsilon } => epsilon,
        _ => budget.mu(),
    }
}
