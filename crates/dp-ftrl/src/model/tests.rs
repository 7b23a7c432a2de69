//! Gradients against finite differences and closed forms, and models that do not fall over.

use proptest::prelude::*;

use super::*;

/// The largest difference between the gradient and central differences.
fn gap(network: &Network, parameters: &[f64], features: &[f64], label: usize) -> f64 {
    let mut workspace = network.workspace();
    let mut gradient = vec![f64::NAN; network.parameters()];
    let loss = network.gradient(parameters, features, label, &mut workspace, &mut gradient).unwrap();
    assert_eq!(loss, network.loss(parameters, features, label, &mut workspace).unwrap());
    let step = 1e-5;
    let mut moved = parameters.to_vec();
    let mut worst: f64 = 0.0;
    for index in 0..parameters.len() {
        let mut at = |shift: f64| {
            moved[index] = parameters[index] + shift;
            network.loss(&moved, features, label, &mut workspace).unwrap()
        };
        let difference = (at(step) - at(-step)) / (2.0 * step);
        moved[index] = parameters[index];
        worst = worst.max((difference - gradient[index]).abs());
    }
    worst
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn gradients_are_derivatives(
        number in any::<u64>(),
        features in proptest::collection::vec(-1.0_f64..1.0, 5),
        hidden in proptest::collection::vec(1_usize..6, 0..3),
        label in 0_usize..3,
    ) {
        // The error of central differences is h²/6 times a third derivative of order 1, and rounding 1e-16/h: both are
        // below 1e-9. A forgotten factor or a transposed weight is off by the size of an entry.
        let network = Network::new(5, &hidden, 3, Activation::Tanh).unwrap();
        let mut parameters = vec![0.0; network.parameters()];
        GaussianSource::new(Seed::reproducible(number), parameters.len()).fill_row(0, &mut parameters);
        let gap = gap(&network, &parameters, &features, label);
        prop_assert!(gap < 1e-8, "{hidden:?}: {gap}");
    }
}

#[test]
fn rectified_gradients_are_derivatives_away_from_the_kink() {
    let network = Network::new(3, &[4, 3], 2, Activation::Relu).unwrap();
    // Sums that are certainly not within the step of zero: features of 1 and weights with distinct odd tenths.
    let parameters: Vec<f64> =
        (0..network.parameters()).map(|i| 0.1 * f64::from((i * 7 % 11) as u32) - 0.43).collect();
    assert!(gap(&network, &parameters, &[1.0, 0.5, 0.25], 1) < 1e-8);
    // Both branches are taken.
    let mut workspace = network.workspace();
    network.loss(&parameters, &[1.0, 0.5, 0.25], 1, &mut workspace).unwrap();
    let active = workspace.values[..7].iter().filter(|value| **value > 0.0).count();
    assert!((1..7).contains(&active), "{active} of 7 units are active");
}

#[test]
fn the_softmax_gradient_has_its_closed_form() {
    // Two classes, one feature x = 2, weights (1, -1), biases (0, ln 3): sums 2 and ln 3 - 2.
    let network = Network::logistic(1, 2).unwrap();
    let parameters = [1.0, -1.0, 0.0, 3.0_f64.ln()];
    let mut gradient = [0.0; 4];
    let loss = network.gradient(&parameters, &[2.0], 1, &mut network.workspace(), &mut gradient).unwrap();
    let odds = 3.0 * (-4.0_f64).exp();
    let second = odds / (1.0 + odds);
    assert!((loss + second.ln()).abs() < 1e-14);
    let expected = [2.0 * (1.0 - second), -2.0 * (1.0 - second), 1.0 - second, second - 1.0];
    for (entry, expected) in gradient.iter().zip(expected) {
        assert!((entry - expected).abs() < 1e-15, "{gradient:?}");
    }
}

#[test]
fn huge_sums_neither_overflow_nor_divide_by_zero() {
    let network = Network::logistic(1, 2).unwrap();
    let mut gradient = [0.0; 4];
    let parameters = [1e300, -1e300, 0.0, 0.0];
    let loss = network.gradient(&parameters, &[1.0], 1, &mut network.workspace(), &mut gradient).unwrap();
    assert_eq!((loss, gradient), (2e300, [1.0, -1.0, 1.0, -1.0]));
}

#[test]
fn scores_count_the_most_likely_class() {
    let network = Network::logistic(1, 2).unwrap();
    let mut examples = Examples::new(1, 2).unwrap();
    for (feature, label) in [(0.0, 0), (1.0, 1), (0.25, 1), (0.75, 0)] {
        examples.push(&[feature], label).unwrap();
    }
    // The second class wins above one half.
    let score = network.score(&[0.0, 8.0, 0.0, -4.0], &examples).unwrap();
    assert_eq!(score.accuracy, 0.5);
    let losses = [4.0, 4.0, -2.0, -2.0].map(|margin: f64| (-margin).exp().ln_1p());
    assert!((score.loss - losses.iter().sum::<f64>() / 4.0).abs() < 1e-14);
    // A tie goes to the first class, so an untrained model is no better than always answering it.
    assert_eq!(network.score(&[0.0; 4], &examples).unwrap().accuracy, 0.5);
    assert!(network.score(&[0.0; 4], &Examples::new(1, 2).unwrap()).is_err());
}

#[test]
fn hidden_layers_start_apart_and_repeatably() {
    let network = Network::new(100, &[50], 10, Activation::Tanh).unwrap();
    assert_eq!(network.layers(), [5050, 510]);
    let initial = network.initial(1);
    assert_eq!(initial, network.initial(1));
    assert_ne!(initial, network.initial(2));
    // 5000 weights of variance 1/100: the sum of squares is 50 with a standard deviation of 1; four of them fail with
    // probability 6e-5, a wrong scale by far more.
    let squares: f64 = initial[..5000].iter().map(|weight| weight * weight).sum();
    assert!((squares - 50.0).abs() < 4.0, "{squares}");
    assert!(initial[5000..5050].iter().chain(&initial[5550..]).all(|bias| *bias == 0.0));
    assert!(Network::logistic(64, 10).unwrap().initial(1).iter().all(|parameter| *parameter == 0.0));
}

#[test]
fn wrong_shapes_are_refused() {
    assert!(Network::new(0, &[], 2, Activation::Tanh).is_err());
    assert!(Network::new(1, &[0], 2, Activation::Tanh).is_err());
    assert!(Network::logistic(1, 1).is_err());
    let network = Network::logistic(2, 2).unwrap();
    let other = Network::logistic(2, 3).unwrap();
    let mut gradient = vec![7.0; 6];
    let workspace = &mut network.workspace();
    assert!(network.gradient(&[0.0; 5], &[0.0; 2], 0, workspace, &mut gradient).is_err());
    assert!(network.gradient(&[0.0; 6], &[0.0; 3], 0, workspace, &mut gradient).is_err());
    assert!(network.gradient(&[0.0; 6], &[0.0; 2], 2, workspace, &mut gradient).is_err());
    assert!(network.gradient(&[0.0; 6], &[0.0; 2], 0, workspace, &mut gradient[..5]).is_err());
    assert!(network.gradient(&[0.0; 6], &[0.0; 2], 0, &mut other.workspace(), &mut gradient).is_err());
    assert_eq!(gradient, [7.0; 6]);
    assert_eq!("relu".parse::<Activation>().unwrap().to_string(), "relu");
    assert!("step".parse::<Activation>().is_err());
}
