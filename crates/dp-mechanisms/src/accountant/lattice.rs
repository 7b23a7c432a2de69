//! Loss distributions on a lattice: one that is never more private than the pair, and one that is never less.
//!
//! Everything follows from one formula. With `U = e^{-L}` and L distributed as under P, independent over the steps,
//!
//! `δ(ε) = E (1 - e^ε U_1 U_2 … U_k)_+`,
//!
//! and the expectation over all steps but one is a convex decreasing function of the U of that step. Therefore:
//!
//! - **Upper.** Moving mass to smaller U, and splitting mass so that the mean of U stays what it is (Jensen's inequality),
//!   never makes δ smaller, for any number of steps and whatever the other steps are. Each cell `[a, b]` of losses is split
//!   between its two ends so that its masses under P and Q stay the same; mass beyond the cells is given an infinite loss.
//!   The privacy curve `h(t) = E (1 - tU)_+` of one step, as a function of `t = e^ε`, becomes the chord of the curve over
//!   every cell. The error is of second order in the width of the cells: in the middle of a smooth density a cell adds
//!   `width²/6` to the variance of the loss.
//! - **Lower.** A convex function below h that is linear between lattice points, with `h(0)` at most the mass and at least
//!   `(mass - t·mass under Q)_+` everywhere, is the curve of a distribution that makes δ smaller, again for any number of
//!   steps (it is below in the convex order, or with less mass). The chord over a cell with masses `w_a`, `w_b` at its ends
//!   is above h by at most
//!
//!   `gap = w_a w_b (1 - e^{-(b-a)}) / (w_a + w_b e^{-(b-a)})`,
//!
//!   attained when the cell is one atom (Jensen again). Lowering every lattice point by the larger gap of its two cells
//!   therefore puts the interpolation below h; its lower convex envelope on the lattice is below it and convex. At one node, that
//!   of the largest gaps, the masses of both cells are moved to the node instead: it is lowered to the smaller one of the tangents
//!   to h at its neighbours, `w_a (e^{width} - 1)` or `w_b (1 - e^{-width})` below, and its neighbours are not lowered for it. The
//!   lattice is shifted so that most of the losses of a step that hardly anybody enters stand on such a node. Towards the
//!   ends, where the curve is closer to its trivial lower bound than the gap, it is replaced by that bound.

/// A cell `[low, high]` of losses, in units of the lattice, and its masses when they are moved to its ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    pub(super) low: i64,
    pub(super) high: i64,
    pub(super) at_low: f64,
    pub(super) at_high: f64,
}

impl Cell {
    /// A cell without mass.
    pub(super) fn empty(low: i64, high: i64) -> Self {
        Self { low, high, at_low: 0.0, at_high: 0.0 }
    }

    /// The largest distance of the chord from the curve.
    fn gap(&self, unit: f64) -> f64 {
        let ratio = (-((self.high - self.low) as f64) * unit).exp();
        let down = self.at_low + self.at_high * ratio;
        if down > 0.0 { self.at_low * self.at_high * (1.0 - ratio) / down } else { 0.0 }
    }
}

/// Mass whose loss is somewhere in `[low, high]`, not necessarily between two neighbouring lattice points.
#[derive(Debug, Clone, Copy)]
pub(super) struct Atom {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) mass: f64,
}

impl Atom {
    /// Mass with exactly this loss.
    pub(super) fn at(loss: f64, mass: f64) -> Self {
        Self { low: loss, high: loss, mass }
    }
}

/// The losses of one pair, sorted into cells.
#[derive(Debug, Clone)]
pub(super) struct Cells {
    /// The distance of two lattice points.
    pub(super) unit: f64,
    /// The loss of lattice point 0.
    pub(super) offset: f64,
    /// Cells without gaps between them, from the lowest.
    pub(super) row: Vec<Cell>,
    pub(super) atoms: Vec<Atom>,
    /// A bound of the mass that is in no cell.
    pub(super) left_out: f64,
}

