//! The shape of a weighted tree: how many children its nodes have, and which part of its budget a node spends on itself.

use std::ops::Range;

/// The ℓ1 norm of every column of C, in units of which all weights are whole numbers.
pub(super) const BUDGET: u32 = 1 << 12;

/// The most levels of nodes: with one more the gain over one less is below a thousandth even at `2^40` steps.
const MOST_LEVELS: usize = 12;

/// No node spends a larger part of its budget on its own measurement.
const LARGEST_FRACTION: f64 = 0.95;

/// All nodes of a height.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Level {
    /// The number of leaves below a node.
    pub(super) size: usize,
    /// For each node of a parent from left to right, the part of its budget that it spends on its own measurement. As many
    /// as a parent has children; at the top as many as the horizon needs, or none where nodes there are not measured. Leaves spend all of it.
    pub(super) fractions: Vec<f64>,
    /// For every budget that each child of a parent may have, the variance of the sum of all their estimates.
    spread: Vec<f64>,
}

/// A node of which all leaves have arrived: its weight in C, and how its sum is estimated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Completed {
    pub(super) level: usize,
    /// In units of 1/[`BUDGET`]; 0 if the node is not measured.
    pub(super) weight: u32,
    /// The weight of its own measurement in the estimate; the rest is that of the sum of its children.
    pub(super) own: f64,
    /// The variance of the estimate, in units of [`BUDGET`]².
    pub(super) variance: f64,
}

/// The tree over a number of steps: its leaves from left to right, below as many nodes of the highest level as it takes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    steps: usize,
    /// Leaves first.
    pub(super) levels: Vec<Level>,
}

impl Shape {
    /// The best shape that a descent over the numbers of children finds for the mean squared error of prefix sums.
    ///
    /// # Complexity
    /// O(log n) numbers; about a hundred drafts of each some thousand operations, whatever the number of steps.
    pub(super) fn fitted(steps: usize) -> Self {
        Self::new(steps, Draft::fitted(steps, Ends::One))
    }

    /// The best shape for windows of a width that lies well within the horizon: blocks of about that width, side by side, of
    /// which a window takes the end of one and the beginning of the next. Nothing above them is measured.
    pub(super) fn for_windows(steps: usize, width: usize) -> Self {
        let mut blocks = Draft::fitted(width, Ends::Both);
        blocks.fractions.push(Vec::new());
        Self::new(steps, blocks)
    }

    fn new(steps: usize, draft: Draft) -> Self {
        let mut shape = Self { steps, levels: Vec::new() };
        let mut size = 1;
        for (level, fractions) in draft.fractions.into_iter().enumerate() {
            let children = fractions.len();
            shape.levels.push(Level { size, fractions, spread: Vec::new() });
            let spread =
                |budget| (0..children).map(|digit| shape.complete(level, digit, budget).variance).sum();
            shape.levels[level].spread = (0..=BUDGET).map(spread).collect();
            size = size.saturating_mul(children);
        }
        shape
    }

    pub(super) fn steps(&self) -> usize {
        self.steps
    }

    /// The weight of a node that becomes complete. Something is always left for those below.
    fn weight(&self, level: usize, digit: usize, budget: u32) -> u32 {
        if level == 0 {
            return budget;
        }
        let fraction = self.levels[level].fractions.get(digit).copied().unwrap_or(0.0);
        ((fraction * f64::from(budget)).round() as u32).min(budget.saturating_sub(1))
    }

    /// The estimate of a complete node from its measurement and those below it, which are independent.
    fn complete(&self, level: usize, digit: usize, budget: u32) -> Completed {
        let weight = self.weight(level, digit, budget);
        let precision = f64::from(weight) * f64::from(weight);
        if level == 0 {
            return Completed { level, weight, own: 1.0, variance: 1.0 / precision };
        }
        let below = self.levels[level - 1].spread[(budget - weight) as usize];
        let own = precision * below / (precision * below + 1.0);
        Completed { level, weight, own, variance: below * (1.0 - own) }
    }

