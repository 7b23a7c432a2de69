//! Strategies side by side: the same training again and again, with nothing changed but the noise.

use std::sync::Arc;

use dp_mechanisms::{Budget, Plan, Relation, Seed, Strategy};
use rayon::prelude::*;

use super::{Aim, CyclicSampling, Privacy, Settings, Trainer};
use crate::data::Examples;
use crate::error::{Result, check_count};
use crate::model::Network;

/// One way to train that is compared with others.
#[derive(Debug, Clone)]
pub struct Contestant {
    /// Its name.
    pub name: String,
    /// Its noise.
    pub noise: Noise,
}

/// What a contestant's noise is.
#[derive(Debug, Clone)]
pub enum Noise {
    /// None at all, and no privacy.
    None,
    /// That of a strategy, with everybody in a fixed order.
    Strategy(Arc<dyn Strategy>),
    /// That of people who are drawn at random, with so many bands, or the best number of them for each budget.
    Sampled {
        /// The sums for which noise is correlated.
        aim: Aim,
        /// The number of bands and groups.
        bands: Option<usize>,
    },
}

/// Repeated trainings that differ in the noise alone.
///
/// Run r shuffles the examples by `order + r` and draws noise from seed r, for every contestant and budget: what differs
/// between two of them in the same run is what the strategy does. Seeds are public, so nothing of this is private; it is
/// for data that everybody may see.
#[derive(Debug, Clone)]
pub struct Comparison<'a> {
    /// The model.
    pub network: Network,
    /// The examples to train with.
    pub train: &'a Examples,
    /// The examples to score with.
    pub test: &'a Examples,
    /// The same for everyone.
    pub settings: Settings,
    /// The neighbouring relation.
    pub relation: Relation,
    /// How often every training is repeated.
    pub runs: usize,
}

/// The accuracies that one contestant reached at one budget.
#[derive(Debug, Clone, PartialEq)]
pub struct Accuracy {
    /// After the last step, one for each run.
    pub runs: Vec<f64>,
}

/// A mean with the standard error of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    /// The mean over the runs.
    pub mean: f64,
    /// The sample standard deviation divided by the root of the number of runs; zero for a single run.
    pub standard_error: f64,
}

impl Accuracy {
    /// The mean accuracy.
    pub fn estimate(&self) -> Mean {
        estimate(&self.runs)
    }

    /// The mean of the differences to another's accuracy, run by run: the same order of examples and the same unit noise
    /// stand on both sides, so the error is far smaller than that of the two means.
    pub fn lead_over(&self, other: &Self) -> Mean {
        let differences: Vec<f64> = self.runs.iter().zip(&other.runs).map(|(own, its)| own - its).collect();
        estimate(&differences)
    }
}

fn estimate(values: &[f64]) -> Mean {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let standard_error = if values.len() > 1 { (squares / (count - 1.0) / count).sqrt() } else { 0.0 };
    Mean { mean, standard_error }
}

impl Comparison<'_> {
    /// Trains everyone at every budget: a row per contestant, a column per budget. Without privacy there is one column.
    /// `done` is called after each training, on any thread.
    ///
    /// # Errors
    /// What a training refuses; no runs.
    pub fn run(
        &self,
        contestants: &[Contestant],
        budgets: &[Budget],
        done: impl Fn() + Sync,
    ) -> Result<Vec<Vec<Accuracy>>> {
        check_count("number of runs", self.runs)?;
        let planner = Trainer::new(self.network.clone(), self.train, self.settings)?;
        contestants
            .iter()
            .map(|contestant| match &contestant.noise {
                Noise::None => Ok(vec![self.repeat(|trainer, _| trainer.start_without_privacy(), &done)?]),
                noise => {
                    let plans = budgets.iter().map(|budget| self.plan(&planner, noise, *budget));
                    let plans = plans.collect::<Result<Vec<Option<Plan>>>>()?;
                    let column = |plan: Plan| {
                        let seed = Seed::reproducible;
                        self.repeat(|trainer, run| trainer.start_with(plan.clone(), seed(run)), &done)
                    };
                    plans.into_iter().flatten().map(column).collect()
                }
            })
            .collect()
    }

    /// The plan of a contestant at a budget: the same for every order of the examples.
    fn plan(&self, trainer: &Trainer<'_>, noise: &Noise, budget: Budget) -> Result<Option<Plan>> {
        match noise {
            Noise::None => Ok(None),
            Noise::Strategy(strategy) => {
                let (strategy, relation) = (Arc::clone(strategy), self.relation);
                trainer.plan(&Privacy { strategy, relation, budget }).map(Some)
            }
            Noise::Sampled { aim, bands } => {
                let sampling = CyclicSampling { aim: *aim, bands: *bands, capacity: None, budget };
                trainer.sampled_plan(&sampling).map(Some)
            }
        }
    }

    /// The number of trainings in [`Comparison::run`].
    pub fn trainings(&self, contestants: &[Contestant], budgets: &[Budget]) -> usize {
        let columns = |contestant: &Contestant| match contestant.noise {
            Noise::None => 1,
            _ => budgets.len(),
        };
        self.runs * contestants.iter().map(columns).sum::<usize>()
    }

    fn repeat<'t>(
        &'t self,
        start: impl Fn(&Trainer<'t>, u64) -> Result<super::Training<'t>> + Sync,
        done: &(impl Fn() + Sync),
    ) -> Result<Accuracy> {
        let run = |run: usize| {
            let run = run as u64;
            let settings = Settings { order: self.settings.order.wrapping_add(run), ..self.settings };
            let trainer = Trainer::new(self.network.clone(), self.train, settings)?;
            // Far from the numbers of the orders, whose generator is the same.
            let mut training = start(&trainer, !run)?;
            while training.advance(Some(self.test))? {}
            done();
            Ok(training.epochs().last().and_then(|epoch| epoch.accuracy).unwrap_or_default())
        };
        Ok(Accuracy { runs: (0..self.runs).into_par_iter().map(run).collect::<Result<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_those_of_the_textbook() {
        let accuracy = |runs: &[f64]| Accuracy { runs: runs.to_vec() };
        let estimate = accuracy(&[0.25, 0.5, 0.75]).estimate();
        // Sample variance 1/16, so the standard error is 1/4 / sqrt(3).
        assert_eq!(estimate.mean, 0.5);
        assert!((estimate.standard_error - 0.25 / 3.0_f64.sqrt()).abs() < 1e-15);
        let lead = accuracy(&[0.5, 1.0]).lead_over(&accuracy(&[0.25, 0.75]));
        assert_eq!((lead.mean, lead.standard_error), (0.25, 0.0));
        assert_eq!(accuracy(&[1.0]).estimate().standard_error, 0.0);
    }
}
