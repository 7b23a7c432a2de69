//! What of a graph is released: the edges of a step in, one answer for every name out.

use dp_mechanisms::{Footprint, Relation, exact};

use super::{CutEncoding, EdgeUpdate, FunctionStream, GraphFunction, degree_histogram};
use crate::Estimate;
use crate::error::Result;

/// The two sides of a cut and what it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The name.
    pub name: String,
    /// One side.
    pub s: Vec<usize>,
    /// The other side.
    pub p: Vec<usize>,
}

/// All weights, some cuts, or a function of a graph: updates to inputs of a mechanism, and its releases to answers.
///
/// # Privacy
/// That of [`CutEncoding::footprint`] or [`GraphFunction::footprint`]. Answers are post-processing.
///
/// # Example
/// ```
/// use dp_apps::graph::{EdgeUpdate, GraphEncoding, GraphFunction};
/// let mut triangles = GraphEncoding::function(GraphFunction::Triangles { degree_bound: 10 }, 4)?;
/// let mut input = vec![0.0; triangles.dimension()];
/// triangles.encode(&[(0, 1), (1, 2), (2, 0)].map(|(u, v)| EdgeUpdate::new(u, v, 1.0)), &mut input)?;
/// assert_eq!(input, [1.0]);
/// assert_eq!(triangles.names(), ["triangles to degree 10"]);
/// # Ok::<(), dp_apps::Error>(())
/// ```
#[derive(Debug)]
pub struct GraphEncoding {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Without cuts, the weights themselves are the answers.
    Weights {
        encoding: CutEncoding,
        cuts: Option<Vec<Cut>>,
    },
    Function {
        stream: Box<FunctionStream>,
        vertices: usize,
    },
}

impl GraphEncoding {
    /// The weight of every pair of vertices.
    pub fn weights(encoding: CutEncoding) -> Self {
        Self { kind: Kind::Weights { encoding, cuts: None } }
    }

    /// Some cuts.
    ///
    /// # Errors
    /// An unknown vertex, or one that stands twice in a cut.
    pub fn cuts(encoding: CutEncoding, cuts: Vec<Cut>) -> Result<Self> {
        let nothing = vec![0.0; encoding.dimension()];
        for cut in &cuts {
            encoding.cut(&nothing, &cut.s, &cut.p, 0.0)?;
        }
        Ok(Self { kind: Kind::Weights { encoding, cuts: Some(cuts) } })
    }

    /// A function of a graph of so many vertices.
    ///
    /// # Errors
    /// As [`GraphFunction::start`].
    pub fn function(function: GraphFunction, vertices: usize) -> Result<Self> {
        let stream = Box::new(function.start(vertices)?);
        Ok(Self { kind: Kind::Function { stream, vertices } })
    }

    /// The number of coordinates of an input.
    pub fn dimension(&self) -> usize {
        match &self.kind {
            Kind::Weights { encoding, .. } => encoding.dimension(),
            Kind::Function { stream, .. } => stream.function().dimension(),
        }
    }

    /// What is protected: one update for weights and cuts, one edge with all its insertions for functions.
    ///
    /// # Errors
    /// As [`CutEncoding::footprint`] and [`GraphFunction::footprint`].
    pub fn footprint(&self, relation: Relation) -> Result<Footprint> {
        match &self.kind {
            Kind::Weights { encoding, .. } => encoding.footprint(relation),
            Kind::Function { stream, .. } => stream.function().footprint(relation),
        }
    }

    /// The unit of exact measurements: counts are whole numbers, and weights fractions of the largest.
    pub fn grid(&self) -> f64 {
        self.weighted().map_or(1.0, |(low, high)| exact::grid(low.abs().max(high.abs())))
    }

    /// The bounds of the weights, if they are more than counted.
    fn weighted(&self) -> Option<(f64, f64)> {
        match &self.kind {
            Kind::Weights { encoding, .. } => Some(encoding.weights()),
            Kind::Function { stream, .. } => match stream.function() {
                GraphFunction::SpanningForest { largest_weight } => Some((0.0, largest_weight)),
                _ => None,
            },
        }
    }

