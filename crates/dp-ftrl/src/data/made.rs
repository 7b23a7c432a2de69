//! Sixty thousand examples from a recipe: a large data set that anybody can make again.

use dp_mechanisms::noise::UnitNoise;
use dp_mechanisms::{GaussianSource, Seed};

use super::{DataError, Examples};

const CLASSES: usize = 10;
const FEATURES: usize = 64;
/// How far the centres of the clouds are from each other, in each feature and in units of their width.
const SPREAD: f64 = 0.25;
/// The seed of the recipe.
const SEED: u64 = 2026;

/// How many of the made examples are for training, and how many for testing.
pub const MADE: (usize, usize) = (50_000, 10_000);

/// 50,000 examples to train with and 10,000 to test with, of 64 features and ten classes that overlap.
///
/// With z the standard normal rows of the reproducible seed 2026, the centre of class c is row c times ¼, example i belongs to
/// class `i mod 10` and is `½ + (centre + z_{10 + i})/6`, moved into [0, 1]. About three of four examples lie nearest to the
/// centre of their own class, and no model can know more.
///
/// # Errors
/// None.
pub fn made() -> Result<(Examples, Examples), DataError> {
    let mut source = GaussianSource::new(Seed::reproducible(SEED), FEATURES);
    let mut centres = vec![0.0; CLASSES * FEATURES];
    for (class, centre) in centres.chunks_exact_mut(FEATURES).enumerate() {
        source.fill_row(class, centre);
    }
    let mut examples = Examples::new(FEATURES, CLASSES)?;
    let mut features = [0.0; FEATURES];
    for index in 0..MADE.0 + MADE.1 {
        let class = index % CLASSES;
        source.fill_row(CLASSES + index, &mut features);
        for (feature, centre) in features.iter_mut().zip(&centres[class * FEATURES..]) {
            *feature = (0.5 + (SPREAD * centre + *feature) / 6.0).clamp(0.0, 1.0);
        }
        examples.push(&features, class)?;
    }
    examples.split_at(MADE.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_what_the_recipe_says() {
        let (train, test) = made().unwrap();
        assert_eq!((train.len(), test.len(), train.width(), test.classes()), (50_000, 10_000, 64, 10));
        let mut source = GaussianSource::new(Seed::reproducible(2026), 64);
        let (mut centre, mut row) = ([0.0; 64], [0.0; 64]);
        source.fill_row(3, &mut centre);
        source.fill_row(10 + 43, &mut row);
        let (features, label) = train.get(43).unwrap();
        assert_eq!(label, 3);
        assert_eq!(features[5], (0.5 + (0.25 * centre[5] + row[5]) / 6.0).clamp(0.0, 1.0));
        // The rule that knows the centres: what nobody can beat by much.
        let mut centres = vec![[0.0; 64]; 10];
        for (class, centre) in centres.iter_mut().enumerate() {
            source.fill_row(class, centre);
            centre.iter_mut().for_each(|value| *value = 0.5 + 0.25 * *value / 6.0);
        }
        let distance = |centre: &[f64; 64], features: &[f64]| -> f64 {
            centre.iter().zip(features).map(|(c, x)| (c - x) * (c - x)).sum()
        };
        let right = test.iter().filter(|(features, label)| {
            let own = distance(&centres[*label], features);
            centres.iter().all(|centre| distance(centre, features) >= own)
        });
        let share = right.count() as f64 / 1e4;
        assert!((0.65..0.85).contains(&share), "{share}");
    }
}
