//! Training: that it learns, that its noise is what the strategies promise, and that it can be repeated and continued.

use dp_ftrl::data::{Examples, digits};
use dp_ftrl::model::{Activation, Network};
use dp_ftrl::train::{
    Aim, Comparison, Contestant, ModelFile, Noise, Optimizer, Place, Privacy, Schedule, Settings, Trainer,
};
use dp_ftrl::{Clipping, Error, iterates};
use dp_mechanisms::{Budget, Participation, Relation, StateFile, Workload};

const SETTINGS: Settings = Settings {
    epochs: 1,
    batch: 4,
    rate: 0.1,
    schedule: Schedule::Constant,
    optimizer: Optimizer::Sgd,
    momentum: 0.9,
    clip: 1.0,
    quantile: None,
    per_layer: false,
    order: 1,
};

fn few_digits(count: usize) -> Examples {
    digits().unwrap().0.split_at(count).unwrap().0
}

fn logistic() -> Network {
    Network::logistic(64, 10).unwrap()
}

fn privacy(trainer: &Trainer, name: &str, aim: Aim) -> Privacy {
    let strategy = trainer.strategy(name.parse().unwrap(), aim).unwrap();
    Privacy { strategy, relation: Relation::ZeroOut, budget: Budget::approximate(4.0, 1e-5).unwrap() }
}

/// The accuracy of the rule that learns one mean image per class and answers with the nearest.
fn nearest_mean(train: &Examples, test: &Examples) -> f64 {
    let mut means = vec![vec![0.0; train.width()]; train.classes()];
    let mut counts = vec![0.0; train.classes()];
    for (features, label) in train.iter() {
        counts[label] += 1.0;
        means[label].iter_mut().zip(features).for_each(|(sum, value)| *sum += value);
    }
    for (mean, count) in means.iter_mut().zip(&counts) {
        mean.iter_mut().for_each(|sum| *sum /= count);
    }
    let distance =
        |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f64>() };
    let right = test.iter().filter(|(features, label)| {
        let own = distance(features, &means[*label]);
        means.iter().all(|mean| distance(features, mean) >= own)
    });
    right.count() as f64 / test.len() as f64
}

#[test]
fn without_noise_both_models_beat_the_nearest_mean() {
    let (train, test) = digits().unwrap();
    let baseline = nearest_mean(&train, &test);
    assert!(baseline > 0.8, "the baseline itself has learned nothing: {baseline}");
    let settings = Settings { epochs: 4, ..SETTINGS };
    let network = Network::new(64, &[24], 10, Activation::Tanh).unwrap();
    for network in [logistic(), network] {
        let trainer = Trainer::new(network, &train, settings).unwrap();
        let mut training = trainer.start_without_privacy().unwrap();
        let epochs = training.run(Some(&test)).unwrap().to_vec();
        assert_eq!(epochs.iter().map(|epoch| epoch.steps).collect::<Vec<_>>(), [360, 720, 1080, 1440]);
        let last = epochs[3];
        assert!(last.accuracy.unwrap() > baseline, "{last:?} against {baseline}");
        // An untrained model has a loss of ln 10.
        assert!(last.loss.unwrap() < 10.0_f64.ln() / 4.0, "{last:?}");
        assert!(training.plan().is_none());
    }
}

