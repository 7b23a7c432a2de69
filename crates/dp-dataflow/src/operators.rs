//! Operators on timely streams: limits per person, sums per key and step, and the end of a step.
//!
//! They can be used alone, in a dataflow of one's own. Together they are the way from rows to the cells of a step, with one worker
//! or with a thousand:
//!
//! `events → bound_contributions (by person) → aggregate (by key and step) → release (when a step is complete and over)`
//!
//! # The guarantee, across processes
//! A person's events all reach one worker, which enforces the limits by itself and forgets nothing that a later event depends
//! on; so of every person at most what the limits allow enters the sums, whatever the other workers do. Sums are added in integers,
//! so neither the order of arrival nor the number of workers changes them. A step is handed over once, as a whole, when the
//! frontier says that nothing of it can come any more and the public clock says that it is over: that it is handed over depends
//! on no row. Every key has one owner, who adds the noise of its keys, which depends on no other key: the shares of all owners
//! are together the release of all keys.
//!
//! # The order of rows
//! Where a person has more rows than count, the first ones do, and *first* must not depend on who is faster. Events carry a
//! position; those of earlier times come first, and those of one time in the order of their positions. With times and positions
//! that number the input, every number of workers counts the rows that a single one would.
//!
//! # What a worker sees
//! Of a person the pseudonym, which only holders of the key can recompute, with steps, keys and values; of a key, true
//! sums, and the noise if it adds it. Neither goes anywhere but to the worker that owns it.
//!
//! # Example
//! Two workers with one reader: limits, sums and noise, with a secret of its own for the keys of each of them.
//! ```
//! use std::cell::RefCell;
//! use std::rc::Rc;
//! use std::sync::{Arc, Mutex};
//!
//! use dp_dataflow::operators::{Placed, aggregate, bound_contributions, release};
//! use dp_events::encoding::Share;
//! use dp_events::intake::{Event, Parser};
//! use dp_events::people::{PseudonymKey, People};
//! use dp_events::rows::Row;
//! use dp_events::{Dashboard, Randomness, Releases, Spec};
//! use timely::dataflow::operators::{Input, Inspect, Probe};
//!
//! # let text = r#"
//! #     [privacy]
//! #     rho = 0.5
//! #     protects = "person"
//! #     relation = "zero-out"
//! #     [input]
//! #     files = ["none.csv"]
//! #     time = "day"
//! #     person = "who"
//! #     [limits]
//! #     rows_per_step = 1
//! #     steps = 2
//! #     [steps]
//! #     length = "1 day"
//! #     first = "2026-01-01"
//! #     last = "2026-01-02"
//! #     [[release]]
//! #     name = "visits"
//! #     statistics = ["total"]
//! #     by = { column = "region", values = ["North", "South"] }
//! #     [output]
//! #     folder = "public"
//! # "#;
//! let dashboard = Dashboard::new(Spec::parse(text, "dashboard.toml".as_ref())?)?;
//! let planned = dashboard.planned()?.clone();
//! let spec = Arc::new(dashboard.spec().clone());
//! let published = Arc::new(Mutex::new(Vec::new()));
//! let collected = Arc::clone(&published);
//! timely::execute(timely::Config::process(2), move |worker| {
//!     let (index, workers) = (worker.index(), worker.peers());
//!     let parser = Parser::new(Arc::clone(&spec), Arc::new(PseudonymKey::new([3; 32])));
//!     let encodings = parser.encodings();
//!     let people = Rc::new(RefCell::new(People::new(spec.limits)));
//!     let share = Share::new(index, workers);
//!     let mut releases = Releases::new(planned.clone(), share, Randomness::System).unwrap();
//!     let collected = Arc::clone(&collected);
//!     let (mut input, probe) = worker.dataflow::<u64, _, _>(|scope| {
//!         let (input, events) = scope.new_input::<Vec<Placed>>();
//!         let bounded = bound_contributions(events, Arc::clone(encodings), people);
//!         // Times are steps here: a step is complete when the frontier has passed it.
//!         let complete = |frontier: Option<&u64>| frontier.map_or(u32::MAX, |time| *time as u32);
//!         let sums = aggregate(bounded, Arc::clone(encodings), complete);
//!         let over = || 2;
//!         let owner = move |step, cells: dp_events::encoding::Cells| {
//!             vec![(step, index, releases.close(&cells.capped()).unwrap())]
//!         };
//!         let released = release(sums, Arc::clone(encodings), Rc::default(), 0, complete, over, owner);
//!         (input, released.inspect(move |one| collected.lock().unwrap().push(one.clone())).probe().0)
//!     });
//!     for (step, day) in ["2026-01-01", "2026-01-02"].into_iter().enumerate() {
//!         input.advance_to(step as u64);
//!         for (position, (who, region)) in [("Ada", "North"), ("Bob", "South")].into_iter().enumerate() {
//!             let mut event = Event::default();
//!             let fields = [Some(day.as_bytes()), Some(who.as_bytes()), Some(region.as_bytes())];
//!             parser.parse(&Row::new(1, &fields), &mut event);
//!             if index == 0 {
//!                 input.send(Placed { position: position as u64, event });
//!             }
//!         }
//!     }
//!     input.close();
//!     worker.step_while(|| !probe.done());
//! })?;
//! // Two steps, each in two parts: the numbers of North from one worker, those of South from the other.
//! assert_eq!(published.lock().unwrap().len(), 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dp_events::encoding::{Cells, Encoding, ReleaseCells, Share};
use dp_events::intake::Event;
use dp_events::people::{People, Pseudonym};
use serde::{Deserialize, Serialize};
use timely::dataflow::StreamVec;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::{Capability, Operator};
use timely::order::TotalOrder;
use timely::progress::Timestamp;