    /// The weight as a multiple of the unit, within the bounds, for exact measurements. It is rounded before it is encoded:
    /// everything that is computed from such weights is a multiple of the unit as well, and one update changes no more than
    /// before.
    pub fn on_grid(&self, weight: f64) -> f64 {
        let Some((low, high)) = self.weighted() else { return weight };
        let unit = self.grid();
        (weight / unit).round().max((low / unit).ceil()).min((high / unit).floor()) * unit
    }

    /// Refuses an update that cannot be encoded.
    ///
    /// # Errors
    /// An unknown vertex, a loop, or a weight out of range.
    pub fn check(&self, update: &EdgeUpdate) -> Result<()> {
        match &self.kind {
            Kind::Weights { encoding, .. } => encoding.check(update),
            Kind::Function { stream, .. } => stream.check(update),
        }
    }

    /// The nearest weight that an update may have.
    pub fn clamp(&self, weight: f64) -> f64 {
        let (low, high) = match &self.kind {
            Kind::Weights { encoding, .. } => encoding.weights(),
            Kind::Function { stream, .. } => stream.function().weights(),
        };
        weight.clamp(low, high)
    }

    /// Takes the updates of a step, in order, and writes the input of the mechanism.
    ///
    /// # Errors
    /// As [`Self::check`], or an input of the wrong length. Then nothing has changed.
    pub fn encode(&mut self, updates: &[EdgeUpdate], input: &mut [f64]) -> Result<()> {
        match &mut self.kind {
            Kind::Weights { encoding, .. } => encoding.encode(updates, input),
            Kind::Function { stream, .. } => stream.encode(updates, input),
        }
    }

    /// What the answers are called. Parameters are part of a name: answers with other ones must not be taken for its
    /// continuation.
    pub fn names(&self) -> Vec<String> {
        match &self.kind {
            Kind::Weights { encoding, cuts: None } => {
                encoding.pairs().iter().map(|(u, v)| format!("{u}-{v}")).collect()
            }
            Kind::Weights { cuts: Some(cuts), .. } => cuts.iter().map(|cut| cut.name.clone()).collect(),
            Kind::Function { stream, .. } => match stream.function() {
                GraphFunction::Edges => vec!["edges".to_owned()],
                GraphFunction::SpanningForest { largest_weight } => {
                    vec![format!("forest to weight {largest_weight}")]
                }
                GraphFunction::Triangles { degree_bound } => {
                    vec![format!("triangles to degree {degree_bound}")]
                }
                GraphFunction::Stars { leaves, degree_bound } => {
                    vec![format!("{leaves}-stars to degree {degree_bound}")]
                }
                GraphFunction::HighDegree { threshold } => vec![format!("degree {threshold} or more")],
                GraphFunction::DegreeHistogram { degree_bound: last } => {
                    let last_name = format!("degree {last} or more");
                    (0..last).map(|degree| format!("degree {degree}")).chain([last_name]).collect()
                }
            },
        }
    }

    /// One answer per name, from what the mechanism released and the standard deviation of each of its coordinates.
    ///
    /// # Errors
    /// Another number of values than coordinates.
    pub fn answers(&self, values: &[f64], standard_deviation: f64) -> Result<Vec<Estimate>> {
        match &self.kind {
            Kind::Weights { encoding, cuts: Some(cuts) } => {
                cuts.iter().map(|cut| encoding.cut(values, &cut.s, &cut.p, standard_deviation)).collect()
            }
            Kind::Function { stream, vertices } if stream.function().is_histogram() => {
                let bins = degree_histogram(*vertices, values, standard_deviation).into_iter();
                Ok(bins.map(|(value, standard_deviation)| Estimate { value, standard_deviation }).collect())
            }
            _ => Ok(values.iter().map(|value| Estimate { value: *value, standard_deviation }).collect()),
        }
    }
}