/// The noise in the model is what the strategies promise, and so in the promised order.
///
/// The rate is so small that gradients do not notice the noise; what a private training differs from one without noise
/// is then `η M ξ`. Its mean square over steps and coordinates has the expectation `(κ/μ)² E2`, and is an average of 650
/// coordinates in 4 runs that are independent. Each is a quadratic form with a variance of at most twice its squared mean,
/// so the relative standard error is at most sqrt(2/2600) = 0.028. Seeded, n = 2600; the bound of 4.5 standard errors fails
/// correct noise with α < 1e-5, and fails noise scaled by 2/3 (0.44 in the square) or 3/2 (2.25) always.
#[test]
fn the_model_carries_the_promised_noise_in_the_promised_order() {
    let train = few_digits(60);
    let settings = Settings { batch: 1, rate: 1e-9, ..SETTINGS };
    let trainer = Trainer::new(logistic(), &train, settings).unwrap();
    let workload = trainer.workload(Aim::Iterates).unwrap();
    let mut exact = trainer.start_without_privacy().unwrap();
    let mut path = Vec::new();
    while exact.step_forward().unwrap() {
        path.push(exact.parameters().to_vec());
    }
    assert_eq!(path.len(), 60);
    let runs = 4;
    let contest = [
        ("optimal", Aim::Iterates),
        ("sqrt", Aim::Sums),
        ("honaker-online", Aim::Sums),
        ("binary-tree", Aim::Sums),
    ];
    let mut promised = Vec::new();
    for (name, aim) in contest {
        let privacy = privacy(&trainer, name, aim);
        let mut sum = 0.0;
        for seed in 0..runs {
            let mut training = trainer.start_reproducible(&privacy, seed).unwrap();
            for exact in &path {
                assert!(training.step_forward().unwrap());
                let difference = training.parameters().iter().zip(exact).map(|(noisy, exact)| noisy - exact);
                sum += difference.map(|difference| difference * difference).sum::<f64>();
            }
            assert!(!training.step_forward().unwrap(), "no step is left");
        }
        let measured = sum / (runs * 60 * 650) as f64;
        let factor =
            iterates::mean_squared_error(privacy.strategy.as_ref(), &workload, Participation::Single)
                .unwrap();
        let expected = factor * (settings.clip / privacy.budget.mu()).powi(2);
        assert!(
            (measured / expected - 1.0).abs() < 4.5 * (2.0_f64 / 2600.0).sqrt(),
            "{name}: {measured:e} {expected:e}"
        );
        promised.push(expected);
    }
    assert!(promised.is_sorted_by(|better, worse| better < worse), "{promised:?}");
}

/// The floor beside strategies that are written out as matrices: in the model for descent, whatever noise was correlated for, and
/// in the average gradient for optimizers that are not linear.
#[test]
fn the_noise_floor_is_what_matrices_say() {
    let train = few_digits(60);
    let settings = Settings { batch: 4, schedule: Schedule::Linear { last: 0.02 }, ..SETTINGS };
    let adam = Settings { optimizer: Optimizer::Adam, ..settings };
    let moving = Settings { quantile: Some(0.5), ..settings };
    let cases = [(settings, Place::Model), (adam, Place::Gradient), (moving, Place::ClippedGradient)];
    for (settings, place) in cases {
        let trainer = Trainer::new(logistic(), &train, settings).unwrap();
        for (name, aim) in [
            ("optimal", Aim::Iterates),
            ("sqrt", Aim::Sums),
            ("scaled-blt", Aim::Iterates),
            ("binary-tree", Aim::Sums),
            ("honaker-online", Aim::Sums),
            ("identity", Aim::Iterates),
        ] {
            let privacy = privacy(&trainer, name, aim);
            let plan = trainer.plan(&privacy).unwrap();
            let floor = trainer.noise_floor(&plan).unwrap();
            assert_eq!((floor.place, floor.deviations.len()), (place, 15));
            let (made, divisor) = match place {
                Place::Model => (trainer.workload(Aim::Iterates).unwrap(), 1.0),
                _ => (Workload::step(), 4.0),
            };
            let written = iterates::squared_row_norms(privacy.strategy.as_ref(), &made).unwrap();
            for (step, (found, squared)) in floor.deviations.iter().zip(&written).enumerate() {
                let expected = plan.sigma() * squared.sqrt() / divisor;
                assert!((found / expected - 1.0).abs() < 1e-6, "{name} {place:?} {step}: {found} {expected}");
            }
        }
    }
}

