//! Minimization of a smooth function: limited-memory BFGS with a weak Wolfe line search.

use std::collections::VecDeque;

/// When to stop, and how much of the curvature to remember.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The largest number of iterations.
    pub iterations: usize,
    /// Stop when an iteration lowers the value by less than this fraction of it.
    pub relative_decrease: f64,
    /// The number of past steps that describe the curvature.
    pub memory: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { iterations: 200, relative_decrease: 1e-12, memory: 12 }
    }
}

/// Where the search ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Minimum {
    /// The best point found.
    pub point: Vec<f64>,
    /// The value there.
    pub value: f64,
    /// The iterations used.
    pub iterations: usize,
}

/// Minimizes `objective` from `start`. The objective writes its gradient and returns its value; a value that is
/// not finite marks a point outside the domain, from which the line search steps back. An error ends the search: by one the
/// objective can stop it.
///
/// # Complexity
/// One or two evaluations an iteration and O(memory · n) besides.
///
/// # Errors
/// Those of the objective.
///
/// # Example
/// ```
/// use std::convert::Infallible;
/// use dp_linalg::minimize::{Options, lbfgs};
/// let bowl = |x: &[f64], g: &mut [f64]| {
///     g[0] = 2.0 * (x[0] - 1.0);
///     g[1] = 20.0 * (x[1] + 2.0);
///     Ok::<f64, Infallible>((x[0] - 1.0).powi(2) + 10.0 * (x[1] + 2.0).powi(2))
/// };
/// let Ok(minimum) = lbfgs(bowl, vec![0.0, 0.0], Options::default());
/// assert!((minimum.point[0] - 1.0).abs() < 1e-6 && (minimum.point[1] + 2.0).abs() < 1e-6);
/// ```
pub fn lbfgs<E>(
    mut objective: impl FnMut(&[f64], &mut [f64]) -> Result<f64, E>,
    start: Vec<f64>,
    options: Options,
) -> Result<Minimum, E> {
    let length = start.len();
    let mut point = start;
    let mut gradient = vec![0.0; length];
    let mut value = objective(&point, &mut gradient)?;
    let mut history: VecDeque<Pair> = VecDeque::with_capacity(options.memory);
    let mut trial = vec![0.0; length];
    let mut trial_gradient = vec![0.0; length];
    let mut used = 0;
    while used < options.iterations && value.is_finite() {
        used += 1;
        let mut direction = descent_direction(&gradient, &history);
        let mut slope = dot(&direction, &gradient);
        if !(slope < 0.0) {
            history.clear();
            direction = gradient.iter().map(|g| -g).collect();
            slope = dot(&direction, &gradient);
            if !(slope < 0.0) {
                break;
            }
        }
        // Bracket a step that decreases enough (Armijo) and where the slope has flattened (weak Wolfe).
        let first = if history.is_empty() { (1.0 / dot(&gradient, &gradient).sqrt()).min(1.0) } else { 1.0 };
        let (mut low, mut high, mut step) = (0.0, f64::INFINITY, first);
        let mut flat = None;
        let mut evaluate = |step: f64, trial: &mut [f64], trial_gradient: &mut [f64]| {
            for ((t, p), d) in trial.iter_mut().zip(&point).zip(&direction) {
                *t = p + step * d;
            }
            objective(trial, trial_gradient)
        };
        for _ in 0..60 {
            let candidate = evaluate(step, &mut trial, &mut trial_gradient)?;
            if candidate <= value + 1e-4 * step * slope {
                if dot(&direction, &trial_gradient) >= 0.9 * slope {
                    flat = Some(candidate);
                    break;
                }
                low = step;
            } else {
                high = step;
            }
            if high - low <= 1e-14 * step {
                break;
            }
            step = if high.is_finite() { low + (high - low) / 2.0 } else { 2.0 * step };
        }
        // Without a flat point the longest step that decreased enough has to do.
        let candidate = match flat {
            Some(candidate) => candidate,
            None if low > 0.0 => evaluate(low, &mut trial, &mut trial_gradient)?,
            None => break,
        };
        let change: Vec<f64> = trial.iter().zip(&point).map(|(t, p)| t - p).collect();
        let bend: Vec<f64> = trial_gradient.iter().zip(&gradient).map(|(t, g)| t - g).collect();
        let curvature = dot(&change, &bend);
        if curvature > 0.0 {
            if history.len() == options.memory.max(1) {
                history.pop_front();
            }
            history.push_back(Pair { change, bend, curvature });
        }
        std::mem::swap(&mut point, &mut trial);
        std::mem::swap(&mut gradient, &mut trial_gradient);
        let decrease = value - candidate;
        value = candidate;
        if decrease <= options.relative_decrease * value.abs() {
            break;
        }
    }
    Ok(Minimum { point, value, iterations: used })
}