/// A loss distribution on the lattice.
#[derive(Debug, Clone, Default)]
pub(super) struct Lattice {
    /// Losses in units of the lattice, and their masses.
    pub(super) entries: Vec<(i64, f64)>,
    /// The mass of the infinite loss.
    pub(super) infinite: f64,
}

/// Atoms closer to a lattice point than this, relative to their size, stand on it; the loss is corrected at the end.
pub(super) const ON_THE_LATTICE: f64 = 1e-14;

/// Masses below this are counted as infinite losses from above, and not at all from below.
const DUST: f64 = 1e-290;

impl Cells {
    /// The cells with their mass divided by `mass`, and their losses counted from the offset.
    pub(super) fn centred(mut self, mass: f64) -> Self {
        for cell in &mut self.row {
            cell.at_low /= mass;
            cell.at_high /= mass;
        }
        Self { offset: 0.0, left_out: self.left_out / mass, ..self }
    }

    /// The lattice point on which a loss stands, if it does.
    fn on_lattice(&self, loss: f64) -> Option<i64> {
        let nearest = (loss / self.unit).round();
        ((loss - nearest * self.unit).abs() <= ON_THE_LATTICE * loss.abs()).then_some(nearest as i64)
    }

    /// Masses at the ends of the cells; the first has index 0.
    fn nodes(&self) -> Vec<(i64, f64)> {
        let mut nodes: Vec<(i64, f64)> = Vec::with_capacity(self.row.len() + 1);
        for cell in &self.row {
            match nodes.last_mut() {
                Some(last) if last.0 == cell.low => last.1 += cell.at_low,
                _ => nodes.push((cell.low, cell.at_low)),
            }
            nodes.push((cell.high, cell.at_high));
        }
        nodes
    }

    /// A distribution whose δ is never below that of the pair.
    pub(super) fn upper(&self) -> Lattice {
        let mut entries = self.nodes();
        for atom in &self.atoms {
            if let Some(index) = self.on_lattice(atom.high) {
                entries.push((index, atom.mass));
                continue;
            }
            let low = (atom.high / self.unit).floor();
            let rise = -((low * self.unit - atom.high).exp_m1());
            let up = (atom.mass * rise / -(-self.unit).exp_m1()).min(atom.mass);
            entries.push((low as i64, atom.mass - up));
            entries.push((low as i64 + 1, up));
        }
        // Masses at the end of what f64 can hold are not worth a place on the lattice.
        let dust: f64 = entries.iter().map(|(_, mass)| *mass).filter(|mass| *mass < DUST).sum();
        entries.retain(|(_, mass)| *mass >= DUST);
        Lattice { entries, infinite: self.left_out + dust }
    }

    /// A distribution whose δ is never above that of the pair.
    pub(super) fn lower(&self) -> Lattice {
        let mut entries = self.lowered_nodes();
        for atom in &self.atoms {
            let below = || (atom.low / self.unit).floor() as i64;
            entries.push((self.on_lattice(atom.low).unwrap_or_else(below), atom.mass));
        }
        entries.retain(|(_, mass)| *mass >= DUST);
        Lattice { entries, infinite: 0.0 }
    }

