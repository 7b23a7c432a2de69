//! Models that learn classes: logistic regression, and small neural networks.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use dp_mechanisms::noise::UnitNoise;
use dp_mechanisms::{GaussianSource, Seed};
use ndarray::aview1;
use zeroize::Zeroizing;

use crate::data::Examples;
use crate::error::{Error, Result, check_length};

/// What a hidden unit does with the sum of its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// The hyperbolic tangent: bounded, so that no example's gradient explodes.
    Tanh,
    /// `max(0, x)`.
    Relu,
}

impl Activation {
    fn apply(self, sum: f64) -> f64 {
        match self {
            Self::Tanh => sum.tanh(),
            Self::Relu => sum.max(0.0),
        }
    }

    /// The derivative, by the value of the activation itself.
    fn derivative(self, value: f64) -> f64 {
        match self {
            Self::Tanh => 1.0 - value * value,
            Self::Relu => f64::from(value > 0.0),
        }
    }
}

impl fmt::Display for Activation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tanh => "tanh",
            Self::Relu => "relu",
        })
    }
}

impl FromStr for Activation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "tanh" => Ok(Self::Tanh),
            "relu" => Ok(Self::Relu),
            _ => Err(Error::Parse { what: "activation", text: text.to_owned(), expected: "tanh or relu" }),
        }
    }
}

/// Dense layers with a softmax at the end. Without hidden layers it is logistic regression.
///
/// `h_0 = x`, `h_l = a(W_l h_{l-1} + v_l)`, and the probability of class k is `e^{u_k} / Σ_j e^{u_j}` with
/// `u = W_L h_{L-1} + v_L`. The loss of an example is minus the logarithm of its label's probability.
///
/// The parameters are one flat vector, layer after layer, in each the rows of W and then v. The network holds its shape
/// only, so that one network serves any number of parameter vectors.
///
/// # Complexity
/// Two multiplications per parameter forward and two backward; nothing is allocated per example.
///
/// # Example
/// ```
/// use dp_ftrl::model::Network;
/// let network = Network::logistic(2, 3)?;
/// let mut gradient = vec![0.0; network.parameters()];
/// let loss = network.gradient(&[0.0; 9], &[1.0, 0.5], 2, &mut network.workspace(), &mut gradient)?;
/// assert!((loss - 3.0_f64.ln()).abs() < 1e-15, "three classes are equally likely at first");
/// # Ok::<(), dp_ftrl::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Inputs, hidden units of each layer, classes.
    widths: Vec<usize>,
    activation: Activation,
}

/// The largest network: every buffer of a training is as long, and there are up to forty of them.
pub const MOST_PARAMETERS: usize = 1 << 24;

/// Buffers for one example on its way through a [`Network`]. Wiped when they are dropped.
#[derive(Clone)]
pub struct Workspace {
    /// `h_1, …, h_L`, with the probabilities in place of `h_L`.
    values: Zeroizing<Vec<f64>>,
    /// The derivative of the loss by the sums in front of the activations.
    errors: Zeroizing<Vec<f64>>,
}

impl fmt::Debug for Workspace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Workspace").finish_non_exhaustive()
    }
}

/// How well a model does on examples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// The share of examples whose label is the most likely class.
    pub accuracy: f64,
    /// The mean loss.
    pub loss: f64,
}

impl Network {
    /// A network with the given numbers of hidden units, one per hidden layer.
    ///
    /// # Errors
    /// A width of zero, fewer than two classes, or more than [`MOST_PARAMETERS`].
    pub fn new(inputs: usize, hidden: &[usize], classes: usize, activation: Activation) -> Result<Self> {
        let mut widths = vec![inputs];
        widths.extend_from_slice(hidden);
        if widths.contains(&0) {
            return Err(Error::OutOfRange { what: "the width of a layer", value: 0.0, range: "at least 1" });
        }
        if classes < 2 {
            return Err(Error::OutOfRange {
                what: "the number of classes",
                value: classes as f64,
                range: "at least 2",
            });
        }
        widths.push(classes);
        let layer = |pair: &[usize]| pair[0].checked_add(1)?.checked_mul(pair[1]);
        let parameters = widths.windows(2).try_fold(0_usize, |sum, pair| sum.checked_add(layer(pair)?));
        if parameters.is_none_or(|parameters| parameters > MOST_PARAMETERS) {
            let layer = |pair: &[usize]| (pair[0] as f64 + 1.0) * pair[1] as f64;
            return Err(Error::OutOfRange {
                what: "the number of parameters of the network",
                value: widths.windows(2).map(layer).sum(),
                range: "at most 2^24 = 16777216; train larger models in shards",
            });
        }
        Ok(Self { widths, activation })
    }

