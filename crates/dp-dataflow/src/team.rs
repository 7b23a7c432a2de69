//! What the processes of a run tell each other, and how one sees the others.

use std::fmt::Write as _;
use std::io::BufReader;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use dp_events::consumed::Consumed;
use dp_events::dashboard::Design;
use dp_events::intake::Opened;
use serde::{Deserialize, Serialize};

use crate::alike::Facts;
use crate::mesh::{self, Broken, Mesh};
use crate::sealed::Sealed;
use crate::work::{Found, Reached, Unit};
use crate::{Result, failed};

/// What processes tell each other.
#[derive(Serialize, Deserialize)]
pub(crate) enum Message {
    /// What a process has.
    Facts(Facts),
    /// The run begins.
    Start(Box<Start>),
    /// The state of this process fits.
    Ready,
    /// All states fit.
    Go,
    /// How far a process is.
    Progress(Reached),
    /// What a process has read, and whether a row could not be used.
    Finished(Vec<(u32, Found)>, bool),
    /// Write the state of a generation.
    Stage(u64),
    /// It is written.
    Staged,
    /// The run is over.
    Done,
    /// The run cannot go on.
    Failed(String),
}

/// What the other processes need to know.
#[derive(Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) set: [u8; 16],
    pub(crate) generation: u64,
    pub(crate) key: [u8; 32],
    pub(crate) opened: Opened,
    pub(crate) closed: u32,
    pub(crate) units: Vec<Unit>,
    pub(crate) consumed: Consumed,
    pub(crate) design: Design,
}

/// The other processes, as one sees them.
pub(crate) struct Team {
    pub(crate) process: usize,
    pub(crate) control: Vec<Option<Mutex<Sealed>>>,
    pub(crate) data: Vec<Option<mesh::Wire>>,
    pub(crate) sessions: Vec<[u8; 32]>,
    inbox: mpsc::Receiver<(usize, Message)>,
    waiting: Vec<(usize, Message)>,
    /// How far each process is.
    pub(crate) reached: Vec<Reached>,
    pub(crate) broken: Arc<Broken>,
    over: Arc<AtomicBool>,
}

impl Team {
    pub(crate) fn new(mesh: Mesh, process: usize, broken: &Arc<Broken>) -> Result<Self> {
        let (send, inbox) = mpsc::channel();
        let over = Arc::new(AtomicBool::new(false));
        for (other, stream) in mesh.control.iter().enumerate() {
            let Some(stream) = stream else { continue };
            let stream = stream.try_clone().map_err(|error| failed(error.to_string()))?;
            let (send, broken, over) = (send.clone(), Arc::clone(broken), Arc::clone(&over));
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                loop {
                    match mesh::receive::<Message>(&mut stream, mesh::LONGEST) {
                        Ok(Message::Failed(reason)) => {
                            broken.set(if other == 0 {
                                reason
                            } else {
                                format!("process {other}: {reason}")
                            });
                            return;
                        }
                        Ok(message) => {
                            let last = matches!(message, Message::Done);
                            over.fetch_or(last, Ordering::AcqRel);
                            if send.send((other, message)).is_err() || last {
                                return;
                            }
                        }
                        Err(_) => {
                            if !over.load(Ordering::Acquire) {
                                broken.set(format!("process {other} is gone"));
                            }
                            return;
                        }
                    }
                }
            });
        }
        Ok(Self {
            process,
            reached: vec![Reached::default(); mesh.control.len()],
            control: mesh.control.into_iter().map(|stream| stream.map(Mutex::new)).collect(),
            data: mesh.data,
            sessions: mesh.sessions,
            inbox,
            waiting: Vec::new(),
            broken: Arc::clone(broken),
            over,
        })
    }

    pub(crate) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let there: Vec<usize> =
            (0..self.control.len()).filter(|other| self.control[*other].is_some()).collect();
        there.into_iter()
    }

    pub(crate) fn tell(&self, other: usize, message: &Message) -> Result<()> {
        let Some(stream) = &self.control[other] else { return Ok(()) };
        let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        mesh::send(&mut *stream, message).map_err(|_| {
            self.broken.set(format!("process {other} is gone"));
            failed(self.broken.reason().unwrap_or_default())
        })
    }

    /// Tells everybody, and does not mind who hears it.
    pub(crate) fn tell_all(&self, message: &Message) {
        self.others().for_each(|other| {
            let _ = self.tell(other, message);
        });
    }

    pub(crate) fn finish(&self) {
        self.over.store(true, Ordering::Release);
        self.tell_all(&Message::Done);
    }

    /// Takes what has arrived; progress is noted.
    pub(crate) fn take(&mut self, patience: Duration) {
        if let Ok((other, message)) = self.inbox.recv_timeout(patience) {
            match message {
                Message::Progress(reached) => self.reached[other] = reached,
                message => self.waiting.push((other, message)),
            }
        }
    }

    /// The next message of a kind from a process.
    pub(crate) fn wait_for<R>(&mut self, from: usize, wanted: impl Fn(Message) -> Option<R>) -> Result<R> {
        loop {
            if let Some(at) = self.waiting.iter().position(|(other, _)| *other == from) {
                let (_, message) = self.waiting.remove(at);
                return wanted(message).ok_or_else(|| {
                    failed(format!("process {from} said something that does not belong here"))
                });
            }
            self.broken.check()?;
            self.take(Duration::from_millis(20));
        }
    }

    /// How far all processes are, in a line.
    pub(crate) fn report(&self, units: usize) -> String {
        report(&self.reached, units)
    }
}

fn report(reached: &[Reached], units: usize) -> String {
    let all = |index: usize| -> u64 {
        reached.iter().flat_map(|process| process.workers.iter().map(move |worker| worker[index])).sum()
    };
    let mut text = format!("{} of {units} blocks and {} rows are read", all(0), all(1));
    for (process, reached) in reached.iter().enumerate() {
        let workers: Vec<String> = reached.workers.iter().map(|[units, _]| units.to_string()).collect();
        let _ = write!(
            text,
            "; process {process}: {} blocks by its workers, {} steps closed",
            if workers.is_empty() { "no".to_owned() } else { workers.join(" + ") },
            reached.steps
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows and blocks of all workers together, and how far each of them is; a process that has said nothing is named too.
    #[test]
    fn a_line_says_how_far_everybody_is() {
        let first = Reached { workers: vec![[3, 300], [4, 500]], steps: 2 };
        assert_eq!(
            report(&[first, Reached::default()], 9),
            "7 of 9 blocks and 800 rows are read; process 0: 3 + 4 blocks by its workers, 2 steps closed; \
             process 1: no blocks by its workers, 0 steps closed"
        );
    }
}