    /// The largest sum of squared weights on the way to a leaf, in units of 1/[`BUDGET`]².
    pub(super) fn longest_column(&self) -> u64 {
        // Below complete nodes, for every budget of the children of a parent.
        let mut complete: Vec<Vec<u64>> = Vec::new();
        for (level, nodes) in self.levels.iter().enumerate() {
            let of = |budget: u32| {
                (0..nodes.fractions.len())
                    .map(|digit| self.column(level, digit, budget, complete.last()))
                    .max()
                    .unwrap_or(0)
            };
            complete.push((0..=BUDGET).map(of).collect());
        }
        // A node that never becomes complete hands all of its budget down.
        let mut rest = self.steps;
        let mut longest = 0;
        for (level, nodes) in self.levels.iter().enumerate().rev() {
            let below = level.checked_sub(1).and_then(|below| complete.get(below));
            for digit in 0..rest / nodes.size {
                longest = longest.max(self.column(level, digit, BUDGET, below));
            }
            rest %= nodes.size;
        }
        longest
    }

    fn column(&self, level: usize, digit: usize, budget: u32, below: Option<&Vec<u64>>) -> u64 {
        let weight = self.weight(level, digit, budget);
        let rest = below.map_or(0, |below| below[(budget - weight) as usize]);
        u64::from(weight) * u64::from(weight) + rest
    }
}

/// Where a stream stands in the tree: the open node of every level.
#[derive(Debug, Clone)]
pub(super) struct Path {
    step: usize,
    /// The measured nodes that are complete.
    rows: usize,
    /// By level, how many earlier nodes the open node's parent has, and the budget of the open node.
    open: Vec<(usize, u32)>,
}

impl Path {
    pub(super) fn new(shape: &Shape) -> Self {
        let mut path = Self { step: 0, rows: 0, open: vec![(0, BUDGET); shape.levels.len()] };
        path.share(shape, shape.levels.len());
        path
    }

    /// After so many steps, without knowing how many measurements there were.
    #[cfg_attr(not(test), allow(dead_code))]
    pub(super) fn after(shape: &Shape, step: usize) -> Self {
        let digit = |level: usize| {
            let Level { size, fractions, .. } = &shape.levels[level];
            let index = step / size;
            if level + 1 < shape.levels.len() { index % fractions.len() } else { index }
        };
        let open = (0..shape.levels.len()).map(|level| (digit(level), BUDGET)).collect();
        let mut path = Self { step, rows: 0, open };
        path.share(shape, shape.levels.len());
        path
    }

    /// The estimate of the open node of a level, once it is complete.
    pub(super) fn open(&self, shape: &Shape, level: usize) -> Completed {
        let (digit, budget) = self.open[level];
        shape.complete(level, digit, budget)
    }

    /// The number of steps taken.
    pub(super) fn step(&self) -> usize {
        self.step
    }

    /// The number of measurements so far.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The number of levels whose open node the next step completes.
    fn completed_by_next(&self, shape: &Shape) -> usize {
        let full = |(level, (digit, _)): &(usize, &(usize, u32))| {
            level + 1 < shape.levels.len() && digit + 1 == shape.levels[*level].fractions.len()
        };
        1 + self.open.iter().enumerate().take_while(full).count()
    }

    /// The nodes that the next step completes, from the leaf upwards.
    pub(super) fn next<'a>(&self, shape: &'a Shape) -> impl Iterator<Item = Completed> + use<'_, 'a> {
        (0..self.completed_by_next(shape)).map(|level| {
            let (digit, budget) = self.open[level];
            shape.complete(level, digit, budget)
        })
    }

    /// The steps since the beginning of the open node of a level.
    pub(super) fn leaves(&self, shape: &Shape, level: usize) -> Range<usize> {
        let size = shape.levels[level].size;
        self.step / size * size..self.step + 1
    }

    /// Takes the next step.
    pub(super) fn advance(&mut self, shape: &Shape) {
        self.rows += self.next(shape).filter(|node| node.weight > 0).count();
        let completed = self.completed_by_next(shape);
        self.step += 1;
        for level in &mut self.open[..completed - 1] {
            level.0 = 0;
        }
        self.open[completed - 1].0 += 1;
        self.share(shape, completed);
    }

    /// Hands the budget of the open nodes below `top` down, less what those that will be complete spend themselves.
    fn share(&mut self, shape: &Shape, top: usize) {
        for level in (1..top).rev() {
            let (digit, budget) = self.open[level];
            let size = shape.levels[level].size;
            let will_complete = (self.step / size + 1).saturating_mul(size) <= shape.steps;
            let weight = if will_complete { shape.weight(level, digit, budget) } else { 0 };
            self.open[level - 1].1 = budget - weight;
        }
    }
}