    /// Multinomial logistic regression.
    ///
    /// # Errors
    /// As [`Network::new`].
    pub fn logistic(inputs: usize, classes: usize) -> Result<Self> {
        Self::new(inputs, &[], classes, Activation::Tanh)
    }

    /// The number of inputs, of hidden units in each layer, and of classes.
    pub fn widths(&self) -> &[usize] {
        &self.widths
    }

    /// The number of parameters of each layer, for [clipping](crate::Clipping) layer by layer.
    pub fn layers(&self) -> Vec<usize> {
        self.shapes().map(|(inputs, outputs)| (inputs + 1) * outputs).collect()
    }

    /// The number of parameters.
    pub fn parameters(&self) -> usize {
        self.shapes().map(|(inputs, outputs)| (inputs + 1) * outputs).sum()
    }

    /// Where training starts: zeros for logistic regression; for hidden layers, weights from N(0, 1/inputs), which
    /// break the symmetry between units. Public, and a function of the number alone.
    pub fn initial(&self, number: u64) -> Vec<f64> {
        let mut parameters = vec![0.0; self.parameters()];
        if self.widths.len() > 2 {
            GaussianSource::new(Seed::reproducible(number), parameters.len()).fill_row(0, &mut parameters);
            let mut rest = parameters.as_mut_slice();
            for (inputs, outputs) in self.shapes() {
                let (layer, behind) = rest.split_at_mut((inputs + 1) * outputs);
                let (weights, biases) = layer.split_at_mut(inputs * outputs);
                let scale = 1.0 / (inputs as f64).sqrt();
                weights.iter_mut().for_each(|weight| *weight *= scale);
                biases.fill(0.0);
                rest = behind;
            }
        }
        parameters
    }

    /// Buffers for [`Network::gradient`] and [`Network::loss`].
    pub fn workspace(&self) -> Workspace {
        let units = self.widths[1..].iter().sum();
        let buffer = || Zeroizing::new(vec![0.0; units]);
        Workspace { values: buffer(), errors: buffer() }
    }

    /// The loss of one example.
    ///
    /// # Errors
    /// Buffers of another shape, or a label that is no class.
    pub fn loss(
        &self,
        parameters: &[f64],
        features: &[f64],
        label: usize,
        workspace: &mut Workspace,
    ) -> Result<f64> {
        self.check(parameters, features, label, workspace)?;
        Ok(self.forward(parameters, features, label, workspace))
    }

    /// The loss of one example; writes its gradient by the parameters.
    ///
    /// # Errors
    /// Buffers of another shape, or a label that is no class; nothing is written then.
    pub fn gradient(
        &self,
        parameters: &[f64],
        features: &[f64],
        label: usize,
        workspace: &mut Workspace,
        gradient: &mut [f64],
    ) -> Result<f64> {
        self.check(parameters, features, label, workspace)?;
        check_length("the gradient", parameters.len(), gradient.len())?;
        let loss = self.forward(parameters, features, label, workspace);
        self.backward(parameters, features, label, workspace, gradient);
        Ok(loss)
    }

    /// Accuracy and mean loss over examples; ties go to the first class.
    ///
    /// # Errors
    /// No examples, or examples of another shape.
    pub fn score(&self, parameters: &[f64], examples: &Examples) -> Result<Score> {
        if examples.is_empty() {
            return Err(crate::data::DataError::Empty.into());
        }
        let mut workspace = self.workspace();
        let (mut correct, mut loss) = (0, 0.0);
        for (features, label) in examples.iter() {
            loss += self.loss(parameters, features, label, &mut workspace)?;
            let probabilities = &workspace.values[workspace.values.len() - self.classes()..];
            let rival = |other: usize, p: f64| {
                p > probabilities[label] || (p == probabilities[label] && other < label)
            };
            correct += usize::from(!probabilities.iter().enumerate().any(|(other, p)| rival(other, *p)));
        }
        let count = examples.len() as f64;
        Ok(Score { accuracy: correct as f64 / count, loss: loss / count })
    }