/// One step of one person, without noise: every layer moves by at most its share, the largest ones by just that, and a quantile that
/// nothing follows is refused. Flat clipping of the same gradient moves the layers by other lengths.
#[test]
fn layers_are_clipped_by_themselves() {
    let train = few_digits(1);
    let network = Network::new(64, &[8, 5], 10, Activation::Tanh).unwrap();
    let settings = Settings { batch: 1, rate: 1.0, momentum: 0.0, clip: 0.01, per_layer: true, ..SETTINGS };
    let moved = |settings: Settings| -> Vec<f64> {
        let trainer = Trainer::new(network.clone(), &train, settings).unwrap();
        let mut training = trainer.start_without_privacy().unwrap();
        let before = training.parameters().to_vec();
        training.step_forward().unwrap();
        let mut change = training.parameters().iter().zip(&before).map(|(after, before)| after - before);
        let lengths = network.layers();
        lengths.iter().map(|n| change.by_ref().take(*n).map(|x| x * x).sum::<f64>().sqrt()).collect()
    };
    let (layers, flat) = (moved(settings), moved(Settings { per_layer: false, ..settings }));
    assert_eq!((layers.len(), network.layers().iter().sum::<usize>()), (3, network.parameters()));
    for length in &layers {
        assert!((length * 3.0_f64.sqrt() / 0.01 - 1.0).abs() < 1e-9, "{layers:?}");
    }
    let norm = flat.iter().map(|length| length * length).sum::<f64>().sqrt();
    assert!(
        (norm / 0.01 - 1.0).abs() < 1e-9 && flat.iter().any(|length| (length / layers[0] - 1.0).abs() > 0.05)
    );
    // The same noise as for the whole gradient, but for rounding up.
    let sigma = |settings: Settings| {
        let trainer = Trainer::new(network.clone(), &train, settings).unwrap();
        trainer.plan(&privacy(&trainer, "sqrt", Aim::Sums)).unwrap().sigma()
    };
    let (own, whole) = (sigma(settings), sigma(Settings { per_layer: false, ..settings }));
    assert!(own >= whole * (1.0 - 1e-15) && own < whole * (1.0 + 1e-9), "{own} {whole}");
    let both = Settings { quantile: Some(0.5), ..settings };
    assert!(matches!(Trainer::new(network.clone(), &train, both), Err(Error::OutOfRange { .. })));
}

#[test]
fn one_large_batch_is_one_clipped_gradient_step() {
    let train = few_digits(100);
    let settings = Settings { batch: 100, rate: 0.5, clip: 0.7, ..SETTINGS };
    let trainer = Trainer::new(logistic(), &train, settings).unwrap();
    let mut training = trainer.start_without_privacy().unwrap();
    assert!(training.step_forward().unwrap());
    let (network, clipping) = (logistic(), Clipping::flat(0.7).unwrap());
    let mut gradient = vec![0.0; 650];
    let mut expected = vec![0.0; 650];
    for (features, label) in train.iter() {
        network.gradient(&[0.0; 650], features, label, &mut network.workspace(), &mut gradient).unwrap();
        clipping.clip(&mut gradient).unwrap();
        expected.iter_mut().zip(&gradient).for_each(|(sum, value)| *sum -= 0.5 * value / 100.0);
    }
    let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-14;
    assert!(training.parameters().iter().zip(&expected).all(close));
}

/// A person with several examples is one contribution: the average of their gradients, clipped as one.
#[test]
fn a_person_counts_once_however_many_examples_they_have() {
    let rows = few_digits(9);
    // Ann has rows 0, 3 and 8, Bob has 1, and so on: five people.
    let names = ["ann", "bob", "cid", "ann", "dan", "cid", "eve", "eve", "ann"].map(String::from);
    let people = rows.clone().belonging_to(&names).unwrap();
    let settings = Settings { batch: 5, rate: 0.5, clip: 0.3, ..SETTINGS };
    let trainer = Trainer::new(logistic(), &people, settings).unwrap();
    assert_eq!(trainer.batches().steps(), 1, "five people fill one batch of five");
    let mut training = trainer.start_without_privacy().unwrap();
    training.step_forward().unwrap();
    let (network, clipping) = (logistic(), Clipping::flat(0.3).unwrap());
    let mut expected = vec![0.0; 650];
    for name in ["ann", "bob", "cid", "dan", "eve"] {
        let own: Vec<usize> = (0..9).filter(|row| names[*row] == name).collect();
        let mut average = vec![0.0; 650];
        for row in &own {
            let (features, label) = rows.get(*row).unwrap();
            let mut gradient = vec![0.0; 650];
            network.gradient(&[0.0; 650], features, label, &mut network.workspace(), &mut gradient).unwrap();
            average.iter_mut().zip(&gradient).for_each(|(sum, value)| *sum += value / own.len() as f64);
        }
        clipping.clip(&mut average).unwrap();
        expected.iter_mut().zip(&average).for_each(|(sum, value)| *sum -= 0.5 * value / 5.0);
    }
    let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-14;
    assert!(training.parameters().iter().zip(&expected).all(close));
    assert!(rows.belonging_to(&names[1..]).is_err());
}