/// One remembered step: how the point moved and how the gradient bent.
struct Pair {
    change: Vec<f64>,
    bend: Vec<f64>,
    curvature: f64,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// The two-loop recursion: minus the inverse Hessian estimate times the gradient.
fn descent_direction(gradient: &[f64], history: &VecDeque<Pair>) -> Vec<f64> {
    let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut weights = Vec::with_capacity(history.len());
    for pair in history.iter().rev() {
        let weight = dot(&pair.change, &direction) / pair.curvature;
        for (d, b) in direction.iter_mut().zip(&pair.bend) {
            *d -= weight * b;
        }
        weights.push(weight);
    }
    if let Some(last) = history.back() {
        let scale = last.curvature / dot(&last.bend, &last.bend);
        direction.iter_mut().for_each(|d| *d *= scale);
    }
    for (pair, weight) in history.iter().zip(weights.iter().rev()) {
        let correction = weight - dot(&pair.bend, &direction) / pair.curvature;
        for (d, c) in direction.iter_mut().zip(&pair.change) {
            *d += correction * c;
        }
    }
    direction
}

/// The gradient of a function of few variables by central differences; returns the value at the point.
///
/// # Errors
/// Those of the function.
pub fn numeric_gradient<E>(
    mut function: impl FnMut(&[f64]) -> Result<f64, E>,
    point: &[f64],
    step: f64,
    gradient: &mut [f64],
) -> Result<f64, E> {
    let mut moved = point.to_vec();
    for index in 0..point.len() {
        moved[index] = point[index] + step;
        let above = function(&moved)?;
        moved[index] = point[index] - step;
        let below = function(&moved)?;
        moved[index] = point[index];
        gradient[index] = (above - below) / (2.0 * step);
    }
    function(point)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn rosenbrock(x: &[f64], gradient: &mut [f64]) -> f64 {
        gradient.fill(0.0);
        let mut value = 0.0;
        for i in 0..x.len() - 1 {
            let (a, b) = (1.0 - x[i], x[i + 1] - x[i] * x[i]);
            value += a * a + 100.0 * b * b;
            gradient[i] += -2.0 * a - 400.0 * x[i] * b;
            gradient[i + 1] += 200.0 * b;
        }
        value
    }

    #[test]
    fn a_curved_valley_is_followed_to_its_end() {
        let options = Options { iterations: 500, relative_decrease: 0.0, ..Options::default() };
        for length in [2, 10, 50] {
            let valley = |x: &[f64], gradient: &mut [f64]| Ok::<_, Infallible>(rosenbrock(x, gradient));
            let Ok(minimum) = lbfgs(valley, vec![-1.2; length], options);
            for x in &minimum.point {
                assert!((x - 1.0).abs() < 1e-5, "{minimum:?}");
            }
        }
    }

    #[test]
    fn points_outside_the_domain_are_left_alone() {
        // -ln x + x has its minimum at 1; the first unit step from 0.01 leaves the domain.
        let function = |x: &[f64], g: &mut [f64]| -> Result<f64, Infallible> {
            g[0] = 1.0 - 1.0 / x[0];
            Ok(if x[0] > 0.0 { x[0] - x[0].ln() } else { f64::NAN })
        };
        let Ok(minimum) = lbfgs(function, vec![0.01], Options::default());
        assert!((minimum.point[0] - 1.0).abs() < 1e-5, "{minimum:?}");
    }

    #[test]
    fn an_error_of_the_objective_ends_the_search() {
        for most in [0, 1, 7] {
            let mut evaluations = 0;
            let limited = |x: &[f64], gradient: &mut [f64]| {
                if evaluations == most {
                    return Err("enough");
                }
                evaluations += 1;
                Ok(rosenbrock(x, gradient))
            };
            assert_eq!(lbfgs(limited, vec![-1.2; 4], Options::default()), Err("enough"));
            assert_eq!(evaluations, most);
        }
    }

    #[test]
    fn numeric_gradients_agree_with_exact_ones() {
        let point = [0.3, -0.7, 1.1];
        let (mut exact, mut numeric) = ([0.0; 3], [0.0; 3]);
        let value = rosenbrock(&point, &mut exact);
        let mut scratch = [0.0; 3];
        let function = |x: &[f64]| Ok::<_, Infallible>(rosenbrock(x, &mut scratch));
        assert_eq!(numeric_gradient(function, &point, 1e-5, &mut numeric), Ok(value));
        for (a, b) in exact.iter().zip(&numeric) {
            assert!((a - b).abs() < 1e-6 * (1.0 + a.abs()));
        }
    }
}
