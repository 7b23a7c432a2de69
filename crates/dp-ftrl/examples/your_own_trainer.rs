//! A trainer that knows nothing of this library's models: it makes gradients its own way, hands them over one person at
//! a time, and gets noisy updates back. Here it fits a straight line to measurements of a hundred people, five times
//! over; anything that can compute one gradient per person works the same way.

use dp_ftrl::{Clipping, CyclicBatches, PrivateGradients, Rates, Result, Sgd};
use dp_mechanisms::{Budget, Method, Problem, Relation, Seed};

/// Somebody else's model: `y = a x + b`, with the gradient of half the squared error.
struct Line;

impl Line {
    fn gradient(parameters: &[f64], (x, y): (f64, f64)) -> [f64; 2] {
        let residual = parameters[0] * x + parameters[1] - y;
        [residual * x, residual]
    }
}

/// Runs the story; a fixed seed makes it the same every time, which also makes it *not private*: use
/// `PrivateGradients::new` for real people.
pub(crate) fn main() -> Result<()> {
    let people: Vec<(f64, f64)> = (0..100)
        .map(|i| {
            let x = f64::from(i * 37 % 100) / 50.0 - 1.0;
            (x, 0.8 * x + 0.3 + 0.05 * f64::from(i % 5 - 2))
        })
        .collect();

    // Everybody takes part once an epoch, always in the same batch.
    let batches = CyclicBatches::new(people.len(), 20, 5)?;
    let mut optimizer = Sgd::new(2, 0.5, Rates::constant(0.3)?)?;
    // Noise that is correlated for exactly these iterates and this participation.
    let workload = optimizer.workload(batches.steps())?;
    let problem = Problem::new(workload, batches.steps())?.with_participation(batches.participation());
    let strategy = Method::OptimalToeplitz.build(&problem)?;
    let mut gradients = PrivateGradients::new(
        strategy,
        Clipping::flat(1.0)?,
        2,
        Relation::ZeroOut,
        batches.participation(),
        Budget::approximate(8.0, 1e-5)?,
        Seed::reproducible(1),
    )?;

    let mut update = [0.0; 2];
    for batch in batches.iter() {
        for person in &people[batch] {
            gradients.add(&Line::gradient(optimizer.parameters(), *person))?;
        }
        let step = gradients.finish(&mut update)?;
        // The batch size is public; the sum is noisy already, so everything from here on is free.
        update.iter_mut().for_each(|value| *value /= batches.batch_size() as f64);
        optimizer.update(&update)?;
        if step.step % batches.per_epoch() == 0 {
            let [slope, offset] = [optimizer.parameters()[0], optimizer.parameters()[1]];
            println!("after step {:2}: y = {slope:.2} x + {offset:.2}", step.step);
        }
    }
    let noise = gradients.plan().standard_deviation(batches.steps()).unwrap_or_default();
    println!(
        "without noise it would come close to y = 0.80 x + 0.30; the noise in each parameter is {:.3}",
        noise / batches.batch_size() as f64
    );
    println!(
        "guarantee: ε = 8, δ = 1e-5 for each person, whose part in all {} steps becomes zero",
        batches.steps()
    );
    Ok(())
}
