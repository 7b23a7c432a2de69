//! A file in blocks that are read apart from each other, every row in exactly one of them.
//!
//! A block is a range of bytes of a CSV file. Its rows are those that begin in it, and where the first of them begins depends on
//! what stands before: a line may end within quotes. A [`Passage`] says what a range of bytes makes of every place in which it
//! may begin; passages are put together, and so every block finds its place without reading what is before it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use csv::ReaderBuilder;
use serde::{Deserialize, Serialize};

use super::Row;
use super::csv::{place as column_place, read_part};
use crate::error::{Error, Result};

/// Bytes that are read at a time behind the end of a block.
const TAIL: usize = 4096;

/// Where in a CSV file a byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// Between two rows.
    Row,
    /// At the beginning of a field.
    Field,
    /// In a field without quotes.
    Plain,
    /// Within quotes.
    Quoted,
    /// Behind a quote that ends them, unless another one follows.
    Quote,
}

impl Place {
    const ALL: [Self; 5] = [Self::Row, Self::Field, Self::Plain, Self::Quoted, Self::Quote];

    /// The place behind a byte.
    fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Quoted, b'"') => Self::Quote,
            (Self::Quoted, _) | (Self::Row | Self::Field | Self::Quote, b'"') => Self::Quoted,
            (_, b'\n' | b'\r') => Self::Row,
            (_, b',') => Self::Field,
            _ => Self::Plain,
        }
    }
}

/// What a range of bytes makes of every place in which it may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage([Place; 5]);

impl Passage {
    /// The passage of no bytes.
    pub fn none() -> Self {
        Self(Place::ALL)
    }

    /// The passage of some bytes.
    ///
    /// # Complexity
    /// Linear, and as fast as a search where there are no quotes.
    pub fn of(bytes: &[u8]) -> Self {
        let Some(last) = bytes.last() else { return Self::none() };
        if !bytes.contains(&b'"') {
            let end = Place::Plain.after(*last);
            return Self([end, end, end, Place::Quoted, end]);
        }
        let mut places = Place::ALL;
        for byte in bytes {
            places = places.map(|place| place.after(*byte));
        }
        Self(places)
    }

    /// This passage, then another.
    pub fn then(self, next: Self) -> Self {
        Self(self.0.map(|place| next.from(place)))
    }

    /// The place behind it.
    pub fn from(self, place: Place) -> Place {
        self.0[place as usize]
    }
}

/// Where the used columns of a CSV file stand, found once for all of its blocks.
#[derive(Debug, Clone)]
pub struct Layout {
    columns: Vec<String>,
    places: Vec<usize>,
}

impl Layout {
    /// The layout of a file.
    ///
    /// # Errors
    /// A file that cannot be read, or a column that it does not have.
    pub fn of(path: &Path, columns: &[String]) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::file(path, error))?;
        let mut reader = ReaderBuilder::new().flexible(true).from_reader(file);
        let header = reader.byte_headers().map_err(|error| Error::file(path, error))?;
        let places = columns.iter().map(|column| column_place(path, header, column));
        Ok(Self { places: places.collect::<Result<_>>()?, columns: columns.to_vec() })
    }
}

/// The bytes of a block.
pub struct Block {
    start: u64,
    end: u64,
    bytes: Vec<u8>,
}

impl Block {
    /// Reads the bytes `start .. end` of a file.
    ///
    /// # Errors
    /// A file that cannot be read, or that ends before.
    pub fn read(path: &Path, start: u64, end: u64) -> Result<Self> {
        let mut bytes = vec![0; (end - start) as usize];
        File::open(path)
            .and_then(|mut file| {
                file.seek(SeekFrom::Start(start))?;
                file.read_exact(&mut bytes)
            })
            .map_err(|error| Error::file(path, error))?;
        Ok(Self { start, end, bytes })
    }

    /// What it makes of every place in which it may begin.
    pub fn passage(&self) -> Passage {
        Passage::of(&self.bytes)
    }

    /// Hands every row that begins in the block to `each`, given the place of its first byte. Lines are counted within the block.
    ///
    /// # Errors
    /// A file that cannot be read, or what `each` returns.
    pub fn rows(
        mut self,
        path: &Path,
        place: Place,
        layout: &Layout,
        each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut first = 0;
        let mut now = place;
        while now != Place::Row {
            let Some(byte) = self.bytes.get(first) else { return Ok(()) };
            now = now.after(*byte);
            first += 1;
        }
        let mut now = Passage::of(&self.bytes[first..]).from(now);
        // The last row may end behind the block.
        if now != Place::Row {
            self.finish_row(path, &mut now)?;
        }
        let places = (self.start > 0).then_some(layout.places.as_slice());
        read_part(&self.bytes[first..], path, &layout.columns, places, each)
    }

    fn finish_row(&mut self, path: &Path, now: &mut Place) -> Result<()> {
        let failed = |error| Error::file(path, error);
        let mut file = File::open(path).map_err(failed)?;
        file.seek(SeekFrom::Start(self.end)).map_err(failed)?;
        let mut tail = [0; TAIL];
        loop {
            let read = file.read(&mut tail).map_err(failed)?;
            if read == 0 {
                return Ok(());
            }
            for (index, byte) in tail[..read].iter().enumerate() {
                *now = now.after(*byte);
                if *now == Place::Row {
                    self.bytes.extend_from_slice(&tail[..=index]);
                    return Ok(());
                }
            }
            self.bytes.extend_from_slice(&tail[..read]);
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(row: &Row<'_>) -> Vec<Option<Vec<u8>>> {
        (0..2).map(|column| row.field(column).map(<[u8]>::to_vec)).collect()
    }

    /// Texts with quotes, line ends within them, empty lines and all kinds of line ends, cut at every place: the rows of the
    /// blocks are those of the file, in its order, each once.
    #[test]
    fn blocks_have_the_rows_of_the_file_however_it_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let columns = ["b".to_owned(), "a".to_owned()];
        let texts = [
            "a,b\n1,2\n3,4\n",
            "a,b\r\n1,2\r\n\r\n\n3,4",
            "a,b\n\"x\ny\",\"q\"\"\n\"\n5\" pipe,6\n\"\",\"\"\n",
            "a,b\r1,\"2\r\n,\"\r\"3\"4,\"5\n",
            "\u{feff}a,b\n1,2\n\u{feff}3,\"4\n\"\n\u{feff}\n",
            "a,b\n",
        ];
        for text in texts {
            std::fs::write(&path, text).unwrap();
            let mut whole = Vec::new();
            super::super::read(&path, &columns, &mut |row| {
                whole.push(fields(row));
                Ok(())
            })
            .unwrap();
            let layout = Layout::of(&path, &columns).unwrap();
            let length = text.len() as u64;
            for size in 1..=length {
                let mut found = Vec::new();
                let (mut start, mut place) = (0, Place::Row);
                while start < length {
                    let end = (start + size).min(length);
                    let block = Block::read(&path, start, end).unwrap();
                    let passage = block.passage();
                    block
                        .rows(&path, place, &layout, &mut |row| {
                            found.push(fields(row));
                            Ok(())
                        })
                        .unwrap();
                    place = passage.from(place);
                    start = end;
                }
                assert_eq!(found, whole, "{text:?} in blocks of {size}");
            }
            // Passages are put together in any way.
            let bytes = text.as_bytes();
            for cut in 0..bytes.len() {
                let parts = Passage::of(&bytes[..cut]).then(Passage::of(&bytes[cut..]));
                assert_eq!(parts, Passage::of(bytes), "{text:?} at {cut}");
            }
        }
    }
}
