//! `dp graph`: cuts, edge weights or a function of a graph, released after every step.

mod demo;
mod updates;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use dp_apps::Estimate;
use dp_apps::graph::{Cut, CutEncoding, GraphEncoding, GraphFunction};
use dp_mechanisms::session::Save;
use dp_mechanisms::{Mechanism, Participation, Plan, Relation, Snapshot, Workload};

use self::updates::Batches;
use crate::arguments::{self, NoiseArguments, OutputArguments, Usage};
use crate::engine::{self, Engine, Live};
use crate::files::Files;
use crate::guarantee::{Guarantee, Unit};
use crate::plot::{self, Curve, Panel};
use crate::records::{BadRows, Fault, Row, RowArguments};
use crate::sink::{Format, Line};

/// Release cuts, weights or a function of a graph from a CSV of edge updates
///
/// Reads rows `step,u,v,weight`, ordered by step, vertices counted from 0, and writes
/// `step,name,release,standard_deviation` for every step up to --until, whether it has rows or not. All lines together
/// satisfy the budget.
///
/// For weights and cuts one update is protected, with a weight in --weights. For functions of the graph (edges, forest,
/// triangles, stars, high-degree, degrees) the graph only grows, and one edge is protected with all its insertions.
///
/// With --state and --output FILE the run can be interrupted and continued: give the same rows again, followed by those of
/// new steps.
#[derive(Args)]
pub(crate) struct Graph {
    /// What to release
    #[arg(value_enum, required_unless_present = "demo")]
    release: Option<What>,
    /// The CSV file with the columns step, u, v, weight, or - for standard input
    #[arg(long, value_name = "FILE|-", required_unless_present = "demo")]
    input: Option<PathBuf>,
    /// The number of vertices
    #[arg(long, required_unless_present = "demo")]
    vertices: Option<usize>,
    /// The number of steps that the guarantee is planned for
    #[arg(long, value_parser = arguments::steps, required_unless_present = "demo")]
    steps: Option<usize>,
    /// The last step to release now, which must not depend on the data; rows of later steps wait for a later run with --state
    /// [default: all planned steps]
    #[arg(long, value_name = "STEP", value_parser = arguments::steps)]
    until: Option<usize>,
    /// What is protected: that an update (an edge) is there at all (zero-out), or which one it is (replace)
    #[arg(long, value_name = "zero-out|replace", required_unless_present = "demo")]
    relation: Option<Relation>,
    /// What the weight of an update may be, for weights and cuts
    #[arg(long, value_name = "LO:HI", default_value = "-1:1", value_parser = arguments::bounds, allow_hyphen_values = true)]
    weights: (f64, f64),
    /// A cut to release, such as 0,1,2:5,6 or 0,1,2: against all others; may be repeated
    #[arg(long = "cut", value_name = "S:P")]
    cuts: Vec<String>,
    /// The largest weight of an edge, for forest
    #[arg(long, default_value = "1")]
    largest_weight: f64,
    /// The degree up to which edges count, for triangles, stars and degrees; choose it without looking at the data
    #[arg(long, default_value = "10")]
    degree_bound: usize,
    /// The leaves of a star
    #[arg(long, default_value = "2")]
    leaves: usize,
    /// The degree from which a vertex counts, for high-degree
    #[arg(long, default_value = "10")]
    threshold: usize,
    /// What of the graph's changes is summed: count (all of them: the graph as it is now), window:W (those of the last W
    /// steps), exp:A or poly:C (older ones fade)
    #[arg(long, default_value = "count")]
    workload: String,
    /// A name that `dp plan` lists, or auto for the best
    #[arg(long, default_value = "auto")]
    strategy: String,
    /// Release the messages of a karate club instead, and write graph.csv and graph.svg into a directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["input", "state", "plot"])]
    demo: Option<PathBuf>,
    /// Compute in floating point instead of exact integers: faster, but the low bits of a released number can give a person
    /// away to whoever studies them
    #[arg(long)]
    idealized: bool,
    #[command(flatten)]
    rows: RowArguments,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    noise: NoiseArguments,
}

/// What the command can release.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// The weight of every pair of vertices
    Weights,
    /// The cuts given by --cut
    Cuts,
    /// The number of edges
    Edges,
    /// The weight of a minimum spanning forest
    Forest,
    /// The number of triangles
    Triangles,
    /// The number of stars
    Stars,
    /// The number of vertices of high degree
    HighDegree,
    /// The degree histogram
    Degrees,
}

