//! The numbers that a strategy is made of: by them it is told from others, and built again without being planned again.

use std::sync::Arc;

use super::{Method, Strategy, group, optimal, structured, toeplitz};
use crate::error::{Error, Result};
use crate::identity::Digest;
use crate::workload::Workload;

/// What a strategy consists of beside its name, its workload and the number of steps: lists of numbers, each with a name.
///
/// Two strategies with the same bits here apply the same matrix. Planning the same problem on another machine, or with
/// another number of threads, may end at other last bits; a saved state keeps these numbers, so that it continues with
/// the matrix that it began with.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Coefficients {
    parts: Vec<(String, Vec<f64>)>,
}

impl Coefficients {
    /// No numbers: name, workload and steps say it all.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds a list.
    #[must_use]
    pub fn with(mut self, name: &str, values: impl Into<Vec<f64>>) -> Self {
        self.parts.push((name.to_owned(), values.into()));
        self
    }

    /// A list by its name, if it is there.
    pub fn get(&self, name: &str) -> Option<&[f64]> {
        self.parts.iter().find(|(known, _)| known == name).map(|(_, values)| values.as_slice())
    }

    /// A list that must be there.
    pub(crate) fn list(&self, name: &str) -> Result<Vec<f64>> {
        self.get(name)
            .map(<[f64]>::to_vec)
            .ok_or_else(|| Error::State { reason: format!("its strategy has no {name}") })
    }

    /// A list that must be there and have so many entries.
    pub(crate) fn list_of(&self, name: &str, length: usize) -> Result<Vec<f64>> {
        let values = self.list(name)?;
        if values.len() == length {
            return Ok(values);
        }
        Err(Error::State { reason: format!("its strategy has {} {name} in place of {length}", values.len()) })
    }

    /// A single number that must be there.
    pub(crate) fn number(&self, name: &str) -> Result<f64> {
        Ok(self.list_of(name, 1)?[0])
    }

    pub(crate) fn add_to(&self, digest: &mut Digest) {
        for (name, values) in &self.parts {
            name.bytes().for_each(|byte| digest.add(u64::from(byte)));
            digest.add(values.len() as u64);
            digest.add_all(values);
        }
    }

    /// As bytes: of every list its name, its length and its values, each count before what it counts.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, values) in &self.parts {
            bytes.extend_from_slice(&(name.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&(values.len() as u64).to_le_bytes());
            bytes.extend_from_slice(name.as_bytes());
            values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
        }
        bytes
    }

    /// Reads what [`Coefficients::encode`] wrote.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut parts = Vec::new();
        while !bytes.is_empty() {
            let (name_length, rest) = bytes.split_first_chunk::<8>()?;
            let (count, rest) = rest.split_first_chunk::<8>()?;
            let name_length = usize::try_from(u64::from_le_bytes(*name_length)).ok()?;
            let length = usize::try_from(u64::from_le_bytes(*count)).ok()?.checked_mul(8)?;
            let (name, rest) = rest.split_at_checked(name_length)?;
            let (values, rest) = rest.split_at_checked(length)?;
            let values = values.as_chunks::<8>().0.iter().map(|value| f64::from_le_bytes(*value)).collect();
            parts.push((std::str::from_utf8(name).ok()?.to_owned(), values));
            bytes = rest;
        }
        Some(Self { parts })
    }

    /// The strategy that consists of these numbers. Without numbers, or with those of a strategy from elsewhere, nothing.
    ///
    /// # Errors
    /// [`Error::State`] for lists that are missing or too short, and what the strategy refuses.
    pub(crate) fn build(
        &self,
        name: &str,
        workload: &Workload,
        steps: usize,
    ) -> Result<Option<Arc<dyn Strategy>>> {
        let Ok(method) = name.parse::<Method>() else { return Ok(None) };
        if self.parts.is_empty() {
            return Ok(None);
        }
        Ok(Some(match method {
            Method::Optimal => Arc::new(optimal::Optimal::of_coefficients(workload, steps, self)?),
            Method::Structured => Arc::new(structured::Structured::of_coefficients(workload, steps, self)?),
            Method::Group => Arc::new(group::Group::of_coefficients(workload, steps, self)?),
            Method::Anytime => super::anytime::of_coefficients(workload, steps, self)?,
            method => {
                Arc::new(toeplitz::ToeplitzStrategy::of_coefficients(method.name(), workload, steps, self)?)
            }
        }))
    }
}

/// The lower triangle of a square matrix, row after row, within its bands.
pub(crate) fn packed_triangle(matrix: &ndarray::Array2<f64>, bands: usize) -> Vec<f64> {
    let row = |(i, row): (usize, ndarray::ArrayView1<'_, f64>)| {
        let first = (i + 1).saturating_sub(bands);
        row.iter().skip(first).take(i + 1 - first).copied().collect::<Vec<f64>>()
    };
    matrix.outer_iter().enumerate().flat_map(row).collect()
}

