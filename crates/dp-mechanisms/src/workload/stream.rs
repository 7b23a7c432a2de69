//! Workloads and their inverses, one step at a time.

use dp_linalg::toeplitz::OnlineToeplitz;
use dp_linalg::{forget, series};

use super::{Recurrence, Workload};
use crate::error::{Error, Result, check_count};

/// Applies a workload to a stream of vectors, in the state the table of [`crate::workload`] names.
pub struct WorkloadStream {
    workload: Workload,
    steps: usize,
    dimension: usize,
    step: usize,
    state: State,
}

enum State {
    /// One running value per coordinate.
    Running { decay: f64, sums: Vec<f64> },
    /// The window as suffix sums of the previous block of `width` inputs and a running sum of the current one:
    /// nothing is ever subtracted, so no error accumulates.
    Ring { ring: Vec<f64>, current: Vec<f64> },
    /// Velocity and position of momentum.
    Momentum { beta: f64, velocity: Vec<f64>, position: Vec<f64> },
    /// No finite recurrence: an online convolution, and the inputs so far.
    Convolution { operator: Box<OnlineToeplitz>, history: Vec<f64> },
}

impl Drop for State {
    fn drop(&mut self) {
        match self {
            Self::Running { sums, .. } => forget(sums),
            Self::Ring { ring: first, current: second }
            | Self::Momentum { velocity: first, position: second, .. } => {
                forget(first);
                forget(second);
            }
            // The operator forgets its own part.
            Self::Convolution { history, .. } => forget(history),
        }
    }
}

impl WorkloadStream {
    pub(super) fn new(workload: &Workload, steps: usize, dimension: usize) -> Result<Self> {
        check_count("steps", steps)?;
        check_count("dimension", dimension)?;
        let zeros = || vec![0.0; dimension];
        let state = match workload.recurrence() {
            Recurrence::First { decay } => State::Running { decay, sums: zeros() },
            Recurrence::Window { width } => {
                State::Ring { ring: vec![0.0; dimension * width.min(steps)], current: zeros() }
            }
            Recurrence::Second { beta } => State::Momentum { beta, velocity: zeros(), position: zeros() },
            Recurrence::None => {
                let weights = workload.series(steps)?.unwrap_or_default();
                State::Convolution {
                    operator: Box::new(OnlineToeplitz::new(&weights, dimension)?),
                    history: Vec::with_capacity(steps * dimension),
                }
            }
        };
        Ok(Self { workload: workload.clone(), steps, dimension, step: 0, state })
    }

    /// The number of steps taken so far.
    pub fn step(&self) -> usize {
        self.step
    }

    /// Takes the input of the next step and writes the exact statistic after it.
    ///
    /// # Errors
    /// A wrong number of coordinates, or a step past the horizon; the state is then unchanged.
    pub fn push(&mut self, input: &[f64], output: &mut [f64]) -> Result<()> {
        check_step(self.step, self.steps, self.dimension, input, output)?;
        output.copy_from_slice(input);
        self.apply_in_place(output)
    }

    /// The same for vectors of one coordinate.
    #[inline]
    pub(crate) fn push_number(&mut self, input: f64) -> Result<f64> {
        if let State::Running { decay, sums } = &mut self.state
            && let [sum] = &mut sums[..]
            && self.step < self.steps
        {
            *sum = *sum * *decay + input;
            let value = *sum * (1.0 / self.workload.divisor(self.step));
            self.step += 1;
            return Ok(value);
        }
        self.push_row(input)
    }

    #[inline(never)]
    fn push_row(&mut self, input: f64) -> Result<f64> {
        let mut output = [0.0];
        self.push(&[input], &mut output)?;
        Ok(output[0])
    }