impl Graph {
    pub(crate) fn run(&self) -> Result<()> {
        if let Some(directory) = &self.demo {
            return demo::run(directory, self.output.json);
        }
        // The parser lets nothing else through.
        let (Some(release), Some(input), Some(vertices), Some(steps), Some(relation)) =
            (self.release, &self.input, self.vertices, self.steps, self.relation)
        else {
            return Err(Usage::error(
                "say what to release, and give --input, --vertices, --steps and --relation",
            ));
        };
        let until = self.until.unwrap_or(steps);
        if until > steps {
            return Err(Usage::error(format!("--until {until} is beyond the {steps} planned steps")));
        }
        if self.output.plot.is_some() && release == What::Weights {
            return Err(Usage::error("too many curves for --plot; release cuts or a function"));
        }
        let mut files = Files::default();
        files.reads("--input", input);
        if let Some(weights) = self.workload.strip_prefix("weights:") {
            files.reads("--workload", Path::new(weights));
        }
        self.output.check(files)?;
        let encoder = self.encoder(release, vertices)?;
        let plan = self.plan(&encoder, relation, steps)?;
        let batches = Batches::open(input, self.rows, until, steps)?;
        self.guarantee(release, &plan).print();
        let engine = Engine {
            input,
            output: &self.output,
            format: Format {
                items: Some("name"),
                json: self.output.json,
                band: self.output.band.then(|| plan.budget().band()),
            },
            steps: until,
            every: 1,
            every_step: true,
            from: None,
        };
        let (seed, names) = (self.noise.seed()?, encoder.names());
        let (_, lines) = engine.run(batches, |saved| {
            let mechanism = engine::mechanism(plan, saved, seed)?;
            let done = mechanism.step();
            if until < done {
                bail!(
                    "--until {until} is before step {done}, up to which the state has released; give a later one"
                );
            }
            let (input, values) = (vec![0.0; encoder.dimension()], vec![0.0; encoder.dimension()]);
            Ok(Updates { command: self, encoder, names: &names, mechanism, input, values })
        })?;
        match &self.output.plot {
            Some(path) => draw(path, &names, &lines),
            None => Ok(()),
        }
    }

    fn guarantee<'a>(&self, release: What, plan: &'a Plan) -> Guarantee<'a> {
        let unit = if matches!(release, What::Weights | What::Cuts) { Unit::Update } else { Unit::Edge };
        Guarantee { unit, participation: Participation::Single, budget: self.noise.budget.words(), plan }
    }

    fn plan(&self, encoder: &GraphEncoding, relation: Relation, steps: usize) -> Result<Plan> {
        let dimension = encoder.dimension();
        let workload = arguments::workload(&self.workload)?;
        if workload != Workload::count() && self.release == Some(What::Degrees) {
            return Err(Usage::error(
                "a degree histogram is that of the whole graph: leave --workload at count",
            ));
        }
        let footprint = encoder
            .footprint(relation)
            .map_err(Usage::error)?
            .of_dimension(dimension)
            .map_err(Usage::error)?;
        let strategy =
            arguments::strategy_for(&self.strategy, &workload, steps, &footprint, dimension as u64)?;
        if self.idealized {
            let budget = self.noise.budget.required()?;
            arguments::check_memory(strategy.as_ref(), dimension, 0)?;
            return Plan::idealized(strategy, footprint, budget)
                .context("this combination cannot be calibrated");
        }
        let budget = self.noise.budget.exact()?;
        // An exact measurement keeps its inputs.
        arguments::check_memory(strategy.as_ref(), dimension, steps)?;
        Plan::exact(&strategy, footprint, budget, encoder.grid()).map_err(Usage::error)
    }

    fn encoder(&self, release: What, vertices: usize) -> Result<GraphEncoding> {
        let function = match release {
            What::Weights | What::Cuts => {
                let (low, high) = self.weights;
                let encoding = CutEncoding::with_weights(vertices, low, high).map_err(Usage::error)?;
                if release == What::Weights {
                    return Ok(GraphEncoding::weights(encoding));
                }
                if self.cuts.is_empty() {
                    return Err(Usage::error("give at least one --cut, such as --cut 0,1,2:"));
                }
                let cuts = self.cuts.iter().map(|text| cut(text, vertices)).collect::<Result<_>>()?;
                return GraphEncoding::cuts(encoding, cuts).map_err(Usage::error);
            }
            What::Edges => GraphFunction::Edges,
            What::Forest => GraphFunction::SpanningForest { largest_weight: self.largest_weight },
            What::Triangles => GraphFunction::Triangles { degree_bound: self.degree_bound },
            What::Stars => GraphFunction::Stars { leaves: self.leaves, degree_bound: self.degree_bound },
            What::HighDegree => GraphFunction::HighDegree { threshold: self.threshold },
            What::Degrees => GraphFunction::DegreeHistogram { degree_bound: self.degree_bound },
        };
        GraphEncoding::function(function, vertices).map_err(Usage::error)
    }
}