    fn lowered_nodes(&self) -> Vec<(i64, f64)> {
        let nodes = self.nodes();
        let count = nodes.len();
        if count < 3 {
            return Vec::new();
        }
        let gaps: Vec<f64> = self.row.iter().map(|cell| cell.gap(self.unit) * (1.0 + 1e-9)).collect();
        let width = |cell: usize| (nodes[cell + 1].0 - nodes[cell].0) as f64 * self.unit;
        // The node to which the masses of both its cells are moved, that of the largest gaps, and by how much that lowers it.
        let joint =
            (1..count - 1).max_by(|a, b| (gaps[a - 1] + gaps[*a]).total_cmp(&(gaps[b - 1] + gaps[*b])));
        let joined = joint.map_or(0.0, |node| {
            let up = self.row[node - 1].at_low * width(node - 1).exp_m1();
            let down = self.row[node].at_high * -(-width(node)).exp_m1();
            up.max(down)
        });
        let gap = |cell: usize| match joint {
            Some(node) if cell + 1 == node || cell == node => 0.0,
            _ => gaps.get(cell).copied().unwrap_or(0.0),
        };
        // By how much each node must be lowered.
        let needed = |node: usize| {
            let cells = node.checked_sub(1).map_or(0.0, gap).max(gap(node));
            if joint == Some(node) { cells.max(joined) } else { cells }
        };
        // The distance of the curve from zero, and from the line of its first piece.
        let mut from_zero = vec![0.0; count];
        let mut mass = 0.0;
        for node in (0..count - 1).rev() {
            mass += nodes[node + 1].1;
            let fall = (-width(node)).exp();
            from_zero[node] = (1.0 - fall) * mass + fall * from_zero[node + 1];
        }
        let mut from_line = vec![0.0; count];
        mass = 0.0;
        for node in 1..count {
            mass += nodes[node - 1].1;
            let growth = width(node - 1).exp_m1();
            from_line[node] = growth * mass + (1.0 + growth) * from_line[node - 1];
        }
        let fits = |node: usize| from_zero[node] >= needed(node) && from_line[node] >= needed(node);
        // The run of such nodes with the largest area between the curve and its trivial bound.
        let (mut best, mut best_area) = (0..0, 0.0);
        let mut start = 0;
        while start < count {
            let end = (start..count).find(|node| !fits(*node)).unwrap_or(count);
            let area = |node: usize| from_zero[node].min(from_line[node]) * width(node.min(count - 2));
            let run: f64 = (start..end).map(area).sum();
            // Below it the curve is the line, which must not be negative there, and above it zero.
            let held = end > start
                && from_line[start] <= from_zero[start]
                && from_zero[end - 1] <= from_line[end - 1];
            if held && run > best_area {
                (best, best_area) = (start..end, run);
            }
            start = end + 1;
        }
        if best.len() < 2 {
            return Vec::new();
        }
        let (first, last) = (best.start, best.end - 1);
        let lowered_by = |node: usize| match node {
            _ if node <= first => from_line[node],
            _ if node >= last => from_zero[node],
            _ => needed(node),
        };
        // Lowering the curve at one node alone moves mass to it from both neighbours.
        let lowered = (first..=last).map(|node| {
            let (index, mut mass) = nodes[node];
            if node > 0 {
                mass += (lowered_by(node) - lowered_by(node - 1)) / -(-width(node - 1)).exp_m1();
            }
            if node + 1 < count {
                mass += (lowered_by(node) - lowered_by(node + 1)) / width(node).exp_m1();
            }
            (index, mass)
        });
        convex_envelope(lowered, self.unit)
    }
}

/// The masses of the lower convex envelope of a curve that is given by its masses, of which some may be negative: a node
/// with negative mass is left out, and its mass split between its neighbours so that both totals stay.
fn convex_envelope(nodes: impl Iterator<Item = (i64, f64)>, unit: f64) -> Vec<(i64, f64)> {
    let mut kept: Vec<(i64, f64)> = Vec::new();
    for node in nodes {
        kept.push(node);
        while let [.., (left, _), (middle, mass), (right, _)] = kept[..] {
            if mass >= 0.0 {
                break;
            }
            let up = ((middle - left) as f64 * unit).exp_m1();
            let down = -(-((right - middle) as f64) * unit).exp_m1();
            let top = kept.len() - 1;
            kept[top - 2].1 += mass * down / (up + down);
            kept[top].1 += mass * up / (up + down);
            kept.remove(top - 1);
        }
    }
    // The ends are not negative but for rounding.
    kept.retain(|(_, mass)| *mass > 0.0);
    kept
}
