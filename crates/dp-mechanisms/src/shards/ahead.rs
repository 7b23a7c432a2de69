//! Noise made before it is needed, by other cores while the next sum is computed.

use std::sync::mpsc::{Receiver, TryRecvError, channel};

use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::noise::ShardedNoise;

/// A stream of noise with room for the row of the next step, which may be made elsewhere meanwhile.
pub(super) struct Ahead {
    place: Place,
}

enum Place {
    /// At hand, with or without the row of the next step.
    Here(Stream),
    /// On its way: a job of the pool makes the row and sends everything back.
    Away(Receiver<(Stream, Result<()>)>),
    /// The job did not come back.
    Lost,
}

struct Stream {
    noise: Box<ShardedNoise>,
    row: Zeroizing<Vec<f64>>,
    made: bool,
}

impl Stream {
    fn make(&mut self) -> Result<()> {
        if !self.made {
            self.noise.next_into(self.row.as_mut_slice())?;
            self.made = true;
        }
        Ok(())
    }
}

impl Ahead {
    /// Noise whose next row is made already, or not.
    pub(super) fn new(noise: ShardedNoise, row: Option<Zeroizing<Vec<f64>>>) -> Self {
        let made = row.is_some();
        let row = row.unwrap_or_else(|| Zeroizing::new(vec![0.0; noise.range().len()]));
        Self { place: Place::Here(Stream { noise: Box::new(noise), row, made }) }
    }

    /// Has the row of the next step made by the pool, if it is not made and there is a next step.
    pub(super) fn start(&mut self) {
        let waits = |stream: &Stream| !stream.made && stream.noise.step() < stream.noise.steps();
        if !matches!(&self.place, Place::Here(stream) if waits(stream)) {
            return;
        }
        let (sender, receiver) = channel();
        let Place::Here(mut stream) = std::mem::replace(&mut self.place, Place::Away(receiver)) else {
            return;
        };
        rayon::spawn(move || {
            let outcome = stream.make();
            // Nobody waits any more where the shard was dropped; the row is wiped with the stream.
            let _ = sender.send((stream, outcome));
        });
    }

    /// The noise of the next step, of unit σ: waits for it, or makes it now.
    pub(super) fn row(&mut self) -> Result<&[f64]> {
        let stream = self.bring_home()?;
        stream.make()?;
        Ok(&stream.row)
    }

    /// The row has been added to a sum, or is given up.
    pub(super) fn use_up(&mut self) {
        if let Place::Here(stream) = &mut self.place {
            stream.made = false;
        }
    }

    /// The stream, and the row of the next step if it has been made.
    pub(super) fn settled(&mut self) -> Result<(&ShardedNoise, Option<&[f64]>)> {
        let stream = self.bring_home()?;
        Ok((&stream.noise, stream.made.then_some(stream.row.as_slice())))
    }

    fn bring_home(&mut self) -> Result<&mut Stream> {
        if let Place::Away(receiver) = &self.place {
            let arrived = wait(receiver);
            let (place, outcome) = match arrived {
                Some((stream, outcome)) => (Place::Here(stream), outcome),
                None => (Place::Lost, Ok(())),
            };
            self.place = place;
            outcome?;
        }
        match &mut self.place {
            Place::Here(stream) => Ok(stream),
            _ => Err(Error::State {
                reason: "the noise that was being made is lost; open the shard again".to_owned(),
            }),
        }
    }
}

/// Waits for what a job of the pool sends. A thread of the pool works on meanwhile: the job may be waiting for it.
fn wait<T>(receiver: &Receiver<T>) -> Option<T> {
    loop {
        match receiver.try_recv() {
            Ok(value) => return Some(value),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => match rayon::yield_now() {
                None => return receiver.recv().ok(),
                Some(rayon::Yield::Executed) => {}
                Some(rayon::Yield::Idle) => std::thread::yield_now(),
            },
        }
    }
}