/// Fractions for given numbers of children, and the mean squared error that they lead to.
struct Draft {
    /// The number of children of the nodes of each level but the highest, leaves' parents first.
    branching: Vec<usize>,
    /// By level, and by position among the children of a parent.
    fractions: Vec<Vec<f64>>,
    error: f64,
}

/// What is read off a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// Sums from the first leaf on.
    One,
    /// Sums from the first leaf on, and up to the last one.
    Both,
}

/// How often the fractions of all levels are adapted to each other.
const ROUNDS: usize = 12;

impl Draft {
    /// The best that a descent over the numbers of children finds.
    fn fitted(steps: usize, ends: Ends) -> Self {
        let mut best = Self::new(steps, &[], ends);
        for levels in 1..MOST_LEVELS {
            let even = (steps as f64).powf(1.0 / (levels as f64 + 1.0)).round() as usize;
            if even < 3 {
                break;
            }
            let mut local = Self::new(steps, &vec![even; levels], ends);
            let mut improved = true;
            while improved {
                improved = false;
                for level in 0..levels {
                    for change in [even.div_ceil(4).cast_signed(), -even.div_ceil(4).cast_signed(), 1, -1] {
                        let mut branching = local.branching.clone();
                        branching[level] = branching[level].saturating_add_signed(change);
                        if branching[level] < 2 {
                            continue;
                        }
                        let draft = Self::new(steps, &branching, ends);
                        if draft.error < local.error * (1.0 - 1e-6) {
                            local = draft;
                            improved = true;
                        }
                    }
                }
            }
            if local.error < best.error {
                best = local;
            } else if levels > 2 {
                break;
            }
        }
        best
    }

    /// # Mathematics
    /// Let the subtree of a node with budget 1 have the variance V of its total and the sum I of the variances of all
    /// prefixes inside. With the fraction f spent on itself and S, W those of its children together,
    /// `V = 1/(f² + (1-f)²/S)` and `I = W/(1-f)²`. The node's estimate is in use for the r steps in which its later siblings
    /// are open, so the siblings together have `W = Σ (r V + I)` and `S = Σ V`, and the whole error is `W + S` at the
    /// top. Given how the error grows with S and W (found by going back down), every f has a problem of its own:
    /// minimize `(r + S'/W')V + I`. Doing so for all levels in turn converges in a few rounds. Where sums up to the last leaf are read
    /// as well, W is that of both, and r the same for all siblings: the steps in which the others are open.
    fn new(steps: usize, branching: &[usize], ends: Ends) -> Self {
        let sizes: Vec<usize> = std::iter::once(1)
            .chain(branching.iter().scan(1_usize, |size, children| {
                *size = size.saturating_mul(*children);
                Some(*size)
            }))
            .collect();
        let levels = sizes.len();
        let top = steps.div_ceil(sizes[levels - 1]).max(1);
        let mut best = Self { branching: branching.to_vec(), fractions: Vec::new(), error: f64::INFINITY };
        let mut slopes: Vec<f64> = sizes.iter().map(|size| 8.0 * *size as f64).collect();
        slopes[levels - 1] = 1.0;
        for _ in 0..ROUNDS {
            let (mut spread, mut inside) = (1.0, 0.0);
            let mut fractions = Vec::with_capacity(levels);
            let mut below = Vec::with_capacity(levels);
            for level in 0..levels {
                let children = branching.get(level).copied().unwrap_or(top);
                let whole = sizes[level] * children;
                let end = if level + 1 == levels && ends == Ends::One { steps } else { whole };
                let siblings = Siblings { level, size: sizes[level], end, ends, spread, inside };
                let own: Vec<f64> =
                    (0..children).map(|digit| siblings.best_fraction(digit, slopes[level])).collect();
                (spread, inside) = siblings.together(&own);
                below.push(siblings);
                fractions.push(own);
            }
            let error = (inside + spread) / steps as f64;
            if error < best.error {
                best.error = error;
                best.fractions.clone_from(&fractions);
            }
            let (mut by_spread, mut by_inside) = (1.0, 1.0);
            for level in (1..levels).rev() {
                slopes[level] = by_spread / by_inside;
                (by_spread, by_inside) = below[level].derivatives(&fractions[level], by_spread, by_inside);
            }
        }
        best
    }
}