/// An event with its place among the events of its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The place.
    pub position: u64,
    /// The event.
    pub event: Event,
}

/// Sums of cells of one release in one step: a part of them, by one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// The step, counted from 0.
    pub step: u32,
    /// The release, counted from 0.
    pub release: u32,
    /// Cells by their places among those of their owner.
    pub listed: Vec<(u32, i64)>,
    /// Cells by the names of their keys.
    pub named: Vec<(Box<str>, i64)>,
    /// The worker that owns them.
    owner: u64,
}

/// The cells of steps, as far as they are known to whoever owns them.
pub type Steps = Rc<RefCell<BTreeMap<u32, Cells>>>;

/// The most cells that are held back before they are sent on.
const MOST_CELLS: usize = 1 << 22;

/// Of so many cells, one message holds at most this many.
const CELLS_PER_MESSAGE: usize = 1 << 12;

/// How often a step that is complete but not over is looked at again.
const CLOCK: Duration = Duration::from_millis(50);

/// The worker that owns a person: each of `workers` has a contiguous range of pseudonyms.
pub fn owner_of_person(person: Pseudonym, workers: usize) -> usize {
    ((u128::from(person.number()) * workers as u128) >> 64) as usize
}

/// Brings the events of a person to one worker and takes from them what does not count.
///
/// `people` is what this worker knows of its people, and knows more of afterwards. Events without a person stay where they are.
///
/// # Privacy
/// Of every person at most what the limits of `people` allow is left, over all workers. See the [module](self) for what that rests
/// on.
///
/// # Complexity
/// A lookup per event. Events wait until all earlier times are complete; whoever reads faster than the slowest worker must be
/// held back by a probe on the output.
pub fn bound_contributions<T: Timestamp + TotalOrder>(
    events: StreamVec<'_, T, Placed>,
    encodings: Arc<[Encoding]>,
    people: Rc<RefCell<People>>,
) -> StreamVec<'_, T, Event> {
    let scope = events.scope();
    let (here, workers) = (scope.index(), scope.peers());
    let exchange = Exchange::new(move |placed: &Placed| {
        placed.event.person.map_or(here, |person| owner_of_person(person, workers)) as u64
    });
    events.unary_frontier(exchange, "BoundContributions", move |_, _| {
        let mut waiting: BTreeMap<T, (Capability<T>, Vec<Placed>)> = BTreeMap::new();
        move |(input, frontier), output| {
            input.for_each(|time, data| {
                let entry = waiting
                    .entry(time.time().clone())
                    .or_insert_with(|| (time.retain(output.output_index()), Vec::new()));
                entry.1.append(data);
            });
            while let Some(first) = waiting.first_entry()
                && !frontier.less_equal(first.key())
            {
                let (capability, mut events) = first.remove();
                if !events.is_sorted_by_key(|placed| placed.position) {
                    events.sort_by_key(|placed| placed.position);
                }
                let mut people = people.borrow_mut();
                let mut session = output.session(&capability);
                for Placed { mut event, .. } in events {
                    if people.limit(&mut event, &encodings) {
                        session.give(event);
                    }
                }
            }
        }
    })
}

