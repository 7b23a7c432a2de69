//! Training with people who are drawn at random: whom it takes, what it divides by, that it continues, and what it refuses.

use dp_ftrl::data::{Examples, digits};
use dp_ftrl::model::Network;
use dp_ftrl::train::{Aim, CyclicSampling, ModelFile, Privacy, Settings, Trainer};
use dp_ftrl::{Clipping, Error, PrivateGradients, Rates, SampledGradients, Sgd};
use dp_mechanisms::accountant::sampling::CyclicPoisson;
use dp_mechanisms::{Budget, Method, Plan, Problem, Relation, Seed, StateFile, Workload};

fn few_digits(count: usize) -> Examples {
    digits().unwrap().0.split_at(count).unwrap().0
}

fn logistic() -> Network {
    Network::logistic(64, 10).unwrap()
}

fn settings() -> Settings {
    Settings { epochs: 2, batch: 20, rate: 0.5, ..Settings::default() }
}

fn drawing(bands: Option<usize>) -> CyclicSampling {
    let budget = Budget::approximate(2.0, 1e-5).unwrap();
    CyclicSampling { aim: Aim::Sums, bands, capacity: None, budget }
}

/// Step by step the same as gradients that are added by hand for whoever is drawn, divided by the expected size.
#[test]
fn a_training_takes_whom_the_secret_draws() {
    let train = few_digits(100);
    let trainer = Trainer::new(logistic(), &train, settings()).unwrap();
    let plan = trainer.sampled_plan(&drawing(Some(3))).unwrap();
    assert_eq!((plan.sampling().unwrap().groups(), plan.steps()), (3, 10));
    assert!((plan.sampling().unwrap().rate() - 0.6).abs() < 1e-12);
    let mut training = trainer.start_with(plan.clone(), Seed::reproducible(5)).unwrap();
    let people = (0..100_u64).map(u64::to_le_bytes);
    let mut by_hand =
        SampledGradients::new(plan, Clipping::flat(1.0).unwrap(), 650, people, Seed::reproducible(5))
            .unwrap();
    assert_eq!(by_hand.expected_size().round(), 20.0);
    let network = logistic();
    let start = network.initial(settings().order);
    let mut descent = Sgd::starting_at(start, 0.9, Rates::constant(0.5 / 20.0).unwrap()).unwrap();
    let (mut gradient, mut sum) = (vec![0.0; 650], vec![0.0; 650]);
    let mut sizes = Vec::new();
    for step in 0..10 {
        sizes.push(by_hand.drawn().len());
        for person in by_hand.drawn().to_vec() {
            let (features, label) = train.get(person).unwrap();
            network
                .gradient(descent.parameters(), features, label, &mut network.workspace(), &mut gradient)
                .unwrap();
            by_hand.add(person, &gradient).unwrap();
            let again = by_hand.add(person, &gradient);
            assert!(matches!(again, Err(Error::NotAdmitted { .. })), "nobody enters twice: {again:?}");
        }
        let absent = (0..100).find(|person| !by_hand.drawn().contains(person)).unwrap();
        let refused = by_hand.add(absent, &gradient).unwrap_err();
        assert!(matches!(refused, Error::NotAdmitted { step: at, .. } if at == step + 1), "{refused}");
        by_hand.finish(&mut sum).unwrap();
        descent.update(&sum).unwrap();
        assert!(training.step_forward().unwrap());
        let far = training.parameters().iter().zip(descent.parameters()).map(|(a, b)| (a - b).abs());
        assert!(far.fold(0.0, f64::max) < 1e-12, "step {step}");
    }
    assert!(!training.step_forward().unwrap());
    assert!(sizes.iter().any(|size| *size != sizes[0]), "sizes vary: {sizes:?}");
}

#[test]
fn batches_may_be_empty() {
    let train = few_digits(60);
    let trainer = Trainer::new(logistic(), &train, Settings { batch: 1, ..settings() }).unwrap();
    let plan = trainer.sampled_plan(&drawing(Some(2))).unwrap();
    let mut training = trainer.start_with(plan, Seed::reproducible(1)).unwrap();
    // 120 steps that draw one person on average: 44 of them draw nobody.
    while training.step_forward().unwrap() {}
    assert_eq!(training.step(), 120);
}

#[test]
fn continued_draws_are_those_of_an_undisturbed_run() {
    let train = few_digits(90);
    let trainer = Trainer::new(logistic(), &train, settings()).unwrap();
    let plan = trainer.sampled_plan(&drawing(None)).unwrap();
    let mut whole = trainer.start_with(plan.clone(), Seed::reproducible(7)).unwrap();
    while whole.step_forward().unwrap() {}
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    let resume = |trainer: &Trainer<'_>, plan: &Plan| {
        let state = StateFile::open(&path, None).unwrap();
        let seed = Seed::reproducible(7);
        let mut training = trainer.resume_with(plan.clone(), state, seed, ModelFile::beside(&path))?;
        let more = training.step_forward()?;
        Ok::<_, Error>((more, training.parameters().to_vec()))
    };
    while resume(&trainer, &plan).unwrap().0 {}
    assert_eq!(resume(&trainer, &plan).unwrap().1, whole.parameters());
    // Other data of the same shape, other people, another sampling.
    let others = digits().unwrap().0.split_at(91).unwrap().0.split_at(1).unwrap().1;
    assert_eq!(others.len(), 90);
    let other = Trainer::new(logistic(), &others, settings()).unwrap();
    assert!(matches!(resume(&other, &plan), Err(Error::SavedModel { .. })), "other data");
    let names: Vec<String> = (0..90).map(|row| format!("{row}")).collect();
    let named = train.clone().belonging_to(&names).unwrap();
    let named = Trainer::new(logistic(), &named, settings()).unwrap();
    assert!(matches!(resume(&named, &plan), Err(Error::SavedModel { .. })), "rows have owners now");
    let bands = trainer.sampled_plan(&drawing(Some(3))).unwrap();
    let refused = resume(&trainer, &bands).unwrap_err().to_string();
    assert!(refused.contains("sampling was"), "{refused}");
    assert!(resume(&trainer, &plan).is_ok());
}

