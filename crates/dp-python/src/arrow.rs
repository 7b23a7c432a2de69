//! Data frames of pandas, polars and pyarrow through the Arrow C stream interface: their memory is read where it is.
//!
//! A frame is taken over as its producer hands it out, batch by batch, and read as the text that a CSV file would hold, row
//! by row; text itself is not copied. The interface is three C structures and is read here rather than by a dependency:
//! only flat columns of text, numbers, dates and times can be fields of an event.

// The interface is one of raw pointers. What is relied on is its specification: a structure that is not released points to
// as many buffers and children as it says, which stay as they are until it is released.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arguments::name_of;
use crate::errors::Refusal;

#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

/// A structure of the interface that is released when it is dropped.
macro_rules! released_on_drop {
    ($structure:ident) => {
        impl Drop for $structure {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: it has not been released, as its pointer to do so is still there.
                    unsafe { release(self) };
                }
            }
        }
    };
}
released_on_drop!(ArrowSchema);
released_on_drop!(ArrowArray);
released_on_drop!(ArrowArrayStream);

impl ArrowSchema {
    fn empty() -> Self {
        Self {
            format: std::ptr::null(),
            name: std::ptr::null(),
            metadata: std::ptr::null(),
            flags: 0,
            n_children: 0,
            children: std::ptr::null_mut(),
            dictionary: std::ptr::null_mut(),
            release: None,
            private_data: std::ptr::null_mut(),
        }
    }

    fn text(pointer: *const c_char) -> String {
        if pointer.is_null() {
            return String::new();
        }
        // SAFETY: names and formats are strings that end with a zero byte.
        unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
    }

    fn kind(&self) -> Option<Kind> {
        Kind::parse(&Self::text(self.format))
    }
}

impl ArrowArray {
    fn empty() -> Self {
        Self {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: std::ptr::null_mut(),
            children: std::ptr::null_mut(),
            dictionary: std::ptr::null_mut(),
            release: None,
            private_data: std::ptr::null_mut(),
        }
    }

    /// A buffer, if the array has it.
    fn buffer<T>(&self, index: i64) -> Option<*const T> {
        if index >= self.n_buffers {
            return None;
        }
        // SAFETY: there are `n_buffers` pointers.
        let buffer = unsafe { *self.buffers.add(index as usize) };
        (!buffer.is_null()).then_some(buffer.cast())
    }

    /// The value of a buffer at a place.
    fn at<T: Copy>(&self, buffer: i64, place: usize) -> Option<T> {
        // SAFETY: a buffer of values has one for every place below `offset + length`, which callers keep to.
        self.buffer::<T>(buffer).map(|values| unsafe { values.add(place).read_unaligned() })
    }

    fn bit(&self, buffer: i64, place: usize) -> Option<bool> {
        self.at::<u8>(buffer, place / 8).map(|byte| byte >> (place % 8) & 1 == 1)
    }

    /// Whether there is a value at a place; where there is no bitmap, there is.
    fn is_valid(&self, place: usize) -> bool {
        self.null_count == 0 || self.bit(0, place).unwrap_or(true)
    }

    /// Bytes of a buffer.
    fn bytes(&self, buffer: i64, start: usize, length: usize) -> Option<&[u8]> {
        if length == 0 {
            return Some(&[]);
        }
        // SAFETY: offsets and views point into their buffer of data, which lives as long as the array.
        self.buffer::<u8>(buffer).map(|data| unsafe { std::slice::from_raw_parts(data.add(start), length) })
    }
}

/// The types that have one text.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Null,
    Bool,
    Int(u8),
    Unsigned(u8),
    Single,
    Double,
    Text,
    LargeText,
    ViewedText,
    Days,
    /// Units a second, and whether they are an instant or a time on a clock.
    Time(i128, bool),
}

impl Kind {
    fn parse(format: &str) -> Option<Self> {
        Some(match format {
            "n" => Self::Null,
            "b" => Self::Bool,
            "c" => Self::Int(1),
            "s" => Self::Int(2),
            "i" => Self::Int(4),
            "l" => Self::Int(8),
            "C" => Self::Unsigned(1),
            "S" => Self::Unsigned(2),
            "I" => Self::Unsigned(4),
            "L" => Self::Unsigned(8),
            "f" => Self::Single,
            "g" => Self::Double,
            "u" | "z" => Self::Text,
            "U" | "Z" => Self::LargeText,
            "vu" | "vz" => Self::ViewedText,
            "tdD" => Self::Days,
            "tdm" => Self::Time(1_000, false),
            other => {
                let (unit, zone) = other.strip_prefix("ts")?.split_once(':')?;
                let units = match unit {
                    "s" => 1,
                    "m" => 1_000,
                    "u" => 1_000_000,
                    "n" => 1_000_000_000,
                    _ => return None,
                };
                Self::Time(units, !zone.is_empty())
            }
        })
    }