#[test]
fn schedules_and_adam_learn_and_continue() {
    let (train, test) = digits().unwrap();
    let baseline = nearest_mean(&train, &test);
    let linear = Schedule::Linear { last: 0.01 };
    let cosine = Schedule::Cosine { last: 0.0005 };
    let adam = Settings { rate: 0.01, optimizer: Optimizer::Adam, ..SETTINGS };
    let moving = Settings { clip: 0.001, quantile: Some(0.8), ..SETTINGS };
    for settings in
        [Settings { schedule: linear, ..SETTINGS }, adam, Settings { schedule: cosine, ..adam }, moving]
    {
        let settings = Settings { epochs: 4, ..settings };
        let trainer = Trainer::new(logistic(), &train, settings).unwrap();
        let mut training = trainer.start_without_privacy().unwrap();
        let accuracy = training.run(Some(&test)).unwrap()[3].accuracy.unwrap();
        assert!(accuracy > baseline, "{settings:?}: {accuracy} against {baseline}");
    }
    // Through crashes, with noise for the workload of its schedule.
    let few = few_digits(24);
    let settings = Settings { schedule: cosine, batch: 8, clip: 0.01, quantile: Some(0.4), ..adam };
    let trainer = Trainer::new(logistic(), &few, settings).unwrap();
    let privacy = privacy(&trainer, "sqrt", Aim::Iterates);
    let mut whole = trainer.start_reproducible(&privacy, 4).unwrap();
    while whole.step_forward().unwrap() {}
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    let resume = || {
        let state = StateFile::open(&path, None).unwrap();
        trainer.resume(&privacy, state, Some(4), ModelFile::beside(&path)).unwrap()
    };
    while resume().step_forward().unwrap() {}
    assert_eq!(resume().parameters(), whole.parameters());
    assert_eq!(resume().clipping_norm(), whole.clipping_norm());
    assert!(whole.clipping_norm() != 0.01, "the norm has moved");
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        for schedule in [Schedule::Linear { last: bad }, Schedule::Cosine { last: bad }] {
            assert!(Trainer::new(logistic(), &few, Settings { schedule, ..SETTINGS }).is_err(), "{bad}");
        }
    }
}

#[test]
fn the_number_of_cores_and_of_repetitions_changes_nothing() {
    let train = few_digits(150);
    // Four parts in each batch, and a last batch that is shorter.
    let settings = Settings { epochs: 2, batch: 100, ..SETTINGS };
    let trainer = Trainer::new(logistic(), &train, settings).unwrap();
    let privacy = privacy(&trainer, "blt", Aim::Iterates);
    let train_on = |threads: usize, seed: u64| -> Vec<f64> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut training = trainer.start_reproducible(&privacy, seed).unwrap();
            while training.step_forward().unwrap() {}
            training.parameters().to_vec()
        })
    };
    let one = train_on(1, 5);
    assert_eq!(one, train_on(3, 5));
    assert_ne!(one, train_on(1, 6));
    // Secret noise is another one each time.
    let secret = || {
        let mut training = trainer.start(&privacy).unwrap();
        training.step_forward().unwrap();
        training.parameters().to_vec()
    };
    assert_ne!(secret(), secret());
}