/// Adds events up by step, release and key, first where they are, and then at the worker that owns the key: each has the
/// [`Share`] of its number.
///
/// `complete` says how many steps nothing more can come for once the frontier has reached a time, or nothing where the stream has
/// ended.
///
/// # Privacy
/// A worker sees the true sums of what was bounded there, and of the keys that it owns.
///
/// # Complexity
/// An addition per event and cell. A worker holds back at most a few million cells; a key with many events travels once for
/// each worker and not once for each event.
pub fn aggregate<T: Timestamp + TotalOrder>(
    events: StreamVec<'_, T, Event>,
    encodings: Arc<[Encoding]>,
    complete: impl Fn(Option<&T>) -> u32 + 'static,
) -> StreamVec<'_, T, Sums> {
    let owners = events.scope().peers();
    let size = encodings.iter().map(Encoding::dimension).sum::<usize>().max(1);
    let most = (MOST_CELLS / size).max(1);
    let sent = events.unary_frontier(Pipeline, "Add", move |_, _| {
        let mut steps: BTreeMap<u32, Cells> = BTreeMap::new();
        let mut capability: Option<Capability<T>> = None;
        move |(input, frontier), output| {
            input.for_each(|time, data| {
                let held = capability.get_or_insert_with(|| time.retain(output.output_index()));
                if time.time() < held.time() {
                    *held = time.retain(output.output_index());
                }
                for event in data.drain(..) {
                    let cells = steps.entry(event.step).or_insert_with(|| Cells::new(&encodings));
                    event.contributions.iter().for_each(|one| cells.add(&encodings, one));
                    if steps.len() > most {
                        let mut session = output.session(&*held);
                        while let Some((step, cells)) = steps.pop_first() {
                            parts(step, &cells, &encodings, owners, |sums| session.give(sums));
                        }
                    }
                }
            });
            let now = frontier.frontier();
            let first = now.first();
            let over = complete(first);
            let Some(held) = capability.as_mut() else { return };
            while let Some(entry) = steps.first_entry()
                && *entry.key() < over
            {
                let (step, cells) = entry.remove_entry();
                let mut session = output.session(&*held);
                parts(step, &cells, &encodings, owners, |sums| session.give(sums));
            }
            match first {
                Some(first) if !steps.is_empty() => {
                    if held.time() < first {
                        held.downgrade(first);
                    }
                }
                _ => capability = None,
            }
        }
    });
    // To the owner.
    sent.unary(Exchange::new(|sums: &Sums| sums.owner), "ToOwner", |_, _| {
        |input, output| {
            input.for_each(|time, data| output.session(&time).give_container(data));
        }
    })
}