    fn integer(self, array: &ArrowArray, place: usize) -> Option<i128> {
        Some(match self {
            Self::Int(1) => array.at::<i8>(1, place)?.into(),
            Self::Int(2) => array.at::<i16>(1, place)?.into(),
            Self::Int(4) => array.at::<i32>(1, place)?.into(),
            Self::Int(_) => array.at::<i64>(1, place)?.into(),
            Self::Unsigned(1) => array.at::<u8>(1, place)?.into(),
            Self::Unsigned(2) => array.at::<u16>(1, place)?.into(),
            Self::Unsigned(4) => array.at::<u32>(1, place)?.into(),
            Self::Unsigned(_) => array.at::<u64>(1, place)?.into(),
            _ => return None,
        })
    }

    /// The text at a place: that of the frame itself, or written into a buffer; nothing for no value.
    fn text<'a>(self, array: &'a ArrowArray, place: usize, written: &mut Vec<u8>) -> Option<Piece<'a>> {
        if !array.is_valid(place) {
            return None;
        }
        let done = match self {
            Self::Null => return None,
            Self::Text => {
                let (start, end) = (array.at::<i32>(1, place)?, array.at::<i32>(1, place + 1)?);
                return array.bytes(2, start as usize, (end - start) as usize).map(Piece::Here);
            }
            Self::LargeText => {
                let (start, end) = (array.at::<i64>(1, place)?, array.at::<i64>(1, place + 1)?);
                return array.bytes(2, start as usize, (end - start) as usize).map(Piece::Here);
            }
            Self::ViewedText => {
                let view = array.at::<[u32; 4]>(1, place)?;
                let length = view[0] as usize;
                // Up to 12 bytes stand in the view itself.
                let found = if length <= 12 {
                    array.bytes(1, 16 * place + 4, length)
                } else {
                    array.bytes(2 + i64::from(view[2]), view[3] as usize, length)
                };
                return found.map(Piece::Here);
            }
            Self::Bool => write!(written, "{}", array.bit(1, place)?),
            Self::Int(_) | Self::Unsigned(_) => write!(written, "{}", self.integer(array, place)?),
            Self::Single => write!(written, "{}", array.at::<f32>(1, place)?),
            Self::Double => write!(written, "{}", array.at::<f64>(1, place)?),
            Self::Days => {
                let day = i128::from(array.at::<i32>(1, place)?) * 86_400_000_000_000;
                write!(written, "{}", clock(day)?.date())
            }
            Self::Time(units, instant) => {
                let nanoseconds = i128::from(array.at::<i64>(1, place)?) * (1_000_000_000 / units);
                if instant {
                    write!(written, "{}", jiff::Timestamp::from_nanosecond(nanoseconds).ok()?)
                } else {
                    write!(written, "{}", clock(nanoseconds)?)
                }
            }
        };
        done.ok().map(|()| Piece::Written)
    }
}

/// What a clock shows so many nanoseconds after 1970 began there.
fn clock(nanoseconds: i128) -> Option<jiff::civil::DateTime> {
    let instant = jiff::Timestamp::from_nanosecond(nanoseconds).ok()?;
    Some(instant.to_zoned(jiff::tz::TimeZone::UTC).datetime())
}

enum Piece<'a> {
    Here(&'a [u8]),
    Written,
}

/// The fields of a row as texts, or nothing where there is no value.
type Fields<'a> = [Option<&'a [u8]>];

/// A data frame: its columns by name, and its batches.
pub(crate) struct Frame {
    schema: ArrowSchema,
    batches: Vec<ArrowArray>,
}

// SAFETY: nothing is changed after it was taken over, and the interface lets any thread read and release.
unsafe impl Send for Frame {}
// SAFETY: as above.
unsafe impl Sync for Frame {}

impl Frame {
    /// Takes over what an object hands out.
    ///
    /// # Errors
    /// An object without the interface, or one whose producer fails.
    pub(crate) fn take(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        if !given.hasattr("__arrow_c_stream__")? {
            return Err(Refusal::kind(format!(
                "frame is {}; a table with the Arrow stream interface is needed, such as one of pandas, polars or pyarrow",
                name_of(given)
            ))
            .into());
        }
        let capsule = given.call_method0("__arrow_c_stream__")?;
        let capsule = capsule.cast::<PyCapsule>()?;
        let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<ArrowArrayStream>();
        // SAFETY: a capsule of this name holds a stream. It is moved out, and what is left is marked as released.
        let mut stream = unsafe {
            let stream = pointer.read();
            (*pointer.as_ptr()).release = None;
            stream
        };
        let broken =
            || PyErr::from(Refusal::input("frame could not be read through the Arrow stream interface"));
        if stream.release.is_none() {
            return Err(broken());
        }
        let mut schema = ArrowSchema::empty();
        let get = stream.get_schema.ok_or_else(broken)?;
        // SAFETY: the stream is live, and the schema a place to write to.
        if unsafe { get(&raw mut stream, &raw mut schema) } != 0 || ArrowSchema::text(schema.format) != "+s" {
            return Err(broken());
        }
        let mut batches = Vec::new();
        let get = stream.get_next.ok_or_else(broken)?;
        loop {
            let mut batch = ArrowArray::empty();
            // SAFETY: as above.
            if unsafe { get(&raw mut stream, &raw mut batch) } != 0 {
                return Err(broken());
            }
            // The end of a stream is an array that is released already.
            if batch.release.is_none() {
                break;
            }
            if batch.n_children != schema.n_children {
                return Err(broken());
            }
            batches.push(batch);
        }
        Ok(Self { schema, batches })
    }