    /// Takes the inputs of the next steps, one row after the other, and leaves the statistics in their place.
    ///
    /// # Errors
    /// Values that are not whole rows, or steps past the horizon; the state is then unchanged. A row that the numeric core
    /// refuses ends the block before it.
    pub fn apply_in_place(&mut self, rows: &mut [f64]) -> Result<()> {
        check_rows(self.step, self.steps, self.dimension, rows)?;
        let dimension = self.dimension;
        let first = self.step;
        self.step += rows.len() / dimension;
        if let (State::Running { decay, sums }, 1) = (&mut self.state, dimension) {
            let (mut sum, decay) = (sums[0], *decay);
            if decay == 1.0 {
                // The same numbers, and a step waits for one operation of the step before.
                for value in &mut *rows {
                    sum += *value;
                    *value = sum;
                }
            } else {
                for value in &mut *rows {
                    sum = sum * decay + *value;
                    *value = sum;
                }
            }
            sums[0] = sum;
            if self.workload.is_average() {
                for (step, value) in (first..).zip(rows) {
                    *value *= 1.0 / self.workload.divisor(step);
                }
            }
            return Ok(());
        }
        let rows = rows.chunks_exact_mut(dimension);
        match &mut self.state {
            State::Running { decay, sums } => {
                for (step, row) in (first..).zip(rows) {
                    let scale = 1.0 / self.workload.divisor(step);
                    for (sum, value) in sums.iter_mut().zip(row) {
                        *sum = *sum * *decay + *value;
                        *value = *sum * scale;
                    }
                }
            }
            State::Ring { ring, current } => {
                let width = ring.len() / dimension;
                for (step, row) in (first..).zip(rows) {
                    let slot = step % width;
                    if slot == 0 {
                        // A block is full: turn its inputs into suffix sums, and start the next block.
                        for index in (0..ring.len() - dimension).rev() {
                            ring[index] += ring[index + dimension];
                        }
                        current.fill(0.0);
                    }
                    let older = (slot + 1) * dimension;
                    for (j, value) in row.iter_mut().enumerate() {
                        current[j] += *value;
                        ring[slot * dimension + j] = *value;
                        *value = current[j] + ring.get(older + j).copied().unwrap_or(0.0);
                    }
                }
            }
            State::Momentum { beta, velocity, position } => {
                for (step, row) in (first..).zip(rows) {
                    let rate = self.workload.rate(step);
                    for ((value, velocity), position) in
                        row.iter_mut().zip(velocity.iter_mut()).zip(position.iter_mut())
                    {
                        *velocity = *beta * *velocity + *value;
                        *position += rate * *velocity;
                        *value = *position;
                    }
                }
            }
            State::Convolution { operator, history } => {
                for (step, row) in (first..).zip(rows) {
                    let start = history.len();
                    history.extend_from_slice(row);
                    if let Err(error) = operator.push(&history[start..], row) {
                        history.truncate(start);
                        self.step = step;
                        return Err(error.into());
                    }
                }
            }
        }
        Ok(())
    }

    /// Everything the stream knows, as numbers. It contains the true data: treat it as a secret.
    pub fn state(&self) -> Vec<f64> {
        match &self.state {
            State::Running { sums, .. } => sums.clone(),
            State::Ring { ring, current } => [ring.as_slice(), current].concat(),
            State::Momentum { velocity, position, .. } => [velocity.as_slice(), position].concat(),
            State::Convolution { history, .. } => history.clone(),
        }
    }

    /// Continues from a saved state.
    ///
    /// # Errors
    /// A state of another length, or a step past the horizon.
    pub fn restore(&mut self, step: usize, saved: &[f64]) -> Result<()> {
        let refuse = |expected: usize| {
            Err(Error::Dimension { what: "the saved workload state", expected, actual: saved.len() })
        };
        if step > self.steps {
            return Err(Error::HorizonReached { horizon: self.steps });
        }
        match &mut self.state {
            State::Running { sums, .. } => {
                if saved.len() != sums.len() {
                    return refuse(sums.len());
                }
                sums.copy_from_slice(saved);
            }
            State::Ring { ring: first, current: second }
            | State::Momentum { velocity: first, position: second, .. } => {
                if saved.len() != first.len() + second.len() {
                    return refuse(first.len() + second.len());
                }
                let (left, right) = saved.split_at(first.len());
                first.copy_from_slice(left);
                second.copy_from_slice(right);
            }
            State::Convolution { history, .. } => {
                if saved.len() != step * self.dimension || !history.is_empty() {
                    return refuse(step * self.dimension);
                }
                let mut output = vec![0.0; self.dimension];
                for input in saved.chunks_exact(self.dimension) {
                    self.push(input, &mut output)?;
                }
            }
        }
        self.step = step;
        Ok(())
    }
}

/// The true state never leaves through a debug print.
impl std::fmt::Debug for WorkloadStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("WorkloadStream")
            .field("workload", &self.workload)
            .field("steps", &self.steps)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

/// Undoes a workload: given what was released at each step, recovers the input of that step.
pub struct InverseStream {
    workload: Workload,
    steps: usize,
    dimension: usize,
    step: usize,
    state: InverseState,
}

enum InverseState {
    /// The previous sum.
    Previous { decay: f64, sums: Vec<f64> },
    /// The last `width` inputs and the previous release.
    Ring { ring: Vec<f64>, previous: Vec<f64> },
    /// The previous position and velocity.
    Momentum { beta: f64, position: Vec<f64>, velocity: Vec<f64> },
    /// The inverse series, applied online, and room for the release it is applied to.
    Convolution { operator: Box<OnlineToeplitz>, release: Vec<f64> },
}