    /// Refuses examples of another shape.
    pub(crate) fn check_examples(&self, examples: &Examples) -> Result<()> {
        check_length("an example", self.widths[0], examples.width())?;
        if examples.classes() > self.classes() {
            return Err(Error::OutOfRange {
                what: "number of classes of the examples",
                value: examples.classes() as f64,
                range: "at most that of the model",
            });
        }
        Ok(())
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.widths[self.widths.len() - 1]
    }

    /// Inputs and outputs of each layer.
    fn shapes(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        self.widths.windows(2).map(|pair| (pair[0], pair[1]))
    }

    fn check(&self, parameters: &[f64], features: &[f64], label: usize, workspace: &Workspace) -> Result<()> {
        check_length("the list of parameters", self.parameters(), parameters.len())?;
        check_length("an example", self.widths[0], features.len())?;
        check_length("the workspace", self.widths[1..].iter().sum(), workspace.values.len())?;
        if label >= self.classes() {
            return Err(Error::OutOfRange {
                what: "label",
                value: label as f64,
                range: "below the number of classes",
            });
        }
        Ok(())
    }

    /// Fills the workspace's values and returns the loss.
    fn forward(&self, parameters: &[f64], features: &[f64], label: usize, workspace: &mut Workspace) -> f64 {
        let mut parameters = parameters;
        let mut done = 0;
        for (inputs, outputs) in self.shapes() {
            let (layer, rest) = parameters.split_at((inputs + 1) * outputs);
            let (weights, biases) = layer.split_at(inputs * outputs);
            let (before, after) = workspace.values.split_at_mut(done);
            let input = if done == 0 { features } else { &before[done - inputs..] };
            for ((sum, row), bias) in after.iter_mut().zip(weights.chunks_exact(inputs)).zip(biases) {
                *sum = aview1(row).dot(&aview1(input)) + bias;
            }
            parameters = rest;
            done += outputs;
            if !rest.is_empty() {
                after[..outputs].iter_mut().for_each(|value| *value = self.activation.apply(*value));
            }
        }
        softmax(&mut workspace.values[done - self.classes()..], label)
    }

    /// Fills the gradient from the workspace's values.
    fn backward(
        &self,
        parameters: &[f64],
        features: &[f64],
        label: usize,
        workspace: &mut Workspace,
        gradient: &mut [f64],
    ) {
        let Workspace { values, errors } = workspace;
        // The derivative of the loss by the sums of the last layer is the probabilities minus the label's unit vector.
        let mut first = values.len() - self.classes();
        errors[first..].copy_from_slice(&values[first..]);
        errors[first + label] -= 1.0;
        let mut end = parameters.len();
        for (inputs, outputs) in self.shapes().rev() {
            let start = end - (inputs + 1) * outputs;
            let input = if start == 0 { features } else { &values[first - inputs..first] };
            let (earlier, own) = errors.split_at_mut(first);
            let own = &own[..outputs];
            let (by_weights, by_biases) = gradient[start..end].split_at_mut(inputs * outputs);
            for (row, error) in by_weights.chunks_exact_mut(inputs).zip(own) {
                row.iter_mut().zip(input).for_each(|(entry, value)| *entry = error * value);
            }
            by_biases.copy_from_slice(own);
            if start > 0 {
                first -= inputs;
                let below = &mut earlier[first..];
                below.fill(0.0);
                for (row, error) in parameters[start..].chunks_exact(inputs).zip(own) {
                    below.iter_mut().zip(row).for_each(|(sum, weight)| *sum += error * weight);
                }
                let activations = &values[first..first + inputs];
                below
                    .iter_mut()
                    .zip(activations)
                    .for_each(|(sum, value)| *sum *= self.activation.derivative(*value));
            }
            end = start;
        }
    }
}

/// Turns the last sums into probabilities and returns `-ln p_label`, without overflow for any finite sums.
fn softmax(values: &mut [f64], label: usize) -> f64 {
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let margin = largest - values[label];
    values.iter_mut().for_each(|value| *value = (*value - largest).exp());
    let total: f64 = values.iter().sum();
    values.iter_mut().for_each(|value| *value /= total);
    total.ln() + margin
}