/// Secret draws survive as well: what follows from the first seed is the same in every later life.
#[test]
fn the_secret_of_the_draws_outlives_a_crash() {
    let clipping = Clipping::flat(1.0).unwrap();
    let sampling = CyclicPoisson::new(2, 0.3, 6).unwrap();
    let problem = Problem::new(Workload::count(), 6).unwrap();
    let plan = sampling.plan(&problem, 1.0, 1.0, 1e-5).unwrap();
    let plan =
        plan.releases(clipping.footprint(Relation::ZeroOut, sampling.participation()).unwrap()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut secrets = Vec::new();
    for _ in 0..4 {
        let file = StateFile::open(&directory.path().join("state"), None).unwrap();
        let seed = Seed::from_system().unwrap();
        let mut gradients =
            PrivateGradients::open(plan.clone(), clipping.clone(), 3, seed, Some(file)).unwrap();
        secrets.push(gradients.hash_key("draws").number(b""));
        gradients.finish(&mut [0.0; 3]).unwrap();
    }
    assert!(secrets.iter().all(|secret| *secret == secrets[0]), "{secrets:?}");
}

#[test]
fn bands_noise_and_strategy_are_chosen_together() {
    let train = few_digits(1000);
    let settings = Settings { epochs: 4, batch: 10, ..settings() };
    let trainer = Trainer::new(logistic(), &train, settings).unwrap();
    let plans = trainer.sampled_plans(&drawing(None)).unwrap();
    let bands: Vec<usize> = plans.iter().map(|plan| plan.sampling().groups()).collect();
    assert_eq!(bands, [1, 2, 4, 8, 16, 32, 64, 100]);
    let least = plans.iter().map(dp_mechanisms::accountant::sampling::SampledPlan::mean_squared_error);
    let least = least.fold(f64::INFINITY, f64::min);
    let best = trainer.best_of(plans).unwrap();
    let groups = best.sampling().unwrap().groups();
    assert!(groups > 1 && groups < 100, "{groups}");
    let found = best.deviations().map(|deviation| deviation * deviation).sum::<f64>() / 400.0;
    assert!((found / least - 1.0).abs() < 1e-9, "{found} {least}");
}

#[test]
fn what_cannot_be_promised_is_refused_before_anything_moves() {
    let train = few_digits(100);
    let trainer = Trainer::new(logistic(), &train, settings()).unwrap();
    let refused = |sampling: CyclicSampling| trainer.sampled_plan(&sampling).unwrap_err().to_string();
    assert!(refused(drawing(Some(0))).contains("groups"), "no groups");
    assert!(refused(drawing(Some(6))).contains("groups = 6"), "a rate of 1.2");
    assert!(refused(CyclicSampling { capacity: Some(0), ..drawing(None) }).contains("capacity"));
    assert!(refused(CyclicSampling { capacity: Some(25), ..drawing(None) }).contains("capacity = 25"));
    let gaussian = Budget::gaussian(1.0).unwrap();
    assert!(refused(CyclicSampling { budget: gaussian, ..drawing(None) }).contains("delta"));
    let room = trainer.sampled_plan(&CyclicSampling { capacity: Some(45), ..drawing(Some(2)) }).unwrap();
    assert_eq!(room.sampling().unwrap().truncation().unwrap().people, 100);
    assert!(room.sigma() > trainer.sampled_plan(&drawing(Some(2))).unwrap().sigma());
    assert!(trainer.start_with(room.clone(), Seed::reproducible(1)).is_ok());

    // Plans for another number of people, another batch size, or another participation.
    let fewer = few_digits(99);
    let fewer = Trainer::new(logistic(), &fewer, settings()).unwrap();
    assert!(fewer.start_with(room, Seed::reproducible(1)).is_err());
    let strategy = trainer.strategy(Method::Sqrt, Aim::Sums).unwrap();
    let privacy = Privacy { strategy, relation: Relation::ZeroOut, budget: gaussian };
    let fixed = trainer.plan(&privacy).unwrap();
    assert!(trainer.start_with(fixed.clone(), Seed::reproducible(1)).is_ok());
    let clipping = Clipping::flat(1.0).unwrap();
    let single = clipping.footprint(Relation::ZeroOut, dp_mechanisms::Participation::Single).unwrap();
    let once = Plan::idealized(privacy.strategy.clone(), single, gaussian).unwrap();
    let refused = trainer.start_with(once, Seed::reproducible(1)).unwrap_err();
    assert!(matches!(refused, Error::Participation { .. }), "{refused}");
    let people = (0..100_u64).map(u64::to_le_bytes);
    assert!(SampledGradients::new(fixed, clipping, 650, people, Seed::reproducible(1)).is_err());
}