/// The children of a node that are all alike but for their fractions.
struct Siblings {
    level: usize,
    size: usize,
    /// The number of leaves of their parent.
    end: usize,
    ends: Ends,
    /// What their own children have together, S and W.
    spread: f64,
    inside: f64,
}

impl Siblings {
    /// The number of steps in which the estimate of a sibling is in use.
    fn uses(&self, digit: usize) -> f64 {
        let before = if self.ends == Ends::Both { 0 } else { digit };
        self.end.saturating_sub((before + 1) * self.size) as f64
    }

    /// V and I.
    fn node(&self, fraction: f64) -> (f64, f64) {
        if self.level == 0 {
            return (1.0, 0.0);
        }
        let rest = (1.0 - fraction) * (1.0 - fraction);
        (1.0 / (fraction * fraction + rest / self.spread), self.inside / rest)
    }

    /// The fraction with the least `(r + slope)·V + I`.
    fn best_fraction(&self, digit: usize, slope: f64) -> f64 {
        if self.level == 0 {
            return 1.0;
        }
        let importance = self.uses(digit) + slope;
        let cost = |fraction: f64| {
            let (variance, inside) = self.node(fraction);
            importance * variance + inside
        };
        // The cost first rises where the own measurement is worth less than what it takes, falls, and rises again.
        let grid = 16;
        let at = |index: usize| LARGEST_FRACTION * index as f64 / f64::from(grid);
        let least = (0..=grid as usize).min_by(|one, other| cost(at(*one)).total_cmp(&cost(at(*other))));
        let least = least.unwrap_or(0);
        let (mut low, mut high) = (at(least.saturating_sub(1)), at((least + 1).min(grid as usize)));
        for _ in 0..24 {
            let third = (high - low) / 3.0;
            if cost(low + third) < cost(high - third) { high -= third } else { low += third }
        }
        let inner = f64::midpoint(low, high);
        if cost(inner) < cost(0.0) { inner } else { 0.0 }
    }

    /// S and W of the siblings. The last of them may lack leaves, and then takes part in W by as much as it has.
    fn together(&self, fractions: &[f64]) -> (f64, f64) {
        let (mut spread, mut inside) = (0.0, 0.0);
        for (digit, fraction) in fractions.iter().enumerate() {
            let (variance, within) = self.node(*fraction);
            let there = ((self.end - digit * self.size) as f64 / self.size as f64).min(1.0);
            spread += variance * there;
            inside += self.uses(digit) * variance + within * there;
        }
        (spread, inside)
    }

    /// How the whole error grows with S and W of the level below, given how it grows with those of this level.
    fn derivatives(&self, fractions: &[f64], by_spread: f64, by_inside: f64) -> (f64, f64) {
        let (mut spread, mut inside) = (0.0, 0.0);
        for (digit, fraction) in fractions.iter().enumerate() {
            let (variance, _) = self.node(*fraction);
            let rest = (1.0 - fraction) * (1.0 - fraction);
            let change = rest * (variance / self.spread) * (variance / self.spread);
            spread += (by_inside * self.uses(digit) + by_spread) * change;
            inside += by_inside / rest;
        }
        (spread, inside)
    }
}
