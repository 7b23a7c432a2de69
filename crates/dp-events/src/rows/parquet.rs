//! Parquet files: the used columns alone are decoded.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::Type;

use super::{Fields, Row};
use crate::error::{Error, Mistake, Result};

/// The names of all columns, in their order.
pub(super) fn columns(path: &Path) -> Result<Vec<String>> {
    let file = File::open(path).map_err(|error| Error::file(path, error))?;
    let reader = SerializedFileReader::new(file).map_err(|error| failed(path, &error))?;
    let schema = reader.metadata().file_metadata().schema();
    Ok(schema.get_fields().iter().map(|field| field.name().to_owned()).collect())
}

pub(super) fn read(
    path: &Path,
    columns: &[String],
    each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
) -> Result<()> {
    let failed = |error| failed(path, &error);
    let file = File::open(path).map_err(|error| Error::file(path, error))?;
    let reader = SerializedFileReader::new(file).map_err(failed)?;
    let schema = reader.metadata().file_metadata().schema();
    let mut wanted = Vec::new();
    for field in schema.get_fields() {
        if columns.iter().any(|column| column == field.name()) {
            wanted.push(field.clone());
        }
    }
    // Where in the projection each asked column stands; the projection keeps the order of the file.
    let mut places = Vec::new();
    for column in columns {
        let place = wanted.iter().position(|field| field.name() == column);
        places.push(place.ok_or_else(|| {
            let list: Vec<String> =
                schema.get_fields().iter().map(|field| format!("`{}`", field.name())).collect();
            let message = format!("there is no column `{column}`; the columns are {}", list.join(", "));
            Error::Input(Mistake { file: path.to_owned(), line: 1, message })
        })?);
    }
    let projection =
        Type::group_type_builder(schema.name()).with_fields(wanted.clone()).build().map_err(failed)?;
    let rows = reader.get_row_iter(Some(projection)).map_err(failed)?;
    let kinds: Vec<Time> = wanted.iter().map(|field| Time::of(field)).collect();
    let times: Vec<bool> = places.iter().map(|place| kinds[*place] != Time::None).collect();
    let mut texts: Vec<Vec<u8>> = vec![Vec::new(); wanted.len()];
    let mut present = vec![false; wanted.len()];
    for (line, row) in (1..).zip(rows) {
        let row = row.map_err(failed)?;
        for (index, (_, field)) in row.get_column_iter().enumerate() {
            texts[index].clear();
            present[index] = write_text(field, kinds[index], &mut texts[index]);
        }
        let fields: Vec<Option<&[u8]>> =
            places.iter().map(|place| present[*place].then_some(texts[*place].as_slice())).collect();
        each(&Row { line, fields: Fields::Typed { texts: &fields, times: &times } })?;
    }
    Ok(())
}

/// A file that cannot be read, in words for whoever wrote it.
fn failed(path: &Path, error: &ParquetError) -> Error {
    let text = error.to_string();
    match text.rsplit_once("Disabled feature at compile time: ") {
        Some((_, codec)) => Error::file(
            path,
            format!(
                "its columns are compressed with {codec}; write it with zstd, snappy or gzip, or without compression"
            ),
        ),
        None => Error::file(path, text),
    }
}

/// What a column says about time by its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    /// Nothing.
    None,
    /// A day, or a moment whose unit is that of the value.
    Instant,
    /// A moment in billionths of a second, which the reader takes for a number.
    Nanoseconds,
    /// The same on the clock of nobody knows where: that of the calendar.
    Local,
    /// Both.
    LocalNanoseconds,
}

impl Time {
    fn of(field: &Type) -> Self {
        let info = field.get_basic_info();
        match info.logical_type_ref() {
            Some(LogicalType::Timestamp(time)) => {
                match (time.is_adjusted_to_u_t_c, time.unit == TimeUnit::NANOS) {
                    (true, false) => Self::Instant,
                    (true, true) => Self::Nanoseconds,
                    (false, false) => Self::Local,
                    (false, true) => Self::LocalNanoseconds,
                }
            }
            Some(LogicalType::Date) => Self::Instant,
            _ => match info.converted_type() {
                ConvertedType::DATE | ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIMESTAMP_MICROS => {
                    Self::Instant
                }
                // An old type that is nothing but a moment.
                _ if field.is_primitive() && field.get_physical_type() == PhysicalType::INT96 => {
                    Self::Instant
                }
                _ => Self::None,
            },
        }
    }

