//! The operators in a dataflow of one's own: what comes out is what one place would count, whoever reads what.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use dp_dataflow::operators::{Placed, aggregate, bound_contributions, release};
use dp_events::Spec;
use dp_events::encoding::Cells;
use dp_events::intake::{Event, Intake, Parser};
use dp_events::people::{People, PseudonymKey};
use dp_events::rows::Row;
use dp_tests::description::Description;
use timely::dataflow::operators::{Input, Probe};

fn description() -> Description {
    Description::of_people("who", 2, 2)
        .set("limits.separation", "2")
        .days("2026-01-01", "2026-01-09")
        .release(
            "visits",
            r#"statistics = ["total"]
            by = { column = "key", values = ["a", "b", "c", "d", "e", "f", "g"] }"#,
        )
        .release(
            "people",
            r#"of = "people"
            statistics = ["total"]"#,
        )
}

/// Rows of few people in any order of days.
fn rows() -> Vec<[String; 3]> {
    let mut last = 9_u64;
    let mut below = |bound: u64| {
        last = last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (last >> 33) % bound
    };
    (0..3000)
        .map(|_| {
            let key = char::from(b'a' + below(8) as u8);
            [format!("2026-01-{:02}", 1 + below(9)), format!("p{}", below(200)), key.to_string()]
        })
        .collect()
}

fn parser() -> Parser {
    let spec = Spec::parse(&description().to_string(), "rows.toml".as_ref()).unwrap();
    Parser::new(Arc::new(spec), Arc::new(PseudonymKey::new([3; 32])))
}

fn event(parser: &Parser, row: &[String; 3]) -> Event {
    let fields: Vec<Option<&[u8]>> = row.iter().map(|field| Some(field.as_bytes())).collect();
    let mut event = Event::default();
    parser.parse(&Row::new(1, &fields), &mut event);
    event
}

/// What is handed over by all owners together, step by step; every worker gives rows of every time, the last positions first.
fn with_workers(workers: usize, closed: u32) -> Vec<Cells> {
    let handed: Arc<Mutex<BTreeMap<(u32, usize), Cells>>> = Arc::default();
    let shared = Arc::clone(&handed);
    timely::execute(timely::Config::process(workers), move |worker| {
        let parser = parser();
        let encodings = Arc::clone(parser.encodings());
        let people = Rc::new(RefCell::new(People::new(parser.spec().limits)));
        let shared = Arc::clone(&shared);
        let (index, peers) = (worker.index(), worker.peers());
        let (mut input, probe) = worker.dataflow::<u64, _, _>(|scope| {
            let (input, events) = scope.new_input::<Vec<Placed>>();
            let events = bound_contributions(events, Arc::clone(&encodings), people);
            let complete = |frontier: Option<&u64>| if frontier.is_none() { u32::MAX } else { 0 };
            let sums = aggregate(events, Arc::clone(&encodings), complete);
            let released = release(
                sums,
                Arc::clone(&encodings),
                Rc::default(),
                0,
                complete,
                move || closed,
                move |step, cells| {
                    assert!(shared.lock().unwrap().insert((step, index), cells).is_none());
                    vec![step]
                },
            );
            (input, released.probe().0)
        });
        for (time, batch) in rows().chunks(100).enumerate() {
            input.advance_to(time as u64);
            for (position, row) in
                batch.iter().enumerate().rev().filter(|(position, _)| position % peers == index)
            {
                input.send(Placed { position: position as u64, event: event(&parser, row) });
            }
            worker.step();
        }
        input.close();
        worker.step_while(|| !probe.done());
    })
    .unwrap()
    .join()
    .into_iter()
    .for_each(|outcome| outcome.unwrap());
    let handed = handed.lock().unwrap();
    assert_eq!(handed.len(), workers * closed as usize, "every owner hands over every step once");
    // The keys of one owner behind those of the other.
    let mut steps: Vec<Cells> = Vec::new();
    for ((_, worker), cells) in handed.iter() {
        match steps.last_mut() {
            Some(step) if *worker > 0 => step.join(cells),
            _ => steps.push(cells.clone()),
        }
    }
    steps
}

#[test]
fn any_number_of_workers_counts_what_one_place_counts() {
    let parser = parser();
    let mut intake = Intake::new(parser.clone());
    for row in rows() {
        intake.count(&mut event(&parser, &row));
    }
    let expected: Vec<Cells> = (0..7).map(|_| intake.close()).collect();
    assert!(expected.iter().all(|cells| *cells != Cells::new(parser.encodings())));
    for workers in [1, 2, 4] {
        assert!(with_workers(workers, 7) == expected, "{workers} workers");
    }
}

/// Where times are steps, a step is handed over as soon as its time has passed, in order, also if it is empty; and not before
/// the clock says that it is over.
#[test]
fn steps_are_handed_over_in_order_when_they_are_complete_and_over() {
    let seen: Arc<Mutex<Vec<u32>>> = Arc::default();
    let shared = Arc::clone(&seen);
    timely::execute_directly(move |worker| {
        let parser = parser();
        let encodings = Arc::clone(parser.encodings());
        let people = Rc::new(RefCell::new(People::new(parser.spec().limits)));
        let handed = Arc::clone(&shared);
        let (mut input, probe) = worker.dataflow::<u64, _, _>(|scope| {
            let (input, events) = scope.new_input::<Vec<Placed>>();
            let events = bound_contributions(events, Arc::clone(&encodings), people);
            let complete = |frontier: Option<&u64>| frontier.map_or(u32::MAX, |time| *time as u32);
            let sums = aggregate(events, Arc::clone(&encodings), complete);
            let released = release(
                sums,
                encodings,
                Rc::default(),
                0,
                complete,
                || 6,
                move |step, _| {
                    handed.lock().unwrap().push(step);
                    vec![step]
                },
            );
            (input, released.probe().0)
        });
        for step in 0..9_u64 {
            input.advance_to(step);
            if step != 3 {
                let row = [format!("2026-01-{:02}", step + 1), format!("p{step}"), "a".to_owned()];
                input.send(Placed { position: 0, event: event(&parser, &row) });
            }
            worker.step_while(|| probe.less_than(input.time()));
            let expected: Vec<u32> = (0..step.min(6) as u32).collect();
            assert_eq!(*shared.lock().unwrap(), expected, "before step {step} is complete");
        }
        input.close();
        worker.step_while(|| !probe.done());
    });
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
}