impl Drop for InverseState {
    fn drop(&mut self) {
        match self {
            Self::Previous { sums: values, .. } | Self::Convolution { release: values, .. } => forget(values),
            Self::Ring { ring: first, previous: second }
            | Self::Momentum { position: first, velocity: second, .. } => {
                forget(first);
                forget(second);
            }
        }
    }
}

impl InverseStream {
    pub(super) fn new(workload: &Workload, steps: usize, dimension: usize) -> Result<Self> {
        check_count("steps", steps)?;
        check_count("dimension", dimension)?;
        let zeros = || vec![0.0; dimension];
        let state = match workload.recurrence() {
            Recurrence::First { decay } => InverseState::Previous { decay, sums: zeros() },
            Recurrence::Window { width } => {
                InverseState::Ring { ring: vec![0.0; dimension * width.min(steps)], previous: zeros() }
            }
            Recurrence::Second { beta } => {
                InverseState::Momentum { beta, position: zeros(), velocity: zeros() }
            }
            Recurrence::None => {
                let weights = workload.series(steps)?.unwrap_or_default();
                let inverse = series::inverse(&weights, steps)?;
                let operator = Box::new(OnlineToeplitz::new(&inverse, dimension)?);
                InverseState::Convolution { operator, release: zeros() }
            }
        };
        Ok(Self { workload: workload.clone(), steps, dimension, step: 0, state })
    }

    /// Takes the release of the next step and writes the input that explains it.
    ///
    /// # Errors
    /// A wrong number of coordinates, or a step past the horizon; the state is then unchanged.
    pub fn push(&mut self, release: &[f64], input: &mut [f64]) -> Result<()> {
        check_step(self.step, self.steps, self.dimension, release, input)?;
        input.copy_from_slice(release);
        self.apply_in_place(input)
    }

    /// Takes the releases of the next steps, one row after the other, and leaves the inputs in their place.
    ///
    /// # Errors
    /// Values that are not whole rows, or steps past the horizon; the state is then unchanged. A row that the numeric core
    /// refuses ends the block before it.
    pub fn apply_in_place(&mut self, rows: &mut [f64]) -> Result<()> {
        check_rows(self.step, self.steps, self.dimension, rows)?;
        let first = self.step;
        self.step += rows.len() / self.dimension;
        for (step, row) in (first..).zip(rows.chunks_exact_mut(self.dimension)) {
            match &mut self.state {
                InverseState::Previous { decay, sums } => {
                    let divisor = self.workload.divisor(step);
                    for (before, value) in sums.iter_mut().zip(row) {
                        let sum = *value * divisor;
                        *value = sum - *decay * *before;
                        *before = sum;
                    }
                }
                InverseState::Ring { ring, previous } => {
                    let width = ring.len() / self.dimension;
                    let slot = &mut ring[step % width * self.dimension..];
                    for ((value, past), previous) in row.iter_mut().zip(slot).zip(previous) {
                        let release = *value;
                        *value = release - *previous + *past;
                        *past = *value;
                        *previous = release;
                    }
                }
                InverseState::Momentum { beta, position, velocity } => {
                    let rate = self.workload.rate(step);
                    for ((value, position), velocity) in row.iter_mut().zip(position).zip(velocity) {
                        let release = *value;
                        let now = (release - *position) / rate;
                        *value = now - *beta * *velocity;
                        *velocity = now;
                        *position = release;
                    }
                }
                InverseState::Convolution { operator, release } => {
                    release.copy_from_slice(row);
                    if let Err(error) = operator.push(release, row) {
                        self.step = step;
                        return Err(error.into());
                    }
                }
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for InverseStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("InverseStream").field("workload", &self.workload).finish_non_exhaustive()
    }
}

/// What every streaming step checks before it changes anything.
fn check_step(step: usize, steps: usize, dimension: usize, input: &[f64], output: &[f64]) -> Result<()> {
    if step >= steps {
        return Err(Error::HorizonReached { horizon: steps });
    }
    if input.len() != dimension {
        return Err(Error::Dimension { what: "the input", expected: dimension, actual: input.len() });
    }
    if output.len() != dimension {
        return Err(Error::Dimension {
            what: "the output buffer",
            expected: dimension,
            actual: output.len(),
        });
    }
    Ok(())
}

/// The same for several steps at once.
fn check_rows(step: usize, steps: usize, dimension: usize, rows: &[f64]) -> Result<()> {
    if !rows.len().is_multiple_of(dimension) {
        let expected = rows.len().next_multiple_of(dimension);
        return Err(Error::Dimension { what: "a block of rows", expected, actual: rows.len() });
    }
    if rows.len() / dimension > steps - step {
        return Err(Error::HorizonReached { horizon: steps });
    }
    Ok(())
}