    fn fields(&self) -> Vec<&ArrowSchema> {
        // SAFETY: there are `n_children` pointers to live schemas.
        (0..self.schema.n_children as usize)
            .map(|index| unsafe { &**self.schema.children.add(index) })
            .collect()
    }

    /// Where the columns stand, and what they hold.
    fn places(&self, columns: &[String]) -> Result<Vec<(usize, Kind, Option<Kind>)>, Refusal> {
        let fields = self.fields();
        let names: Vec<String> = fields.iter().map(|field| ArrowSchema::text(field.name)).collect();
        let place = |column: &String| {
            let index = names.iter().position(|name| name == column).ok_or_else(|| {
                let known: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                Refusal::input(format!(
                    "frame has no column `{column}`; the columns are {}",
                    known.join(", ")
                ))
            })?;
            // SAFETY: a dictionary, where there is one, is a live schema.
            let dictionary = unsafe { fields[index].dictionary.as_ref() };
            let kind = fields[index]
                .kind()
                .filter(|kind| dictionary.is_none() || matches!(kind, Kind::Int(_) | Kind::Unsigned(_)));
            let meant = dictionary.map(ArrowSchema::kind);
            match (kind, meant) {
                (Some(kind), None) => Ok((index, kind, None)),
                (Some(kind), Some(Some(meant))) => Ok((index, kind, Some(meant))),
                _ => Err(Refusal::kind(format!(
                    "column `{column}` of frame has Arrow type `{}`; text, numbers, dates and times are read",
                    ArrowSchema::text(fields[index].format)
                ))),
            }
        };
        columns.iter().map(place).collect()
    }

    /// Refuses columns that the frame does not have, or that have no text.
    pub(crate) fn check(&self, columns: &[String]) -> Result<(), Refusal> {
        self.places(columns).map(drop)
    }

    /// Hands every row to `each`: its number, counted from 1, and the columns in their order, each as text or as nothing.
    pub(crate) fn read<E>(
        &self,
        columns: &[String],
        each: &mut dyn FnMut(u64, &Fields<'_>) -> Result<(), E>,
    ) -> Result<(), E>
    where
        E: From<Refusal>,
    {
        let places = self.places(columns)?;
        let mut written: Vec<Vec<u8>> = vec![Vec::new(); places.len()];
        let mut number = 0;
        for batch in &self.batches {
            // SAFETY: there are `n_children` pointers to live arrays, as many as the schema has.
            let arrays: Vec<&ArrowArray> =
                places.iter().map(|(index, ..)| unsafe { &**batch.children.add(*index) }).collect();
            for row in 0..batch.length.max(0) as usize {
                number += 1;
                let mut pieces = Vec::with_capacity(places.len());
                for (((_, kind, meant), array), written) in places.iter().zip(&arrays).zip(&mut written) {
                    let place = row + batch.offset as usize + array.offset as usize;
                    written.clear();
                    pieces.push(match meant {
                        None => kind.text(array, place, written),
                        Some(meant) => look_up(*kind, *meant, array, place, written),
                    });
                }
                let fields: Vec<Option<&[u8]>> = pieces
                    .iter()
                    .zip(&written)
                    .map(|(piece, written)| match piece {
                        Some(Piece::Here(text)) => Some(*text),
                        Some(Piece::Written) => Some(written.as_slice()),
                        None => None,
                    })
                    .collect();
                each(number, &fields)?;
            }
        }
        Ok(())
    }
}

/// The text of a value that is an index into a dictionary.
fn look_up<'a>(
    index: Kind,
    meant: Kind,
    array: &'a ArrowArray,
    place: usize,
    written: &mut Vec<u8>,
) -> Option<Piece<'a>> {
    if !array.is_valid(place) {
        return None;
    }
    // SAFETY: an array whose schema has a dictionary has one, which lives as long as the array.
    let dictionary = unsafe { array.dictionary.as_ref() }?;
    let entry = usize::try_from(index.integer(array, place)?).ok()?;
    if entry >= dictionary.length.max(0) as usize {
        return None;
    }
    meant.text(dictionary, entry + dictionary.offset as usize, written)
}
