//! Exact samples of the discrete Gaussian.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Result, anyhow};
use dp_benches::shortest;
use dp_mechanisms::noise::discrete::DiscreteGaussian;
use prio::dp::{Rational, distributions::DiscreteGaussian as PrioDiscreteGaussian};
use rand::SeedableRng;
use rand::distr::Distribution;
use rand_chacha::ChaCha20Rng;

use crate::python::{Peers, Question};
use crate::rows::{OURS, Row, Section};

const SCALES: [u32; 3] = [1, 1_000, 1_000_000];

/// The version that the lock file holds; a library cannot be asked.
const PRIO: &str = "prio 0.18";

pub(crate) fn compare(peers: &Peers, quick: bool) -> Result<Section> {
    let samples: usize = if quick { 5_000 } else { 50_000 };
    let mut rows = Vec::new();
    for scale in SCALES {
        let work = format!("σ = {scale}");
        peers.doing(work.clone());
        let ours = DiscreteGaussian::new(u128::from(scale).pow(2), 1)?;
        let mut generator = ChaCha20Rng::seed_from_u64(1);
        // Ours is fast enough for a clock only in larger numbers.
        rows.push(row(&work, OURS, 20 * samples, || {
            black_box(ours.sample(&mut generator));
        }));
        let scale_ratio =
            Rational::from_unsigned(u128::from(scale), 1).map_err(|error| anyhow!("{error:?}"))?;
        let other = PrioDiscreteGaussian::new(scale_ratio).map_err(|error| anyhow!("{error:?}"))?;
        rows.push(row(&work, PRIO, samples / 5, || {
            black_box(other.sample(&mut generator));
        }));
        let arguments = [samples.to_string(), scale.to_string()];
        let question = Question {
            package: "opendp",
            script: "opendp_discrete",
            arguments: &arguments,
            limit: Duration::from_secs(120),
        };
        rows.extend(peers.rows(&work, &question));
    }
    for row in &mut rows {
        row.quality = row.seconds.map(|seconds| 1e-6 / seconds);
    }
    peers.measured(&rows);
    Ok(Section {
        title: "Exact discrete Gaussian noise".to_owned(),
        conditions: "The time is that of one sample, on one thread. This library and prio draw from ChaCha20, seeded; opendp \
                     seeds itself."
            .to_owned(),
        quality: "million samples a second".to_owned(),
        rows,
        findings: Vec::new(),
        measured: None,
        sources: Vec::new(),
    })
}

fn row(work: &str, who: &str, samples: usize, mut sample: impl FnMut()) -> Row {
    let spent = shortest(3, || (0..samples).for_each(|_| sample()));
    Row {
        work: work.to_owned(),
        who: who.to_owned(),
        seconds: Some(spent.as_secs_f64() / samples as f64),
        note: format!("shortest of 3 runs of {samples}, 1 thread"),
        ..Row::default()
    }
}
