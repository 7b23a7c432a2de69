//! What a run has read, remembered as a keyed digest in the sealed state: a past that was edited is noticed.

use anyhow::{Result, bail};
use dp_mechanisms::noise::HashKey;

use crate::records::{Place, Row};

/// The most marks that are kept. When there are more, every other one is forgotten.
const MARKS: usize = 64;

/// The number of bytes of a saved digest, whatever was read.
pub(crate) const ENCODED: usize = 32 + 32 + 8 + 8 + 8 * MARKS;

/// A chain of hashes over the rows that were read, in order, with marks on the way that tell where a difference lies.
///
/// The key is a secret of its own: without it, the digest of guessed rows cannot be compared.
pub(crate) struct Consumed {
    start: HashKey,
    chain: HashKey,
    rows: u64,
    /// A mark is kept after every so many rows.
    spacing: u64,
    marks: Vec<u64>,
}

impl Consumed {
    /// Nothing read yet.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self::from_start(HashKey::from_system()?))
    }

    fn from_start(start: HashKey) -> Self {
        let chain = HashKey::from_bytes(*start.as_bytes());
        Self { start, chain, rows: 0, spacing: 1, marks: Vec::new() }
    }

    /// What a saved digest holds; nothing read where there is none.
    pub(crate) fn saved(bytes: &[u8], done: usize) -> Result<Self> {
        match Self::decode(bytes) {
            Some(consumed) => Ok(consumed),
            None if done == 0 => Self::new(),
            None => bail!(
                "the state does not remember what it has read, as states of earlier versions; finish it with the version \
                 that began it"
            ),
        }
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: &[u8]) {
        self.chain = self.chain.child(row);
        self.rows += 1;
        if self.rows.is_multiple_of(self.spacing) {
            self.marks.push(self.mark());
            if self.marks.len() == MARKS {
                self.spacing *= 2;
                self.marks = self.marks.iter().skip(1).step_by(2).copied().collect();
            }
        }
    }

    fn mark(&self) -> u64 {
        self.chain.number(b"mark")
    }

    /// Starts to read the same rows again, to compare them.
    pub(crate) fn again(&self) -> Again<'_> {
        Again { earlier: self, now: Self::from_start(HashKey::from_bytes(*self.start.as_bytes())), agreed: 0 }
    }

    /// Bytes for a sealed state; their number does not depend on what was read.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ENCODED);
        bytes.extend_from_slice(self.start.as_bytes());
        bytes.extend_from_slice(self.chain.as_bytes());
        for number in [self.rows, self.spacing].into_iter().chain(self.marks.iter().copied()) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.resize(ENCODED, 0);
        bytes
    }

    /// Reads what [`Self::encode`] wrote.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (start, bytes) = bytes.split_first_chunk()?;
        let (chain, bytes) = bytes.split_first_chunk()?;
        let (numbers, rest) = bytes.as_chunks();
        let mut numbers = numbers.iter().map(|number| u64::from_le_bytes(*number));
        let (rows, spacing) = (numbers.next()?, numbers.next()?);
        let kept = usize::try_from(rows.checked_div(spacing)?).ok().filter(|kept| *kept < MARKS)?;
        let marks: Vec<u64> = numbers.by_ref().take(kept).collect();
        let whole = rest.is_empty() && marks.len() == kept && numbers.count() == MARKS - kept;
        let (start, chain) = (HashKey::from_bytes(*start), HashKey::from_bytes(*chain));
        whole.then_some(Self { start, chain, rows, spacing, marks })
    }
}

/// Rows that are read again, compared with what was read before.
pub(crate) struct Again<'a> {
    earlier: &'a Consumed,
    now: Consumed,
    /// The rows up to here are the same.
    agreed: u64,
}

impl Again<'_> {
    /// Adds a row.
    ///
    /// # Errors
    /// The rows since the last mark differ from those that were read before.
    pub(crate) fn push(&mut self, row: &[u8], place: &Place) -> Result<()> {
        self.now.push(row);
        let rows = self.now.rows;
        let (index, between) = (rows / self.earlier.spacing, rows % self.earlier.spacing);
        let known = match usize::try_from(index) {
            _ if rows == self.earlier.rows => Some(self.earlier.mark()),
            Ok(index) if between == 0 && index > 0 => self.earlier.marks.get(index - 1).copied(),
            _ => None,
        };
        match known {
            Some(known) if known != self.now.mark() => bail!(
                "{place}: {} not what this state has used; restore the rows as they were, and append new ones at the end",
                match self.agreed + 1 {
                    first if first == rows => format!("row {rows} is"),
                    first => format!("rows {first} to {rows} are"),
                }
            ),
            Some(_) => self.agreed = rows,
            None => {}
        }
        Ok(())
    }

    /// Ends the comparison.
    ///
    /// # Errors
    /// More or fewer rows than were read before.
    pub(crate) fn finish(self) -> Result<()> {
        let (now, earlier) = (self.now.rows, self.earlier.rows);
        if now != earlier {
            bail!(
                "the steps that the state has released have {now} rows, but it has used {earlier}; restore the rows as they \
                 were"
            );
        }
        Ok(())
    }
}

/// A row as bytes that no other row has.
pub(crate) fn bytes_of(row: &Row) -> Vec<u8> {
    let mut bytes = Vec::new();
    match &row.fields {
        Ok(fields) => {
            for field in fields {
                bytes.extend_from_slice(&(field.len() as u64).to_le_bytes());
                bytes.extend_from_slice(field.as_bytes());
            }
        }
        Err(fault) => bytes.extend_from_slice(fault.what.as_bytes()),
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rows: u64) -> Consumed {
        let mut consumed = Consumed::from_start(HashKey::from_bytes([3; 32]));
        (0..rows).for_each(|row| consumed.push(&row.to_le_bytes()));
        consumed
    }

    /// Every change of one row is found, and within as few rows as the marks allow.
    #[test]
    fn a_changed_row_is_found_where_it_is() {
        let place = Place::unknown();
        for rows in [1, 2, 63, 64, 65, 127, 128, 1000] {
            let earlier = read(rows);
            let saved = Consumed::decode(&earlier.encode()).unwrap();
            assert_eq!(earlier.encode().len(), ENCODED);
            let width = rows.div_ceil(MARKS as u64 / 2).next_power_of_two();
            for changed in (0..=rows).filter(|row| rows < 100 || row % 37 == 0) {
                let mut again = saved.again();
                let refused = (0..rows).find(|row| {
                    let content = if *row == changed { u64::MAX } else { *row };
                    again.push(&content.to_le_bytes(), &place).is_err()
                });
                match refused {
                    Some(found) => {
                        assert!((changed..changed + width).contains(&found), "{rows} {changed} {found}");
                    }
                    None => assert_eq!(changed, rows, "{rows}: nothing was noticed"),
                }
            }
        }
    }

    #[test]
    fn rows_that_are_missing_or_too_many_are_noticed_and_damage_is_not_read() {
        let earlier = read(10);
        for rows in [9, 10, 11] {
            let mut again = earlier.again();
            (0..rows).for_each(|row: u64| again.push(&row.to_le_bytes(), &Place::unknown()).unwrap());
            assert_eq!(again.finish().is_ok(), rows == 10);
        }
        let bytes = earlier.encode();
        for length in 0..ENCODED {
            assert!(Consumed::decode(&bytes[..length]).is_none());
        }
    }
}
