//! The strategies that this crate knows how to build, by name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::watch::{Watch, unwatched};
use super::{
    Strategy, anytime, banded, blt, group, honaker, identity, optimal, optimal_toeplitz, scaled, scaled_blt,
    structured, toeplitz, tree, weighted_tree,
};
use crate::error::{Error, Result};
use crate::problem::Problem;
use crate::sensitivity::Participation;
use crate::workload::{Recurrence, Workload};

/// Defines the methods with their names, once.
macro_rules! methods {
    ($($(#[$documentation:meta])* $variant:ident = $name:literal,)*) => {
        /// A way to build a strategy.
        ///
        /// # Example
        /// ```
        /// use dp_mechanisms::{Method, Problem, Workload};
        /// let method: Method = "scaled-blt".parse()?;
        /// assert_eq!(method, Method::ScaledBlt);
        /// let strategy = method.build(&Problem::new(Workload::count(), 1000)?)?;
        /// assert_eq!(strategy.name(), method.to_string());
        /// // Whoever mistypes a name is told all of them.
        /// assert!("square-root".parse::<Method>().unwrap_err().to_string().contains("normalized-sqrt"));
        /// # Ok::<(), dp_mechanisms::Error>(())
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Method {
            $($(#[$documentation])* $variant,)*
        }

        impl Method {
            /// All of them, those that take longest to build last.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name, as on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        /// The names of all methods, for whoever asks for another one.
        const NAMES: &str = concat!("one of" $(, " ", $name)*);
    };
}

methods! {
    /// The square root of the workload: [`toeplitz::sqrt`].
    Sqrt = "sqrt",
    /// A rational core of a few buffers: [`blt::blt`].
    Blt = "blt",
    /// The same with scaled rows and columns: [`scaled_blt::scaled_blt`].
    ScaledBlt = "scaled-blt",
    /// The circulant square root of the count: [`group::Group`].
    Group = "group",
    /// A sensitivity that is bounded for ever: [`anytime::anytime`].
    Anytime = "anytime",
    /// The binary tree, decoded by least squares: [`honaker::Honaker::full`].
    HonakerFull = "honaker-full",
    /// The binary tree, each node estimated from below: [`honaker::Honaker::online`].
    HonakerOnline = "honaker-online",
    /// The binary tree: [`tree::BinaryTree`].
    BinaryTree = "binary-tree",
    /// A tree of weighted nodes, for Laplace noise: [`weighted_tree::WeightedTree`].
    WeightedTree = "weighted-tree",
    /// Independent noise on every input: [`identity::Independent::on_input`].
    Identity = "identity",
    /// Independent noise on every release: [`identity::Independent::on_output`].
    Output = "output",
    /// The best few coefficients: [`banded::banded`].
    Banded = "banded",
    /// The first few coefficients of the inverse square root: [`banded::banded_inverse`].
    BandedInverse = "banded-inverse",
    /// The square root with columns of norm 1: [`scaled::normalized_sqrt`].
    NormalizedSqrt = "normalized-sqrt",
    /// The same with fitted rows: [`scaled::scaled_sqrt`].
    ScaledSqrt = "scaled-sqrt",
    /// The best of all Toeplitz strategies: [`optimal_toeplitz::optimal_toeplitz`].
    OptimalToeplitz = "optimal-toeplitz",
    /// The best of all, by the dense program: [`optimal::Optimal`].
    Optimal = "optimal",
    /// The same, compressed to a short memory: [`structured::Structured`].
    Structured = "structured",
}

impl Method {
    /// Builds the strategy; the optimized ones are fitted to the problem's participation and metric.
    ///
    /// # Errors
    /// A workload that the strategy does not serve, or more steps than it can be built for.
    pub fn build(self, problem: &Problem) -> Result<Arc<dyn Strategy>> {
        self.build_watched(problem, &mut unwatched)
    }

    /// [`Method::build`] under the eyes of somebody who sees its progress and can stop it.
    ///
    /// # Errors
    /// As [`Method::build`], and [`Error::Interrupted`].
    pub fn build_watched(self, problem: &Problem, watch: &mut Watch<'_>) -> Result<Arc<dyn Strategy>> {
        Ok(match self {
            Self::Sqrt => Arc::new(toeplitz::sqrt(problem)?),
            Self::NormalizedSqrt => Arc::new(scaled::normalized_sqrt(problem)?),
            Self::ScaledSqrt => Arc::new(scaled::scaled_sqrt(problem, watch)?),
            Self::Optimal => Arc::new(optimal::Optimal::new(problem, watch)?),
            Self::Structured => Arc::new(structured::Structured::new(problem, watch)?),
            Self::Blt => Arc::new(blt::blt(problem, watch)?),
            Self::ScaledBlt => Arc::new(scaled_blt::scaled_blt(problem, watch)?),
            Self::Banded => Arc::new(banded::banded(problem, watch)?),
            Self::BandedInverse => Arc::new(banded::banded_inverse(problem)?),
            Self::OptimalToeplitz => Arc::new(optimal_toeplitz::optimal_toeplitz(problem, watch)?),
            Self::HonakerFull => Arc::new(honaker::Honaker::full(problem)),
            Self::HonakerOnline => Arc::new(honaker::Honaker::online(problem)),
            Self::BinaryTree => Arc::new(tree::BinaryTree::new(problem)),
            Self::WeightedTree => Arc::new(weighted_tree::WeightedTree::new(problem)),
            Self::Group => Arc::new(group::Group::new(problem)?),
            Self::Anytime => anytime::anytime(problem, watch)?,
            Self::Identity => Arc::new(identity::Independent::on_input(problem)),
            Self::Output => Arc::new(identity::Independent::on_output(problem)),
        })
    }

    /// The number of steps up to which the planner tries it on its own account.
    pub fn practical_limit(self, participation: Participation) -> usize {
        match self {
            // The banded program takes some hundred products where the single one takes a handful of decompositions.
            Self::Optimal | Self::Structured if participation != Participation::Single => 1 << 9,
            // Seconds, at this size.
            Self::Optimal | Self::Structured => 1 << 10,
            Self::HonakerFull | Self::ScaledSqrt | Self::NormalizedSqrt => 1 << 20,
            Self::OptimalToeplitz => 1 << 17,
            _ => usize::MAX,
        }
    }

    /// About how many seconds building and evaluating it takes: measured on one machine, and meant for comparison.
    ///
    /// # Example
    /// ```
    /// use dp_mechanisms::{Method, Problem, Workload};
    /// let minutes = Problem::new(Workload::count(), 100_000_000)?;
    /// assert!(Method::Blt.effort(&minutes) < 1.0 && Method::Sqrt.effort(&minutes) > 10.0);
    /// # Ok::<(), dp_mechanisms::Error>(())
    /// ```
    pub fn effort(self, problem: &Problem) -> f64 {
        let steps = problem.steps() as f64;
        let statistics = problem.statistics().len() as f64;
        let single = problem.times() <= 1;
        let recurrent =
            problem.statistics().iter().all(|one| one.workload().recurrence() != Recurrence::None);
        let only = |wanted: fn(&Workload) -> bool| {
            single && matches!(problem.statistics(), [one] if wanted(one.workload()))
        };
        // Fits at a few thousand steps, whatever the horizon.
        let tabulated = only(Workload::is_prefix_sum);
        let fit = if tabulated { 0.0 } else { 0.2 * statistics };
        // Where there is no closed form, tables of all steps.
        let leaps = only(|workload| matches!(workload.recurrence(), Recurrence::First { .. }));
        let tables = if leaps { 0.0 } else { 2e-7 * steps * statistics };
        // Several participations take some hundred evaluations of the program over all bands, where one takes a handful of decompositions.
        let program = if single { 0.7 } else { 300.0 };
        // The dense program at up to 256 steps, and a Gram matrix where columns meet.
        let gram = if problem.fills_horizon() { 0.0 } else { 4e-11 * steps.min(4096.0).powi(3) };
        let repeated = if single { 0.0 } else { (2e-2 * steps).min(1.0) + gram };
        match self {
            Self::Identity | Self::Output => 5e-9 * steps * statistics,
            Self::BinaryTree => 1e-8 * steps * statistics,
            Self::Blt => 0.01 + if recurrent { tables / 10.0 } else { fit + tables },
            Self::ScaledBlt => 0.02 + fit + tables,
            Self::HonakerOnline | Self::HonakerFull => 4e-8 * steps * statistics,
            Self::WeightedTree => 0.01 + 4e-8 * steps * statistics,
            Self::Anytime => 0.03 + problem.expected().map_or(0.0, |_| 0.5) + tables,
            Self::Sqrt | Self::BandedInverse => 1.5e-7 * steps * statistics,
            Self::Group => 4e-7 * steps,
            Self::Banded => 0.1 * statistics + 1.5e-7 * steps * statistics,
            Self::NormalizedSqrt => 2e-6 * steps * statistics,
            Self::OptimalToeplitz => 4e-6 * steps * statistics,
            Self::ScaledSqrt => (1.4e-5 * steps).min(0.3) * statistics + 2e-6 * steps * statistics + repeated,
            Self::Optimal => program * (steps / 1024.0).powi(3),
            Self::Structured => (program + 0.3) * (steps / 1024.0).powi(3),
        }
    }

    /// Whether its noise filter keeps a value of every step for every coordinate, and not just a few.
    pub fn remembers_every_step(self) -> bool {
        matches!(
            self,
            Self::Sqrt
                | Self::NormalizedSqrt
                | Self::ScaledSqrt
                | Self::Optimal
                | Self::OptimalToeplitz
                | Self::Group
                | Self::HonakerFull
        )
    }

    /// Whether C is a Toeplitz matrix, whose sensitivity to repeated participation is read off its coefficients.
    pub fn is_toeplitz(self) -> bool {
        matches!(
            self,
            Self::Sqrt
                | Self::Blt
                | Self::Banded
                | Self::BandedInverse
                | Self::OptimalToeplitz
                | Self::Identity
        )
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.iter().find(|method| method.name() == text).copied().ok_or_else(|| Error::Parse {
            what: "strategy",
            text: text.to_owned(),
            expected: NAMES,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_an_unknown_one_is_answered_with_all() {
        let refusal = "square-root".parse::<Method>().unwrap_err().to_string();
        for method in Method::ALL {
            assert_eq!(method.name().parse(), Ok(*method));
            assert!(refusal.split([' ', ';']).any(|word| word == method.name()), "{method}: {refusal}");
        }
    }
}