    /// Writes a moment in billionths of a second since 1970; nothing where it is none.
    fn write(self, nanoseconds: i128, text: &mut Vec<u8>) -> Option<std::io::Result<()>> {
        let instant = jiff::Timestamp::from_nanosecond(nanoseconds).ok()?;
        Some(match self {
            Self::Local | Self::LocalNanoseconds => {
                write!(text, "{}", instant.to_zoned(jiff::tz::TimeZone::UTC).datetime())
            }
            _ => write!(text, "{instant}"),
        })
    }
}

/// Writes a field as the text that a CSV file would hold; an absent or nested one is no text.
fn write_text(field: &Field, time: Time, text: &mut Vec<u8>) -> bool {
    let written = match field {
        Field::Long(value) if matches!(time, Time::Nanoseconds | Time::LocalNanoseconds) => {
            time.write(i128::from(*value), text)
        }
        Field::TimestampMillis(value) => time.write(i128::from(*value) * 1_000_000, text),
        Field::TimestampMicros(value) => time.write(i128::from(*value) * 1_000, text),
        Field::Date(days) => jiff::Timestamp::from_nanosecond(i128::from(*days) * 86_400_000_000_000)
            .ok()
            .map(|instant| write!(text, "{}", instant.to_zoned(jiff::tz::TimeZone::UTC).date())),
        Field::Bool(value) => Some(write!(text, "{value}")),
        Field::Byte(value) => Some(write!(text, "{value}")),
        Field::Short(value) => Some(write!(text, "{value}")),
        Field::Int(value) => Some(write!(text, "{value}")),
        Field::Long(value) => Some(write!(text, "{value}")),
        Field::UByte(value) => Some(write!(text, "{value}")),
        Field::UShort(value) => Some(write!(text, "{value}")),
        Field::UInt(value) => Some(write!(text, "{value}")),
        Field::ULong(value) => Some(write!(text, "{value}")),
        Field::Float(value) => Some(write!(text, "{value}")),
        Field::Double(value) => Some(write!(text, "{value}")),
        Field::Str(value) => Some(text.write_all(value.as_bytes())),
        Field::Bytes(value) => Some(text.write_all(value.data())),
        Field::Decimal(_) => Some(write!(text, "{field}")),
        // Everything else has no one text: times of day, nested values, nothing.
        _ => None,
    };
    written.is_some_and(|written| written.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use std::sync::Arc;

    #[test]
    fn columns_come_as_the_text_that_csv_would_hold() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        let schema = "message rows { required int32 day (DATE); required double cost; \
                      optional binary who (UTF8); required int32 unused; }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let properties = Arc::new(WriterProperties::builder().build());
        let mut writer = SerializedFileWriter::new(File::create(&path).unwrap(), schema, properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int32Type>().write_batch(&[20_454, 20_455], None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<DoubleType>().write_batch(&[12.5, -3.0], None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let name = ByteArray::from("Ada");
        column.typed::<ByteArrayType>().write_batch(&[name], Some(&[1, 0]), None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int32Type>().write_batch(&[1, 2], None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        let mut found = Vec::new();
        let columns: Vec<String> = ["who", "day", "cost"].map(str::to_owned).into();
        read(&path, &columns, &mut |row| {
            let text = |column| row.field(column).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            found.push((row.line, (0..3).map(text).collect::<Vec<_>>()));
            Ok(())
        })
        .unwrap();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(found[0], (1, vec![some("Ada"), some("2026-01-01"), some("12.5")]));
        assert_eq!(found[1], (2, vec![None, some("2026-01-02"), some("-3")]));
        let missing = read(&path, &["nobody".to_owned()], &mut |_| Ok(())).unwrap_err().to_string();
        assert!(missing.contains("no column `nobody`; the columns are `day`, `cost`, `who`, `unused`"));
    }

    /// A key that is absent counts as one that is blank: the same table has the same numbers, whichever way it is written. A line of CSV
    /// that ends before its key is a mistake.
    #[test]
    fn absent_keys_are_blank_ones() {
        use super::super::Fields;
        use crate::encoding::{Encoding, Key, Unfit};
        use dp_tests::description::Description;
        let encode = |by: &str, row: &Row<'_>| {
            let text = Description::of_events()
                .approximate(1.0, 1e-6)
                .release("one", &format!("statistics = [\"total\"]\nby = {{ column = \"place\"{by} }}"));
            let spec = crate::spec::Spec::parse(&text.to_string(), Path::new("spec.toml")).unwrap();
            Encoding::all(&spec)[0].encode(0, row).map(|contribution| contribution.key)
        };
        let short = ::csv::ByteRecord::from(vec!["2026-01-01"]);
        let short = Row { line: 1, fields: Fields::Record { record: &short, places: &[0, 1] } };
        for (by, key) in [
            (", values = [\"here\"], other = \"rest\"", Ok(Key::Listed(1))),
            (", values = [\"here\"]", Err(Unfit::Elsewhere)),
            ("", Err(Unfit::Elsewhere)),
        ] {
            for absent in [None, Some(&b""[..]), Some(b"  ")] {
                assert_eq!(encode(by, &Row::new(1, &[Some(b"2026-01-01"), absent])), key, "{by}");
            }
            assert_eq!(encode(by, &short), Err(Unfit::NoKey), "{by}");
        }
        let here = Row::new(1, &[Some(b"2026-01-01"), Some(b" here ")]);
        assert_eq!(encode("", &here), Ok(Key::Named("here".into())));
    }

    #[test]
    fn what_cannot_be_unpacked_is_named() {
        let told =
            |text: &str| failed(Path::new("a.parquet"), &ParquetError::General(text.to_owned())).to_string();
        assert_eq!(
            told("Disabled feature at compile time: brotli"),
            "a.parquet: its columns are compressed with brotli; write it with zstd, snappy or gzip, or without compression"
        );
        assert!(
            told("Invalid footer").starts_with("a.parquet: ")
                && told("Invalid footer").contains("Invalid footer")
        );
    }

    /// Dates and moments of every type that programs write, in a calendar with a zone and a format that texts would have: all rows
    /// find their day.
    #[test]
    fn typed_times_need_no_format() {
        use crate::calendar::{Calendar, Length};
        use parquet::data_type::Int64Type;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times.parquet");
        let schema = "message rows { required int32 day (DATE); \
                      required int64 millis (TIMESTAMP(MILLIS,true)); required int64 micros (TIMESTAMP(MICROS,true)); \
                      required int64 nanos (TIMESTAMP(NANOS,true)); required int64 local (TIMESTAMP(NANOS,false)); \
                      required int64 naive (TIMESTAMP(MICROS,false)); required int64 number; }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let properties = Arc::new(WriterProperties::builder().build());
        let mut writer = SerializedFileWriter::new(File::create(&path).unwrap(), schema, properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        // 2026-01-02; and half past eleven in the evening of that day, in UTC.
        let (day, evening) = (20_455, 1_767_396_600_i64);
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int32Type>().write_batch(&[day], None, None).unwrap();
        column.close().unwrap();
        for unit in [1_000, 1_000_000, 1_000_000_000, 1_000_000_000, 1_000_000, 1] {
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<Int64Type>().write_batch(&[evening * unit], None, None).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
        let calendar = Calendar::new(
            Length::parse("1 day").unwrap(),
            "2026-01-01",
            "2026-01-10",
            Some("Europe/Berlin"),
            Some("%d.%m.%Y"),
        )
        .unwrap();
        // In Berlin the evening in UTC is the next day; a time without a zone is on the clock of the calendar.
        for (name, step) in [
            ("day", Some(1)),
            ("millis", Some(2)),
            ("micros", Some(2)),
            ("nanos", Some(2)),
            ("local", Some(1)),
            ("naive", Some(1)),
            ("number", None),
        ] {
            let mut found = Vec::new();
            read(&path, &[name.to_owned()], &mut |row| {
                found.push(calendar.step_of_field(row, 0));
                Ok(())
            })
            .unwrap();
            assert_eq!(found, [step], "{name}");
        }
    }
}