/// Hands the cells that are not zero to `each`, in messages for one owner each.
fn parts(step: u32, cells: &Cells, encodings: &[Encoding], owners: usize, mut each: impl FnMut(Sums)) {
    for ((release, encoding), cells) in (0..).zip(encodings).zip(cells.releases()) {
        let empty =
            |owner| Sums { step, release, listed: Vec::new(), named: Vec::new(), owner: owner as u64 };
        match cells {
            ReleaseCells::Listed(cells) => {
                for owner in 0..owners {
                    let range = Share::new(owner, owners).cells(encoding);
                    let mut sums = empty(owner);
                    for (place, sum) in (0..).zip(&cells[range]).filter(|(_, sum)| **sum != 0) {
                        sums.listed.push((place, *sum));
                        if sums.listed.len() >= CELLS_PER_MESSAGE {
                            each(std::mem::replace(&mut sums, empty(owner)));
                        }
                    }
                    if !sums.listed.is_empty() {
                        each(sums);
                    }
                }
            }
            ReleaseCells::Named(cells) => {
                let mut by_owner: BTreeMap<usize, Sums> = BTreeMap::new();
                for (name, sum) in cells {
                    let owner = Share::owner_of_name(name, owners);
                    let sums = by_owner.entry(owner).or_insert_with(|| empty(owner));
                    sums.named.push((name.clone(), *sum));
                    if sums.named.len() >= CELLS_PER_MESSAGE {
                        each(std::mem::replace(sums, empty(owner)));
                    }
                }
                by_owner.into_values().filter(|sums| !sums.named.is_empty()).for_each(&mut each);
            }
        }
    }
}

/// Closes every step at the owner of the keys once it is complete and over, in order, each exactly once, also where all cells are
/// zero.
///
/// Steps before `open` were closed before. `complete` is that of [`aggregate`]; `clock` says how many steps are over, and
/// must not depend on data. `owner` receives a step and the cells of this worker's [`Share`] of the keys, adds the noise to
/// [`Cells::capped`], as [`Releases::close`](dp_events::Releases::close) does, and returns what is published of it. The cells of steps
/// that are not closed stay in `steps`.
///
/// # Privacy
/// When and how often `owner` is called depends on times and the clock alone.
pub fn release<T: Timestamp + TotalOrder, R: Clone + 'static>(
    sums: StreamVec<'_, T, Sums>,
    encodings: Arc<[Encoding]>,
    steps: Steps,
    mut open: u32,
    complete: impl Fn(Option<&T>) -> u32 + 'static,
    clock: impl Fn() -> u32 + 'static,
    mut owner: impl FnMut(u32, Cells) -> Vec<R> + 'static,
) -> StreamVec<'_, T, R> {
    let scope = sums.scope();
    let share = Share::new(scope.index(), scope.peers());
    sums.unary_frontier(Pipeline, "Release", move |capability, info| {
        let activator = scope.activator_for(info.address);
        let mut capability = Some(capability);
        move |(input, frontier), output| {
            let mut steps = steps.borrow_mut();
            input.for_each(|_, data| {
                for sums in data.drain(..) {
                    let cells = steps.entry(sums.step).or_insert_with(|| Cells::of_share(&encodings, share));
                    cells.add_sums(sums.release as usize, &sums.listed, &sums.named);
                }
            });
            let now = frontier.frontier();
            let (ready, over) = (complete(now.first()), clock());
            while open < ready.min(over)
                && let Some(capability) = &capability
            {
                let cells = steps.remove(&open).unwrap_or_else(|| Cells::of_share(&encodings, share));
                let mut session = output.session(capability);
                owner(open, cells).into_iter().for_each(|one| session.give(one));
                open += 1;
            }
            match now.first() {
                Some(first) => {
                    if let Some(held) = capability.as_mut().filter(|held| held.time() < first) {
                        held.downgrade(first);
                    }
                }
                // The stream has ended: what is not over by now stays.
                None => capability = None,
            }
            if capability.is_some() && open < ready {
                activator.activate_after(CLOCK);
            }
        }
    })
}
