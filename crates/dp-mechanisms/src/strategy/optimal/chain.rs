//! The heaviest set of steps of one person, made smooth.
//!
//! With `X = CᵀC` a person who takes part in the steps `x_1 < x_2 < …` moves the measurement by at most
//! `Σ |X_{x_m x_{m'}}|`. Products of neighbours are the edges of a chain. Those of steps that are l ≥ 2 places apart in the
//! set lie at least `l·b` apart in time, and are charged to the later step j by the largest of them,
//! `q_l(j) = max_{i ≤ j - l·b} |X_ij|`. The heaviest chain is then found step by step, and never below the truth
//! ([`crate::sensitivity::dense`] has the same bound without smoothing). Near the optimum little is lost, for there the products
//! hardly depend on the earlier step: people would choose the heavier ones.
//!
//! A maximum becomes smooth as `ln Σ e^{βx} / β`; its slopes are the probabilities of a random set that prefers heavy ones.

use ndarray::{Array1, Array2, ArrayView2};

/// Terms that are smaller than e to this power of the largest do not count.
const NEGLIGIBLE: f64 = -36.0;

/// The sets of at most `times` steps, any two at least `separation` apart, in matrices of few bands.
#[derive(Debug, Clone, Copy)]
pub(in crate::strategy) struct Chains {
    pub(in crate::strategy) times: usize,
    pub(in crate::strategy) separation: usize,
    /// Columns that are so far apart do not overlap.
    pub(in crate::strategy) bands: usize,
}

/// The smooth maximum, and its slope in every entry of the matrix.
pub(super) struct Heaviest {
    pub(super) value: f64,
    pub(super) slopes: Array2<f64>,
}

/// `ln(e^a + e^b)`.
fn log_add(a: f64, b: f64) -> f64 {
    let (large, small) = if a > b { (a, b) } else { (b, a) };
    if small - large < NEGLIGIBLE { large } else { large + (small - large).exp().ln_1p() }
}

/// `ln Σ e^{x_i}`, minus infinity for nothing.
fn log_sum(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = values.clone().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    let share = |value: f64| if value - largest < NEGLIGIBLE { 0.0 } else { (value - largest).exp() };
    largest + values.map(share).sum::<f64>().ln()
}

impl Chains {
    /// The magnitude of a product, smooth at 0, and its slope.
    fn magnitude(value: f64, sharpness: f64) -> (f64, f64) {
        let magnitude = value.hypot(0.1 / sharpness);
        (magnitude, value / magnitude)
    }

    /// How sharply the largest product is chosen: it counts many times in a set.
    fn charge_sharpness(&self, sharpness: f64) -> f64 {
        4.0 * sharpness * self.times as f64
    }

    /// The earlier steps that can be a neighbour of step j and overlap with it.
    fn overlapping(&self, j: usize) -> std::ops::Range<usize> {
        let end = (j + 1).saturating_sub(self.separation);
        (j + 1).saturating_sub(self.bands).min(end)..end
    }

    /// For every step j and place difference l the logarithm behind `q_l(j)`: zero for l < 2 and where nothing overlaps.
    fn charges(&self, matrix: ArrayView2<'_, f64>, sharpness: f64) -> Array2<f64> {
        let steps = matrix.nrows();
        let mut logs = Array2::zeros((self.times, steps));
        let sharper = self.charge_sharpness(sharpness);
        for j in 0..steps {
            let mut sum = 0.0_f64;
            for i in self.overlapping(j).take_while(|i| j - i >= 2 * self.separation) {
                sum = log_add(sum, sharper * Self::magnitude(matrix[[j, i]], sharpness).0);
                let distance = j - i;
                if distance.is_multiple_of(self.separation) && distance / self.separation < self.times {
                    logs[[distance / self.separation, j]] = sum;
                }
            }
        }
        logs
    }

    /// The weight of step j as the m-th of its set, in units of the sharpness.
    pub(super) fn nodes(&self, matrix: ArrayView2<'_, f64>, sharpness: f64) -> Array2<f64> {
        self.nodes_of(matrix, &self.charges(matrix, sharpness), sharpness)
    }

    fn nodes_of(&self, matrix: ArrayView2<'_, f64>, charges: &Array2<f64>, sharpness: f64) -> Array2<f64> {
        let steps = matrix.nrows();
        let mut nodes = Array2::zeros((self.times, steps));
        let unit = 2.0 * sharpness / self.charge_sharpness(sharpness);
        for j in 0..steps {
            let mut weight = sharpness * matrix[[j, j]];
            for m in 0..self.times {
                weight += unit * charges[[m, j]];
                nodes[[m, j]] = weight;
            }
        }
        nodes
    }

