//! What the graph applications refuse.

/// Why a graph, an update or a query was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// Too few or too many vertices.
    #[error("{vertices} vertices; expected {range}")]
    Vertices {
        /// The number given.
        vertices: usize,
        /// What is accepted.
        range: &'static str,
    },
    /// A vertex that does not exist.
    #[error("vertex {vertex} is not one of the {vertices} vertices, which are counted from 0")]
    UnknownVertex {
        /// The vertex given.
        vertex: usize,
        /// The number of vertices.
        vertices: usize,
    },
    /// An edge from a vertex to itself.
    #[error("an edge from vertex {vertex} to itself crosses no cut and is not accepted")]
    Loop {
        /// The vertex.
        vertex: usize,
    },
    /// A weight outside its declared range, or not a number.
    #[error("weight {weight} of edge {u}-{v} is outside [{low}, {high}]")]
    Weight {
        /// One end of the edge.
        u: usize,
        /// The other end.
        v: usize,
        /// The weight given.
        weight: f64,
        /// The smallest accepted weight.
        low: f64,
        /// The largest accepted weight.
        high: f64,
    },
    /// A vertex that stands twice in the two sides of a cut.
    #[error("vertex {vertex} stands twice in the two sides of the cut")]
    RepeatedVertex {
        /// The vertex.
        vertex: usize,
    },
    /// A vector whose length does not fit.
    #[error("{what} has {actual} values; expected {expected}")]
    Length {
        /// Which vector.
        what: &'static str,
        /// The length it must have.
        expected: usize,
        /// The length it has.
        actual: usize,
    },
    /// A parameter outside its range.
    #[error("{what} is {value}; expected {range}")]
    OutOfRange {
        /// Which parameter.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What is accepted.
        range: &'static str,
    },
    /// The mechanism refused.
    #[error(transparent)]
    Mechanism(#[from] dp_mechanisms::Error),
    /// The numeric core refused.
    #[error(transparent)]
    Numeric(#[from] dp_linalg::Error),
}

/// The result of a graph operation.
pub type Result<T> = std::result::Result<T, GraphError>;

/// Refuses a vector of the wrong length.
pub(super) fn check_length(what: &'static str, actual: usize, expected: usize) -> Result<()> {
    if actual == expected { Ok(()) } else { Err(GraphError::Length { what, expected, actual }) }
}