/// The matrix whose triangle [`packed_triangle`] wrote.
///
/// # Errors
/// [`Error::State`] for another number of entries.
pub(crate) fn unpacked_triangle(values: &[f64], steps: usize, bands: usize) -> Result<ndarray::Array2<f64>> {
    super::check_materializable(steps)?;
    let expected: usize = (1..=steps).map(|length| length.min(bands)).sum();
    if values.len() != expected || bands == 0 {
        return Err(Error::State { reason: format!("its matrix has {} entries", values.len()) });
    }
    let mut values = values.iter();
    let mut matrix = ndarray::Array2::zeros((steps, steps));
    for (i, mut row) in matrix.outer_iter_mut().enumerate() {
        let first = (i + 1).saturating_sub(bands);
        row.iter_mut().skip(first).take(i + 1 - first).zip(&mut values).for_each(|(to, from)| *to = *from);
    }
    Ok(matrix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Problem;
    use crate::noise::GaussianSource;
    use crate::sensitivity::Participation;
    use crate::{Metric, Seed};

    fn noise(strategy: &dyn Strategy) -> Vec<f64> {
        let mut source = GaussianSource::new(Seed::reproducible(5), 1);
        let mut filter = strategy.noise_filter(1).unwrap();
        let row = |_| {
            let mut value = [0.0];
            filter.next_into(&mut source, &mut value).unwrap();
            value[0]
        };
        (0..strategy.steps()).map(row).collect()
    }

    #[test]
    fn strategies_are_built_again_from_their_numbers() {
        let repeated = Participation::repeated(3, 7).unwrap();
        for &method in Method::ALL {
            let mut with_numbers = 0;
            for workload in ["count", "average", "window:5", "exp:1.2", "momentum:0.9"] {
                for participation in [Participation::Single, repeated] {
                    let workload: Workload = workload.parse().unwrap();
                    let problem = Problem::new(workload.clone(), 37)
                        .unwrap()
                        .with_participation(participation)
                        .with_metric(Metric::Mse);
                    let Ok(strategy) = method.build(&problem) else { continue };
                    let Some(saved) = strategy.coefficients() else { continue };
                    let read = Coefficients::decode(&saved.encode()).unwrap();
                    assert_eq!(read, saved);
                    let Some(again) = read.build(method.name(), &workload, 37).unwrap() else { continue };
                    with_numbers += 1;
                    assert_eq!(again.coefficients().unwrap(), saved, "{method} {workload}");
                    assert_eq!(again.name(), strategy.name());
                    assert_eq!(
                        again.sensitivity(participation).unwrap(),
                        strategy.sensitivity(participation).unwrap()
                    );
                    assert_eq!(again.row_norms().unwrap(), strategy.row_norms().unwrap());
                    assert_eq!(noise(again.as_ref()), noise(strategy.as_ref()), "{method} {workload}");
                }
            }
            let fitted = !matches!(
                method,
                Method::HonakerFull
                    | Method::HonakerOnline
                    | Method::BinaryTree
                    | Method::WeightedTree
                    | Method::Identity
                    | Method::Output
            );
            assert_eq!(with_numbers > 0, fitted, "{method}");
        }
    }

    #[test]
    fn long_horizons_without_tables_are_built_again() {
        let problem = Problem::new(Workload::count(), (1 << 16) + 300).unwrap();
        let strategy = Method::ScaledBlt.build(&problem).unwrap();
        let saved = strategy.coefficients().unwrap();
        assert!(saved.encode().len() < 1 << 19, "no tables of the diagonals: {}", saved.encode().len());
        let again = saved.build("scaled-blt", &Workload::count(), (1 << 16) + 300).unwrap().unwrap();
        assert_eq!(noise(again.as_ref()), noise(strategy.as_ref()));
        assert_eq!(again.coefficients().unwrap(), saved);
    }

    #[test]
    fn the_same_numbers_make_the_same_noise_with_any_number_of_threads() {
        // Long and wide enough for every product and every solve to be shared among threads.
        let (steps, dimension) = (256, 300);
        let problem = Problem::new(Workload::count(), steps).unwrap();
        for method in [Method::Sqrt, Method::Blt] {
            let matrix = method.build(&problem).unwrap().materialize().unwrap().strategy;
            let saved = Coefficients::none()
                .with("matrix", packed_triangle(&matrix, steps))
                .with("bands", [steps as f64])
                .with("squared norms", vec![1.0; steps]);
            let run = || {
                let strategy = saved.build("optimal", &Workload::count(), steps).unwrap().unwrap();
                let mut source = GaussianSource::new(Seed::reproducible(5), dimension);
                let mut noise = vec![0.0; steps * dimension];
                let mut filter = strategy.noise_filter(dimension).unwrap();
                filter.next_rows(&mut source, dimension, &mut noise).unwrap();
                noise
            };
            let with = |threads: usize| {
                rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(run)
            };
            let expected = with(1);
            for threads in [2, 3, 8] {
                assert!(with(threads) == expected, "{method} with {threads} threads");
            }
        }
    }

    /// Planning cuts its sums into the same pieces however many threads take them. At 365 steps as many pieces as threads would
    /// give other last bits.
    #[test]
    fn planning_ends_at_the_same_bits_with_any_number_of_threads() {
        let problem = Problem::new(Workload::count(), 365).unwrap();
        for method in [Method::Optimal, Method::Structured, Method::ScaledSqrt] {
            let with = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let numbers = pool.install(|| method.build(&problem).unwrap().coefficients().unwrap());
                numbers.encode()
            };
            let one = with(1);
            for threads in [2, 3] {
                assert!(with(threads) == one, "{method} with {threads} threads");
            }
        }
    }

    #[test]
    fn lists_that_do_not_fit_are_refused() {
        let workload = Workload::count();
        for &method in Method::ALL {
            let Ok(problem) = Problem::new(workload.clone(), 9) else { continue };
            let Some(saved) = method.build(&problem).unwrap().coefficients() else { continue };
            if saved == Coefficients::none() {
                continue;
            }
            let tabled =
                matches!(method, Method::Sqrt | Method::Optimal | Method::Structured | Method::Group);
            let longer = saved.build(method.name(), &workload, 10);
            assert!(longer.is_err() || !tabled, "{method} for another number of steps");
            let mut cut = saved.clone();
            cut.parts.remove(0);
            assert!(
                !matches!(cut.build(method.name(), &workload, 9), Ok(Some(_))),
                "{method} without its first list"
            );
            let bytes = saved.encode();
            assert!(Coefficients::decode(&bytes[..bytes.len() - 1]).is_none());
        }
    }
}