    /// The weight of neighbours, in units of the sharpness.
    pub(super) fn edge(&self, matrix: ArrayView2<'_, f64>, i: usize, j: usize, sharpness: f64) -> f64 {
        let overlap = i.abs_diff(j) < self.bands;
        if overlap { 2.0 * sharpness * Self::magnitude(matrix[[j, i]], sharpness).0 } else { 0.0 }
    }

    /// The smooth maximum over all chains.
    ///
    /// # Complexity
    /// O(n · times) for every band beyond the separation.
    pub(super) fn heaviest(&self, matrix: ArrayView2<'_, f64>, sharpness: f64) -> Heaviest {
        let (steps, times) = (matrix.nrows(), self.times);
        let charges = self.charges(matrix, sharpness);
        let nodes = self.nodes_of(matrix, &charges, sharpness);
        let edges = Array2::from_shape_fn((steps, steps), |(j, i)| {
            if self.overlapping(j).contains(&i) { self.edge(matrix, i, j, sharpness) } else { 0.0 }
        });
        // The logarithm of the sum over all chains of m + 1 steps that end at j; `before` leaves the last step's weight out.
        let mut ending = nodes.clone();
        let mut before = Array2::from_elem((times, steps), 0.0);
        for m in 1..times {
            let mut far = f64::NEG_INFINITY;
            for j in 0..steps {
                let near = self.overlapping(j);
                if let Some(i) = j.checked_sub(self.bands.max(self.separation)) {
                    far = log_add_or(far, ending[[m - 1, i]]);
                }
                let terms = near.map(|i| ending[[m - 1, i]] + edges[[j, i]]).chain([far]);
                let sum = log_sum(terms);
                before[[m, j]] = sum;
                ending[[m, j]] += sum;
            }
        }
        let total = log_sum(ending.iter().copied());
        let probability = |logarithm: f64| if logarithm < NEGLIGIBLE { 0.0 } else { logarithm.exp() };
        let mut taken = ending.mapv(|ending| probability(ending - total));
        let mut slopes = Array2::zeros((steps, steps));
        for m in (1..times).rev() {
            let mut far = f64::NEG_INFINITY;
            for j in (0..steps).rev() {
                // Chains that go on beyond the bands, from j to some later step.
                let later = j + self.bands.max(self.separation);
                if later < steps && taken[[m, later]] > 0.0 {
                    far = log_add_or(far, taken[[m, later]].ln() - before[[m, later]]);
                }
                taken[[m - 1, j]] += probability(ending[[m - 1, j]] + far);
                if taken[[m, j]] <= 0.0 {
                    continue;
                }
                for i in self.overlapping(j) {
                    let share = probability(ending[[m - 1, i]] + edges[[j, i]] - before[[m, j]]);
                    if share > 0.0 {
                        slopes[[j, i]] += taken[[m, j]] * share;
                        taken[[m - 1, i]] += taken[[m, j]] * share;
                    }
                }
            }
        }
        self.charge(matrix, sharpness, &charges, &taken, &mut slopes);
        for j in 0..steps {
            for i in self.overlapping(j) {
                slopes[[j, i]] *= Self::magnitude(matrix[[j, i]], sharpness).1;
                slopes[[i, j]] = slopes[[j, i]];
            }
            slopes[[j, j]] = taken.column(j).sum();
        }
        Heaviest { value: total / sharpness, slopes }
    }

    /// Adds the slopes of the charges, given how often every step is taken as the m-th.
    fn charge(
        &self,
        matrix: ArrayView2<'_, f64>,
        sharpness: f64,
        charges: &Array2<f64>,
        taken: &Array2<f64>,
        slopes: &mut Array2<f64>,
    ) {
        let sharper = self.charge_sharpness(sharpness);
        for j in 0..matrix.nrows() {
            // How often step j has a step l places before it.
            let mut counts: Array1<f64> = taken.column(j).to_owned();
            for l in (1..self.times).rev() {
                counts[l - 1] += counts[l];
            }
            for i in self.overlapping(j).take_while(|i| j - i >= 2 * self.separation) {
                let logarithm = sharper * Self::magnitude(matrix[[j, i]], sharpness).0;
                for l in 2..=((j - i) / self.separation).min(self.times - 1) {
                    let share = logarithm - charges[[l, j]];
                    if share > NEGLIGIBLE {
                        slopes[[j, i]] += counts[l] * share.exp();
                    }
                }
            }
        }
    }
}

/// [`log_add`] where there may be nothing yet.
fn log_add_or(sum: f64, value: f64) -> f64 {
    if sum == f64::NEG_INFINITY { value } else { log_add(sum, value) }
}