/// Two sides of a cut, of a graph of so many vertices.
fn cut(text: &str, vertices: usize) -> Result<Cut> {
    let expected =
        || Usage::error(format!("`{text}` is not a cut; expected vertices such as 0,1,2:5,6 or 0,1,2:"));
    let side = |part: &str| -> Result<Vec<usize>> {
        let vertices = part.split(',').filter(|vertex| !vertex.trim().is_empty());
        vertices.map(|vertex| vertex.trim().parse().map_err(|_| expected())).collect()
    };
    let (s, p) = text.split_once(':').ok_or_else(expected)?;
    let (s, mut p) = (side(s)?, side(p)?);
    if p.is_empty() {
        p = (0..vertices).filter(|vertex| !s.contains(vertex)).collect();
    }
    if s.is_empty() || p.is_empty() {
        return Err(expected());
    }
    // A comma would end the field of a CSV line.
    Ok(Cut { name: text.replace(',', " "), s, p })
}

/// A graph that changes with every step.
struct Updates<'a> {
    command: &'a Graph,
    encoder: GraphEncoding,
    names: &'a [String],
    mechanism: Mechanism,
    input: Vec<f64>,
    values: Vec<f64>,
}

impl Updates<'_> {
    /// The input of a step; a row that cannot be used is left out where the policy says so.
    fn encode(&mut self, rows: &[Row]) -> Result<()> {
        let (policy, encoder) = (self.command.rows, &mut self.encoder);
        let mut updates = Vec::with_capacity(rows.len());
        for row in rows {
            let update = updates::parse(row).and_then(|(_, mut update)| {
                if policy.bad_rows == BadRows::Clamp {
                    update.weight = encoder.clamp(update.weight);
                }
                encoder.check(&update).map_err(|error| Fault::of(&error))?;
                if !self.command.idealized {
                    update.weight = encoder.on_grid(update.weight);
                }
                Ok(Some(update))
            });
            updates.extend(policy.settle(&row.place, update, || None)?);
        }
        Ok(encoder.encode(&updates, &mut self.input)?)
    }
}

impl Live for Updates<'_> {
    fn step(&self) -> usize {
        self.mechanism.step()
    }

    fn push(&mut self, rows: &[Row]) -> Result<()> {
        self.encode(rows)?;
        self.mechanism.release(&self.input, &mut self.values)?;
        Ok(())
    }

    fn replay(&mut self, rows: &[Row]) -> Result<()> {
        self.encode(rows)
    }

    fn lines(&mut self) -> Result<Vec<Line>> {
        let (step, plan) = (self.mechanism.step(), self.mechanism.plan());
        let deviation = plan.standard_deviation(step).unwrap_or(f64::NAN);
        let answers = self.encoder.answers(&self.values, deviation)?;
        let line = |(name, answer): (&String, Estimate)| Line {
            step,
            item: Some(name.clone()),
            release: plan.on_grid(answer.value),
            standard_deviation: answer.standard_deviation,
        };
        Ok(self.names.iter().zip(answers).map(line).collect())
    }

    fn can_be_asked_again(&self) -> bool {
        false
    }
}

impl Save for Updates<'_> {
    fn snapshot(&self) -> Snapshot {
        self.mechanism.snapshot()
    }
}

fn draw(path: &Path, names: &[String], lines: &[Line]) -> Result<()> {
    let colours = [plot::BLUE, plot::ORANGE, plot::DARK];
    let panel = |(index, name): (usize, &String)| {
        let own = lines.iter().filter(|line| line.item.as_ref() == Some(name));
        let curve = Curve::noisy(
            "release, with the band that holds 95 % of the noise".to_owned(),
            colours[index % colours.len()],
            own.map(|line| (line.step as f64, line.release, line.standard_deviation)),
        );
        Panel {
            title: name.clone(),
            horizontal: "step".to_owned(),
            vertical: "released value".to_owned(),
            headroom: 0.15,
            curves: vec![curve],
        }
    };
    let panels: Vec<Panel> = names.iter().enumerate().map(panel).collect();
    plot::draw(path, "Private releases of a graph", &panels)
}