/// A crash may come between the step of the noise and that of the model, in any of the lives of a training and in all of
/// them: every pattern of where each life ends, for three lives and up to three steps in each, then an undisturbed rest.
#[test]
fn continued_training_equals_uninterrupted_training() {
    let (train, test) = (few_digits(42), few_digits(10));
    let settings = Settings { epochs: 2, batch: 8, ..SETTINGS };
    let trainer = Trainer::new(logistic(), &train, settings).unwrap();
    let privacy = privacy(&trainer, "sqrt", Aim::Sums);
    let mut whole = trainer.start_reproducible(&privacy, 3).unwrap();
    whole.run(Some(&test)).unwrap();
    assert_eq!(whole.step(), 12);
    let accuracies = |epochs: &[dp_ftrl::train::FinishedEpoch]| {
        epochs.iter().map(|epoch| (epoch.steps, epoch.accuracy, epoch.loss)).collect::<Vec<_>>()
    };
    // A life takes 1 to 3 steps and ends after the model was saved or just before.
    let lives: Vec<(usize, bool)> = (1..=3).flat_map(|steps| [(steps, true), (steps, false)]).collect();
    for pattern in 0..lives.len().pow(3) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        let file = ModelFile::beside(&path);
        let resume = || {
            trainer.resume(&privacy, StateFile::open(&path, None).unwrap(), Some(3), file.clone()).unwrap()
        };
        for life in [pattern % 6, pattern / 6 % 6, pattern / 36] {
            let (steps, saved) = lives[life];
            let mut training = resume();
            for step in 1..=steps {
                let before = std::fs::read(file.path());
                training.advance(Some(&test)).unwrap();
                if step == steps && !saved {
                    // What was on the disk just before the step's model: the last one, with the epochs scored by then.
                    let parse = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
                    let mut after = parse(&std::fs::read(file.path()).unwrap());
                    match before {
                        Ok(bytes) => {
                            let mut last = parse(&bytes);
                            let reached = last["step"].as_u64().unwrap();
                            let epochs = after["epochs"].as_array_mut().unwrap();
                            epochs.retain(|epoch| epoch["steps"].as_u64().unwrap() <= reached);
                            last["epochs"] = after["epochs"].take();
                            std::fs::write(file.path(), last.to_string()).unwrap();
                        }
                        Err(_) => std::fs::remove_file(file.path()).unwrap(),
                    }
                }
            }
        }
        let mut training = resume();
        training.run(Some(&test)).unwrap();
        assert_eq!(training.parameters(), whole.parameters(), "{pattern}");
        assert_eq!(accuracies(training.epochs()), accuracies(whole.epochs()), "{pattern}");
    }
}

#[test]
fn a_model_of_another_step_or_training_is_refused() {
    let train = few_digits(42);
    let settings = Settings { epochs: 2, batch: 8, ..SETTINGS };
    let trainer = Trainer::new(logistic(), &train, settings).unwrap();
    let privacy = privacy(&trainer, "sqrt", Aim::Sums);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    let file = ModelFile::beside(&path);
    let resume = |trainer: &Trainer<'_>| {
        let state = StateFile::open(&path, None).unwrap();
        trainer.resume(&privacy, state, Some(3), file.clone()).map(|training| training.step())
    };
    let state = StateFile::open(&path, None).unwrap();
    let mut training = trainer.resume(&privacy, state, Some(3), file.clone()).unwrap();
    training.step_forward().unwrap();
    let first = std::fs::read(file.path()).unwrap();
    training.step_forward().unwrap();
    training.step_forward().unwrap();
    let third = std::fs::read(file.path()).unwrap();
    drop(training);
    let refused = |trainer: &Trainer<'_>| matches!(resume(trainer), Err(Error::SavedModel { .. }));
    std::fs::write(file.path(), &first).unwrap();
    assert!(refused(&trainer), "two steps behind");
    std::fs::remove_file(file.path()).unwrap();
    assert!(refused(&trainer), "no model at all");
    std::fs::write(file.path(), "{}").unwrap();
    assert!(matches!(resume(&trainer), Err(Error::ModelFile { .. })), "no model");
    std::fs::write(file.path(), &third).unwrap();
    assert_eq!(resume(&trainer), Ok(3));
    let other = Trainer::new(logistic(), &train, Settings { order: 2, ..settings }).unwrap();
    assert!(refused(&other), "another order breaks the participation");
}

