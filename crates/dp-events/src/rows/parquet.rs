//! Parquet files: the used columns alone are decoded.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::Type;

use super::Row;
use crate::error::{Error, Mistake, Result};

/// The names of all columns, in their order.
pub(super) fn columns(path: &Path) -> Result<Vec<String>> {
    let file = File::open(path).map_err(|error| Error::file(path, error))?;
    let reader = SerializedFileReader::new(file).map_err(|error| Error::file(path, error))?;
    let schema = reader.metadata().file_metadata().schema();
    Ok(schema.get_fields().iter().map(|field| field.name().to_owned()).collect())
}

pub(super) fn read(
    path: &Path,
    columns: &[String],
    each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
) -> Result<()> {
    let failed = |error: parquet::errors::ParquetError| Error::file(path, error);
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
    let mut texts: Vec<Vec<u8>> = vec![Vec::new(); wanted.len()];
    let mut present = vec![false; wanted.len()];
    for (line, row) in (1..).zip(rows) {
        let row = row.map_err(failed)?;
        for (index, (_, field)) in row.get_column_iter().enumerate() {
            texts[index].clear();
            present[index] = write_text(field, &mut texts[index]);
        }
        let fields: Vec<Option<&[u8]>> =
            places.iter().map(|place| present[*place].then_some(texts[*place].as_slice())).collect();
        each(&Row::new(line, &fields))?;
    }
    Ok(())
}

/// Writes a field as the text that a CSV file would hold; an absent or nested one is no text.
fn write_text(field: &Field, text: &mut Vec<u8>) -> bool {
    let instant = |nanoseconds: i128| jiff::Timestamp::from_nanosecond(nanoseconds).ok();
    let written = match field {
        Field::Bool(value) => write!(text, "{value}"),
        Field::Byte(value) => write!(text, "{value}"),
        Field::Short(value) => write!(text, "{value}"),
        Field::Int(value) => write!(text, "{value}"),
        Field::Long(value) => write!(text, "{value}"),
        Field::UByte(value) => write!(text, "{value}"),
        Field::UShort(value) => write!(text, "{value}"),
        Field::UInt(value) => write!(text, "{value}"),
        Field::ULong(value) => write!(text, "{value}"),
        Field::Float(value) => write!(text, "{value}"),
        Field::Double(value) => write!(text, "{value}"),
        Field::Str(value) => text.write_all(value.as_bytes()),
        Field::Bytes(value) => text.write_all(value.data()),
        Field::Date(days) => match instant(i128::from(*days) * 86_400_000_000_000) {
            Some(instant) => write!(text, "{}", instant.to_zoned(jiff::tz::TimeZone::UTC).date()),
            None => return false,
        },
        Field::TimestampMillis(value) => match instant(i128::from(*value) * 1_000_000) {
            Some(instant) => write!(text, "{instant}"),
            None => return false,
        },
        Field::TimestampMicros(value) => match instant(i128::from(*value) * 1_000) {
            Some(instant) => write!(text, "{instant}"),
            None => return false,
        },
        // Everything else has no one text: decimals, times of day, nested values, nothing.
        other => match other {
            Field::Decimal(_) => write!(text, "{other}"),
            _ => return false,
        },
    };
    written.is_ok()
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
}
