//! The connections between processes: made within a time, known to hold the same secret, and missed when they break.
//!
//! Every process listens at its address and connects to those before it, once for the dataflow and, to the first process, once
//! more for what the processes tell each other. Both ends prove that they hold the shared secret, by a keyed hash of fresh
//! numbers of both; the secret itself never travels. Everything that follows is encrypted.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use timely::communication::allocator::zero_copy::stream::Stream;

use crate::sealed::{Keys, Sealed};
use crate::secret::Secret;
use crate::{Result, failed};

/// The version of what processes tell each other.
const PROTOCOL: u32 = 2;

/// No message is longer.
pub(crate) const LONGEST: u32 = 1 << 30;

/// Nor any from somebody who has not shown yet that he holds the secret.
const LONGEST_BEFORE: u32 = 1 << 12;

/// Between two tries to connect.
const AGAIN: Duration = Duration::from_millis(50);

/// Which of how many processes this is, and where all of them listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    /// This process, counted from 0.
    pub process: usize,
    /// `host:port` of every process, in their order.
    pub addresses: Vec<String>,
    /// How long to wait for the others.
    pub patience: Duration,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Purpose {
    Data,
    Control,
}

/// How a connection begins.
#[derive(Serialize, Deserialize)]
struct Hello {
    protocol: u32,
    process: usize,
    processes: usize,
    purpose: Purpose,
    fresh: [u8; 32],
}

/// The answer to it, and the answer to that.
#[derive(Serialize, Deserialize)]
struct Proof {
    process: usize,
    fresh: [u8; 32],
    shown: [u8; 32],
}

/// That a run cannot go on, and why; the first reason stays.
#[derive(Debug, Default)]
pub struct Broken {
    set: AtomicBool,
    reason: Mutex<Option<String>>,
}

impl Broken {
    /// Notes a reason.
    pub(crate) fn set(&self, reason: impl Into<String>) {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| reason.into());
        self.set.store(true, Ordering::Release);
    }

    /// The reason, if there is one.
    pub(crate) fn reason(&self) -> Option<String> {
        if !self.set.load(Ordering::Acquire) {
            return None;
        }
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// # Errors
    /// The reason, if there is one.
    pub(crate) fn check(&self) -> Result<()> {
        self.reason().map_or(Ok(()), |reason| Err(failed(reason)))
    }
}

/// The connections of a process.
pub(crate) struct Mesh {
    /// For the dataflow, by process; nothing for this one.
    pub(crate) data: Vec<Option<Wire>>,
    /// For messages, by process: all others for the first process, the first process for all others.
    pub(crate) control: Vec<Option<Sealed>>,
    /// A number that both ends of the control connection made together, by process.
    pub(crate) sessions: Vec<[u8; 32]>,
}

impl Mesh {
    /// A connection, once both sides know each other.
    fn add(
        &mut self,
        process: usize,
        purpose: Purpose,
        stream: TcpStream,
        keys: &Keys,
        name: String,
        broken: &Arc<Broken>,
    ) {
        let stream = Sealed::new(stream, keys);
        match purpose {
            Purpose::Data => {
                let broken = Arc::clone(broken);
                self.data[process] = Some(Wire { stream, name, broken, frame: Frame::default() });
            }
            Purpose::Control => {
                self.control[process] = Some(stream);
                self.sessions[process] = keys.session;
            }
        }
    }
}

/// Connects this process to all others.
///
/// # Errors
/// An address that cannot be used, a process that does not answer in time, or one that has another secret or protocol, by name.
pub(crate) fn connect(hosts: &Hosts, secret: &Secret, broken: &Arc<Broken>) -> Result<Mesh> {
    let (here, count) = (hosts.process, hosts.addresses.len());
    let name = |process: usize| format!("process {process} ({})", hosts.addresses[process]);
    let deadline = Instant::now() + hosts.patience;
    let listener = TcpListener::bind(&hosts.addresses[here])
        .map_err(|error| failed(format!("{} cannot listen at its address: {error}", name(here))))?;
    listener.set_nonblocking(true).map_err(|error| failed(error.to_string()))?;
    let mut mesh = Mesh {
        data: (0..count).map(|_| None).collect(),
        control: (0..count).map(|_| None).collect(),
        sessions: vec![[0; 32]; count],
    };
    for process in 0..here {
        for purpose in [Purpose::Data, Purpose::Control] {
            if purpose == Purpose::Control && process != 0 {
                continue;
            }
            let stream = reach(&hosts.addresses[process], deadline).ok_or_else(|| {
                failed(format!("{} did not answer within {:?}", name(process), hosts.patience))
            })?;
            let introduced = introduce(&stream, hosts, process, purpose, secret, deadline);
            let keys = introduced.map_err(|reason| failed(format!("{}: {reason}", name(process))))?;
            mesh.add(process, purpose, stream, &keys, name(process), broken);
        }
    }
    let mut refused = String::new();
    while let Some(missing) = (here + 1..count)
        .find(|process| mesh.data[*process].is_none() || (here == 0 && mesh.control[*process].is_none()))
    {
        match listener.accept() {
            Ok((stream, _)) => match welcome(&stream, hosts, secret, deadline) {
                Ok((process, purpose, keys)) => {
                    mesh.add(process, purpose, stream, &keys, name(process), broken);
                }
                // Somebody else may knock; whether it was a process of ours shows in the end.
                Err(reason) => refused = format!("; somebody who connected was refused: {reason}"),
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if Instant::now() >= deadline {
                    return Err(failed(format!(
                        "{} did not connect within {:?}{refused}",
                        name(missing),
                        hosts.patience
                    )));
                }
                std::thread::sleep(AGAIN);
            }
            Err(error) => return Err(failed(error.to_string())),
        }
    }
    Ok(mesh)
}