#[test]
fn comparisons_repeat_and_pair_their_runs() {
    let (train, test) = (few_digits(80), few_digits(40));
    let settings = Settings { batch: 8, ..SETTINGS };
    let trainer = Trainer::new(logistic(), &train, settings).unwrap();
    let strategy = trainer.strategy("sqrt".parse().unwrap(), Aim::Sums).unwrap();
    let contestant = |name: &str, noise| Contestant { name: name.to_owned(), noise };
    let contestants = [contestant("none", Noise::None), contestant("sqrt", Noise::Strategy(strategy))];
    // So large a budget that the noise is gone.
    let budgets = [Budget::gaussian(1e9).unwrap(), Budget::gaussian(0.01).unwrap()];
    let network = logistic();
    let comparison =
        Comparison { network, train: &train, test: &test, settings, relation: Relation::Replace, runs: 3 };
    let accuracies = comparison.run(&contestants, &budgets, || ()).unwrap();
    assert_eq!(accuracies.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(comparison.trainings(&contestants, &budgets), 9);
    assert_eq!(accuracies[1][0], accuracies[0][0], "without noise nothing differs, run by run");
    assert_ne!(accuracies[1][1], accuracies[0][0]);
    assert_eq!(comparison.run(&contestants, &budgets, || ()).unwrap(), accuracies);
    assert!(Comparison { runs: 0, ..comparison }.run(&contestants, &budgets, || ()).is_err());
}

#[test]
fn what_does_not_fit_is_refused() {
    let train = few_digits(20);
    let refused = |settings: Settings| Trainer::new(logistic(), &train, settings).is_err();
    assert!(!refused(SETTINGS));
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(refused(Settings { rate: bad, ..SETTINGS }), "rate {bad}");
        assert!(refused(Settings { clip: bad, ..SETTINGS }), "clip {bad}");
    }
    for momentum in [-0.1, 1.0, f64::NAN] {
        assert!(refused(Settings { momentum, ..SETTINGS }), "momentum {momentum}");
    }
    assert!(refused(Settings { epochs: 0, ..SETTINGS }));
    assert!(refused(Settings { batch: 0, ..SETTINGS }) && refused(Settings { batch: 21, ..SETTINGS }));
    assert!(Trainer::new(Network::logistic(63, 10).unwrap(), &train, SETTINGS).is_err());
    assert!(Trainer::new(Network::logistic(64, 9).unwrap(), &train, SETTINGS).is_err());
    assert!(Trainer::new(logistic(), &few_digits(0), SETTINGS).is_err());
    // A strategy of another length would end early, or was fitted to another participation.
    let trainer = Trainer::new(logistic(), &train, SETTINGS).unwrap();
    let longer = Trainer::new(logistic(), &train, Settings { epochs: 2, ..SETTINGS }).unwrap();
    assert!(trainer.start_reproducible(&privacy(&longer, "sqrt", Aim::Sums), 1).is_err());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    let (state, model) = (StateFile::open(&path, None).unwrap(), ModelFile::beside(&path));
    assert!(trainer.resume(&privacy(&longer, "sqrt", Aim::Sums), state, None, model).is_err());
    // So many steps that strategies could not keep a number for each of them.
    let endless = Settings { epochs: 134_217_729, ..SETTINGS };
    let refused = Trainer::new(logistic(), &train, endless).unwrap_err();
    assert!(matches!(refused, Error::OutOfRange { what: "number of steps", .. }), "{refused}");
    let mut training = trainer.start_without_privacy().unwrap();
    let other = Examples::new(3, 10).unwrap();
    assert!(training.advance(Some(&other)).is_err());
    assert_eq!(training.step(), 0);
}

#[test]
fn models_and_noise_that_cannot_fit_are_refused_with_their_size() {
    let huge = |hidden: &[usize]| Network::new(64, hidden, 10, Activation::Tanh);
    for hidden in [&[1_000_000_000_000_000_000][..], &[100_000_000], &[usize::MAX], &[5000, 5000]] {
        let refused = huge(hidden).unwrap_err();
        assert!(matches!(refused, Error::OutOfRange { value, .. } if value > 2.0_f64.powi(24)), "{refused}");
    }
    assert!(huge(&[4000, 4000]).is_ok());
    // A square root keeps every step of every parameter: 1.6e7 parameters for 20 steps are 3.2e8 numbers.
    let train = few_digits(20);
    let trainer =
        Trainer::new(huge(&[4000, 3900]).unwrap(), &train, Settings { batch: 1, ..SETTINGS }).unwrap();
    let refused = trainer.start_reproducible(&privacy(&trainer, "sqrt", Aim::Sums), 1).unwrap_err();
    assert!(matches!(refused, Error::OutOfRange { value, .. } if value > 3e8), "{refused}");
}
