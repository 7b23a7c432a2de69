//! A connection that nobody else can read or change: every piece is encrypted and authenticated, in its order.
//!
//! ChaCha20-Poly1305 with a key for each direction, made of the shared secret and of fresh numbers of both sides, and the number
//! of the piece as its nonce. A piece that was changed, left out, repeated or put elsewhere ends the connection. Whoever
//! listens sees when how many bytes go from where to where.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, Nonce, Tag};
use zeroize::{Zeroize, Zeroizing};

/// The most bytes in a piece.
const PIECE: usize = 1 << 16;

/// The bytes that show that a piece is what was sent.
const TAG: usize = 16;

/// What both sides of a connection know after their introduction.
pub(crate) struct Keys {
    /// A number for one use beside the connection itself.
    pub(crate) session: [u8; 32],
    /// For what this side sends.
    pub(crate) sent: Zeroizing<[u8; 32]>,
    /// For what the other side sends.
    pub(crate) received: Zeroizing<[u8; 32]>,
}

/// One direction: its cipher, and how many pieces went that way.
struct Direction {
    cipher: ChaCha20Poly1305,
    pieces: u64,
    bytes: Vec<u8>,
    /// Where the bytes begin that nobody has taken yet.
    next: usize,
}

impl Direction {
    fn new(key: &[u8; 32]) -> Arc<Mutex<Self>> {
        let cipher = ChaCha20Poly1305::new(key.into());
        Arc::new(Mutex::new(Self { cipher, pieces: 0, bytes: Vec::new(), next: 0 }))
    }

    fn nonce(&mut self) -> Nonce {
        let mut nonce = Nonce::default();
        nonce[..8].copy_from_slice(&self.pieces.to_le_bytes());
        self.pieces += 1;
        nonce
    }

    /// A piece as it travels: its length, itself and its tag.
    fn seal(&mut self, piece: &[u8]) -> io::Result<&[u8]> {
        let length = (piece.len() as u32).to_le_bytes();
        self.bytes.clear();
        self.bytes.extend_from_slice(&length);
        self.bytes.extend_from_slice(piece);
        let nonce = self.nonce();
        let tag = self.cipher.encrypt_in_place_detached(&nonce, &length, &mut self.bytes[4..]);
        self.bytes.extend_from_slice(&tag.map_err(|_| forged())?);
        Ok(&self.bytes)
    }

    /// Reads the next piece; false where the stream has ended between two of them.
    fn open(&mut self, stream: &mut impl Read) -> io::Result<bool> {
        let mut length = [0; 4];
        loop {
            match stream.read(&mut length[..1]) {
                Ok(0) => return Ok(false),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        stream.read_exact(&mut length[1..])?;
        let size = u32::from_le_bytes(length) as usize;
        if size > PIECE {
            return Err(forged());
        }
        self.bytes.zeroize();
        self.bytes.resize(size + TAG, 0);
        self.next = 0;
        stream.read_exact(&mut self.bytes)?;
        let nonce = self.nonce();
        let (piece, tag) = self.bytes.split_at_mut(size);
        let opened = self.cipher.decrypt_in_place_detached(&nonce, &length, piece, Tag::from_slice(tag));
        self.bytes.truncate(size);
        if opened.is_err() {
            self.bytes.zeroize();
            return Err(forged());
        }
        Ok(true)
    }
}

fn forged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a piece of a connection is not what was sent")
}

/// A connection whose bytes are sealed. Copies of it share their place in both directions.
pub(crate) struct Sealed {
    stream: TcpStream,
    sent: Arc<Mutex<Direction>>,
    received: Arc<Mutex<Direction>>,
}

fn locked(direction: &Mutex<Direction>) -> MutexGuard<'_, Direction> {
    direction.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sealed {
    pub(crate) fn new(stream: TcpStream, keys: &Keys) -> Self {
        Self { stream, sent: Direction::new(&keys.sent), received: Direction::new(&keys.received) }
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        let (sent, received) = (Arc::clone(&self.sent), Arc::clone(&self.received));
        Ok(Self { stream: self.stream.try_clone()?, sent, received })
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.stream.set_nonblocking(nonblocking)
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.stream.shutdown(how)
    }
}

impl Read for Sealed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let mut received = locked(&self.received);
        while received.next == received.bytes.len() {
            if !received.open(&mut self.stream)? {
                return Ok(0);
            }
        }
        let rest = &received.bytes[received.next..];
        let taken = rest.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&rest[..taken]);
        received.next += taken;
        Ok(taken)
    }
}

impl Write for Sealed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        if !piece.is_empty() {
            let mut sent = locked(&self.sent);
            self.stream.write_all(sent.seal(piece)?)?;
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direction() -> Direction {
        Arc::into_inner(Direction::new(&[5; 32])).unwrap().into_inner().unwrap()
    }

    fn opened(direction: &mut Direction, bytes: &[u8]) -> Option<Vec<u8>> {
        direction.open(&mut &*bytes).ok()?.then(|| direction.bytes.clone())
    }

    /// What arrives is what was sent, in order; anything else is noticed, and nothing of it can be read on the way.
    #[test]
    fn pieces_arrive_as_they_were_sent_or_not_at_all() {
        let mut sender = direction();
        let long = vec![7; PIECE];
        let pieces: Vec<Vec<u8>> = [&b"all good things"[..], b"", &long]
            .iter()
            .map(|piece| sender.seal(piece).unwrap().to_vec())
            .collect();
        assert!(!pieces[0].windows(4).any(|part| part == b"good"));
        let mut receiver = direction();
        assert_eq!(opened(&mut receiver, &pieces[0]).unwrap(), b"all good things");
        assert_eq!(opened(&mut receiver, &pieces[1]).unwrap(), b"");
        assert_eq!(opened(&mut receiver, &pieces[2]).unwrap(), long);
        assert!(!receiver.open(&mut &b""[..]).unwrap(), "the stream has ended");
        // Every bit counts, and so does the order.
        for bit in 0..8 * pieces[0].len() {
            let mut changed = pieces[0].clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(opened(&mut direction(), &changed).is_none(), "bit {bit}");
        }
        let mut receiver = direction();
        assert!(opened(&mut receiver, &pieces[1]).is_none(), "left out");
        let mut receiver = direction();
        opened(&mut receiver, &pieces[0]).unwrap();
        assert!(opened(&mut receiver, &pieces[0]).is_none(), "repeated");
        assert!(opened(&mut direction(), &pieces[0][..10]).is_none(), "cut off");
    }
}