/// A connection to an address, tried again until the deadline.
fn reach(address: &str, deadline: Instant) -> Option<TcpStream> {
    loop {
        let now = Instant::now();
        let left = deadline.checked_duration_since(now).filter(|left| !left.is_zero())?;
        let found = address.to_socket_addrs().ok().and_then(|mut all| all.next());
        if let Some(found) = found
            && let Ok(stream) = TcpStream::connect_timeout(&found, left)
            // Where nobody listens yet, the system may choose the address asked for as this end's own and connect it to itself.
            && stream.local_addr().ok() != Some(found)
        {
            return Some(stream);
        }
        std::thread::sleep(AGAIN.min(left));
    }
}

/// The connecting side of the introduction: the keys of the connection.
fn introduce(
    mut stream: &TcpStream,
    hosts: &Hosts,
    process: usize,
    purpose: Purpose,
    secret: &Secret,
    deadline: Instant,
) -> std::result::Result<Keys, String> {
    limit(stream, Some(deadline))?;
    let hello = Hello {
        protocol: PROTOCOL,
        process: hosts.process,
        processes: hosts.addresses.len(),
        purpose,
        fresh: fresh()?,
    };
    send(&mut stream, &hello)?;
    let answer: Proof = receive(&mut stream, LONGEST_BEFORE).map_err(|_| {
        "it refused the connection: it has another number of processes, another secret or another version"
            .to_owned()
    })?;
    let parts = [&hello.fresh, &answer.fresh];
    if answer.process != process || answer.shown != secret.proof("welcome", hosts.process, process, parts) {
        return Err("it does not hold the secret of this run".to_owned());
    }
    let proof = secret.proof("introduce", hosts.process, process, parts);
    send(&mut stream, &Proof { process: hosts.process, fresh: hello.fresh, shown: proof })?;
    limit(stream, None)?;
    let key = |purpose| secret.proof(purpose, hosts.process, process, parts);
    let (sent, received) = (key("to the listener").into(), key("from the listener").into());
    Ok(Keys { session: key("session"), sent, received })
}

/// The listening side: who it is, for what, and the keys of the connection.
fn welcome(
    mut stream: &TcpStream,
    hosts: &Hosts,
    secret: &Secret,
    deadline: Instant,
) -> std::result::Result<(usize, Purpose, Keys), String> {
    stream.set_nonblocking(false).map_err(|error| error.to_string())?;
    // Somebody who connects and says nothing does not hold up the others for long.
    limit(stream, Some(deadline.min(Instant::now() + Duration::from_secs(5))))?;
    let hello: Hello = receive(&mut stream, LONGEST_BEFORE)?;
    if hello.protocol != PROTOCOL {
        return Err(format!("process {} has another version of the program", hello.process));
    }
    if hello.processes != hosts.addresses.len()
        || !(hosts.process + 1..hello.processes).contains(&hello.process)
    {
        return Err(format!(
            "process {} was started as one of {}, and this one as one of {}",
            hello.process,
            hello.processes,
            hosts.addresses.len()
        ));
    }
    let answer = fresh()?;
    let parts = [&hello.fresh, &answer];
    let proof = secret.proof("welcome", hello.process, hosts.process, parts);
    send(&mut stream, &Proof { process: hosts.process, fresh: answer, shown: proof })?;
    let reply: Proof = receive(&mut stream, LONGEST_BEFORE)?;
    if reply.shown != secret.proof("introduce", hello.process, hosts.process, parts) {
        return Err(format!("process {} does not hold the secret of this run", hello.process));
    }
    limit(stream, None)?;
    let key = |purpose| secret.proof(purpose, hello.process, hosts.process, parts);
    let (sent, received) = (key("from the listener").into(), key("to the listener").into());
    Ok((hello.process, hello.purpose, Keys { session: key("session"), sent, received }))
}

fn limit(stream: &TcpStream, deadline: Option<Instant>) -> std::result::Result<(), String> {
    let left = deadline
        .map(|deadline| deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
    let set = stream.set_read_timeout(left).and_then(|()| stream.set_write_timeout(left));
    set.and_then(|()| stream.set_nodelay(true)).map_err(|error| error.to_string())
}

/// Fresh bytes from the system.
fn fresh() -> std::result::Result<[u8; 32], String> {
    dp_events::part::fresh().map_err(|error| error.to_string())
}

/// Sends a message: its length, and itself as JSON.
pub(crate) fn send(stream: &mut impl Write, message: &impl Serialize) -> std::result::Result<(), String> {
    let text = serde_json::to_vec(message).map_err(|error| error.to_string())?;
    let length = u32::try_from(text.len()).ok().filter(|length| *length <= LONGEST);
    let length = length.ok_or("a message is too long")?;
    let mut bytes = Vec::with_capacity(4 + text.len());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&text);
    stream.write_all(&bytes).and_then(|()| stream.flush()).map_err(|error| error.to_string())
}

/// Receives a message of at most so many bytes.
pub(crate) fn receive<M: DeserializeOwned>(
    stream: &mut impl Read,
    longest: u32,
) -> std::result::Result<M, String> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).map_err(|error| error.to_string())?;
    let length = u32::from_le_bytes(length);
    if length > longest {
        return Err("a message is too long".to_owned());
    }
    let mut text = vec![0; length as usize];
    stream.read_exact(&mut text).map_err(|error| error.to_string())?;
    serde_json::from_slice(&text).map_err(|error| error.to_string())
}

/// A connection of the dataflow, which tells a process that is gone from one that has finished.
///
/// Timely ends a stream with an empty message. Where the connection ends without one, the run is broken; the thread that reads or
/// writes then stays where it is, and the workers find out from [`Broken`].
pub(crate) struct Wire {
    stream: Sealed,
    name: String,
    broken: Arc<Broken>,
    frame: Frame,
}

/// How far the reading side is within a message.
#[derive(Default, Clone)]
struct Frame {
    header: Vec<u8>,
    /// Bytes of the message that are still to come.
    rest: u64,
    finished: bool,
}

/// A header of timely: six words, of which the fifth is the length.
const HEADER: usize = 48;

impl Frame {
    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.rest > 0 {
                let part = (bytes.len() as u64).min(self.rest);
                self.rest -= part;
                bytes = &bytes[part as usize..];
                continue;
            }
            let part = bytes.len().min(HEADER - self.header.len());
            self.header.extend_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
            if self.header.len() == HEADER {
                let length = self.header[32..40].try_into().map_or(0, u64::from_be_bytes);
                self.rest = length;
                self.finished = length == 0;
                self.header.clear();
            }
        }
    }
}

impl Wire {
    /// Notes that the other side is gone, and stays here: the process ends without this thread.
    fn lost(&self) -> ! {
        self.broken.set(format!("{} is gone", self.name));
        loop {
            std::thread::park();
        }
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stream.read(buffer) {
            Ok(0) if !self.frame.finished => self.lost(),
            Ok(read) => {
                self.frame.take(&buffer[..read]);
                Ok(read)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(_) => self.lost(),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.stream.write(bytes) {
            Ok(written) => Ok(written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(_) => self.lost(),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Stream for Wire {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            stream: self.stream.try_clone()?,
            name: self.name.clone(),
            broken: Arc::clone(&self.broken),
            frame: self.frame.clone(),
        })
    }

    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.stream.set_nonblocking(nonblocking)
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        // A side that is gone already has nothing more to be told.
        let _ = self.stream.shutdown(how);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_know_when_a_stream_has_finished() {
        let message = |length: usize| {
            let mut bytes = vec![0; HEADER + length];
            bytes[32..40].copy_from_slice(&(length as u64).to_be_bytes());
            bytes
        };
        let stream: Vec<u8> = [message(5), message(100), message(0)].concat();
        for chunk in 1..stream.len() {
            let mut frame = Frame::default();
            for (index, part) in stream.chunks(chunk).enumerate() {
                assert!(!frame.finished, "{chunk}: part {index}");
                frame.take(part);
            }
            assert!(frame.finished, "{chunk}");
        }
    }
}
