//! Tables of one's own: numeric features and a label column, as comma-separated values or row by row.

use std::io::Read;

use super::{DataError, Examples};

/// How a table becomes [`Examples`]. Everything in here is public and chosen without looking
/// at the data.
///
/// # Privacy
/// A value is moved into its bounds and mapped to [0, 1] by `(x - LO)/(HI - LO)`: a function of that value alone. The
/// number of rows is treated as public.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The column that holds the label; all others but that of the person are features.
    pub label: String,
    /// The column that says whose row it is, for people with several rows; nothing where each row is another person.
    pub person: Option<String>,
    /// The labels, in the order of their numbers.
    pub classes: Vec<String>,
    /// The bounds `LO, HI` of the features: one for all of them, or one for each in the order of the columns.
    pub bounds: Vec<(f64, f64)>,
}

impl Table {
    /// Reads a header and one example per row, as comma-separated values.
    ///
    /// # Errors
    /// A [`DataError`] with the first place at fault; values that are not finite numbers are refused, not repaired.
    pub fn read(&self, source: impl Read) -> Result<Examples, DataError> {
        let unreadable = |error: csv::Error| DataError::Unreadable { reason: error.to_string() };
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).flexible(true).from_reader(source);
        let header = reader.headers().map_err(unreadable)?.clone();
        let mut rows = self.rows(header.iter())?;
        let mut record = csv::StringRecord::new();
        while reader.read_record(&mut record).map_err(unreadable)? {
            rows.push(record.iter())?;
        }
        rows.finish()
    }

    /// Starts with the names of the columns, for rows that come from elsewhere than a text.
    ///
    /// # Errors
    /// Columns that are missing, bounds that do not fit them, or classes that are named twice.
    pub fn rows<'a>(&self, header: impl Iterator<Item = &'a str>) -> Result<Rows<'_>, DataError> {
        for (index, class) in self.classes.iter().enumerate() {
            if self.classes[..index].contains(class) {
                return Err(DataError::DuplicateClass { class: class.clone() });
            }
        }
        let header: Vec<String> = header.map(str::to_owned).collect();
        if header.iter().all(String::is_empty) {
            return Err(DataError::Empty);
        }
        let find = |wanted: &String| {
            header
                .iter()
                .position(|name| name == wanted)
                .ok_or_else(|| DataError::NoColumn { column: wanted.clone(), available: header.join(", ") })
        };
        let label = find(&self.label)?;
        let person = self.person.as_ref().map(find).transpose()?;
        let others = header.len() - usize::from(person.is_some_and(|person| person != label));
        let width = others - 1;
        let examples = Examples::new(width, self.classes.len())?;
        let bounds = self.bounds_of_each(width)?;
        let features = Vec::with_capacity(width);
        Ok(Rows { table: self, header, label, person, bounds, features, examples, people: Vec::new() })
    }

    fn bounds_of_each(&self, width: usize) -> Result<Vec<(f64, f64)>, DataError> {
        if let Some(&(low, high)) =
            self.bounds.iter().find(|(low, high)| !(low < high && (high - low).is_finite()))
        {
            return Err(DataError::Bounds { low, high });
        }
        match self.bounds.as_slice() {
            [all] => Ok(vec![*all; width]),
            each if each.len() == width => Ok(each.to_vec()),
            other => Err(DataError::BoundsCount { features: width, actual: other.len() }),
        }
    }
}

/// The rows of a [`Table`], one after the other.
pub struct Rows<'a> {
    table: &'a Table,
    header: Vec<String>,
    label: usize,
    person: Option<usize>,
    bounds: Vec<(f64, f64)>,
    /// Those of the row that is being read.
    features: Vec<f64>,
    examples: Examples,
    people: Vec<String>,
}

impl Rows<'_> {
    /// Adds a row, by its fields in the order of the columns.
    ///
    /// # Errors
    /// A row with too few or too many fields, a number that is not finite, or a label that is no class; nothing is added then.
    pub fn push<'t>(&mut self, fields: impl Iterator<Item = &'t str> + Clone) -> Result<(), DataError> {
        let row = self.examples.len() + 1;
        let actual = fields.clone().count();
        if actual != self.header.len() {
            return Err(DataError::Ragged { row, expected: self.header.len(), actual });
        }
        self.features.clear();
        let mut class = None;
        let mut owner = None;
        for (column, text) in fields.enumerate() {
            if column == self.label {
                class = self.table.classes.iter().position(|class| class == text);
                if class.is_none() {
                    return Err(DataError::Label { row, label: text.to_owned() });
                }
            }
            if Some(column) == self.person {
                owner = Some(text);
            }
            if column == self.label || Some(column) == self.person {
                continue;
            }
            let value = text.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(|| {
                DataError::NotANumber { row, column: self.header[column].clone(), text: text.to_owned() }
            })?;
            let (low, high) = self.bounds[self.features.len()];
            self.features.push((value.clamp(low, high) - low) / (high - low));
        }
        self.examples.push(&self.features, class.unwrap_or_default())?;
        self.people.extend(owner.map(str::to_owned));
        Ok(())
    }

    /// All rows as examples.
    ///
    /// # Errors
    /// No rows.
    pub fn finish(self) -> Result<Examples, DataError> {
        match (self.examples.is_empty(), self.person) {
            (true, _) => Err(DataError::Empty),
            (false, None) => Ok(self.examples),
            (false, Some(_)) => self.examples.belonging_to(&self.people),
        }
    }
}

/// The data never leaves through a debug print.
impl std::fmt::Debug for Rows<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Rows").field("table", &self.table).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table() -> Table {
        Table {
            label: "kind".to_owned(),
            person: None,
            classes: ["no", "yes"].map(String::from).to_vec(),
            bounds: vec![(0.0, 10.0), (-1.0, 1.0)],
        }
    }

    #[test]
    fn reads_and_scales_by_the_given_bounds() {
        let examples = table().read("a, kind, b\n5, yes, 0\n-3, no, 7e3\n".as_bytes()).unwrap();
        let rows: Vec<_> = examples.iter().map(|(features, label)| (features.to_vec(), label)).collect();
        assert_eq!(rows, [(vec![0.5, 0.5], 1), (vec![0.0, 1.0], 0)]);
        // What others wrote does not change what becomes of a row.
        let alone = table().read("a,kind,b\n5,yes,0\n".as_bytes()).unwrap();
        assert_eq!(alone.get(0), examples.get(0));
    }

    #[test]
    fn rows_of_one_person_come_together() {
        let table = Table { person: Some("who".to_owned()), ..table() };
        let text = "a,who,kind,b\n1,x,yes,0\n2,y,no,0\n3,x,no,1\n4,z,yes,0\n5,y,yes,1\n";
        let examples = table.read(text.as_bytes()).unwrap();
        assert_eq!((examples.len(), examples.people(), examples.width()), (5, 3, 2));
        let firsts = |person: usize| -> Vec<f64> {
            examples.of_person(person).map(|row| 10.0 * examples.get(row).unwrap().0[0]).collect()
        };
        assert_eq!(
            [firsts(0), firsts(1), firsts(2), firsts(3)],
            [vec![1.0, 3.0], vec![2.0, 5.0], vec![4.0], vec![]]
        );
        let (first, rest) = examples.clone().split_at(1).unwrap();
        assert_eq!((first.len(), first.people(), rest.len(), rest.people()), (2, 1, 3, 2));
        assert_eq!((rest.of_person(0), rest.of_person(1)), (0..2, 2..3));
        let mut full = examples;
        assert_eq!(full.push(&[0.0, 0.0], 0), Err(DataError::Grouped));
        let missing = Table { person: Some("nobody".to_owned()), ..table };
        assert!(matches!(missing.read(text.as_bytes()), Err(DataError::NoColumn { .. })));
    }

    #[test]
    fn refuses_with_the_place() {
        let read = |text: &str| table().read(text.as_bytes()).unwrap_err();
        assert_eq!(read(""), DataError::Empty);
        assert_eq!(read("a,kind,b\n"), DataError::Empty);
        assert_eq!(read("kind\nyes\n"), DataError::NoFeatures);
        assert!(matches!(read("a,b\n1,2\n"), DataError::NoColumn { .. }));
        assert!(matches!(read("a,kind\n1,yes\n"), DataError::BoundsCount { features: 1, actual: 2 }));
        let ragged = |actual| DataError::Ragged { row: 2, expected: 3, actual };
        assert_eq!(read("a,kind,b\n1,yes,2\n1,yes\n"), ragged(2));
        assert_eq!(read("a,kind,b\n1,yes,2\n1,yes,2,3\n"), ragged(4));
        for text in ["NaN", "inf", "-inf", "", "x", "1e999"] {
            let error = read(&format!("a,kind,b\n1,yes,2\n1,yes,{text}\n"));
            let expected = DataError::NotANumber { row: 2, column: "b".to_owned(), text: text.to_owned() };
            assert_eq!(error, expected);
        }
        assert_eq!(read("a,kind,b\n1,maybe,2\n"), DataError::Label { row: 1, label: "maybe".to_owned() });
        assert!(matches!(
            table().read(&b"a,kind,b\n\xff,yes,1\n"[..]).unwrap_err(),
            DataError::Unreadable { .. }
        ));
        for bounds in
            [vec![(1.0, 1.0)], vec![(f64::NAN, 1.0)], vec![(0.0, f64::INFINITY)], vec![(-f64::MAX, f64::MAX)]]
        {
            let error = Table { bounds, ..table() }.read("a,kind\n1,yes\n".as_bytes()).unwrap_err();
            assert!(matches!(error, DataError::Bounds { .. }), "{error}");
        }
        let classes = vec!["a".to_owned(), "a".to_owned()];
        let error = Table { classes, ..table() }.read("".as_bytes()).unwrap_err();
        assert_eq!(error, DataError::DuplicateClass { class: "a".to_owned() });
        let error = Table { classes: Vec::new(), ..table() }.read("a,kind\n1,yes\n".as_bytes()).unwrap_err();
        assert_eq!(error, DataError::TooFewClasses { classes: 0 });
    }
    proptest! {
        #[test]
        fn whatever_is_read_is_scaled_and_labelled(
            rows in proptest::collection::vec("[0-9eE.,+-]{0,6},(yes|no|x),[ 0-9infaN\"-]{0,4}", 0..4),
            noise in proptest::collection::vec(any::<u8>(), 0..12),
        ) {
            let text = format!("a,kind,b\n{}\n", rows.join("\n"));
            for bytes in [text.as_bytes().to_vec(), [text.as_bytes(), &noise].concat(), noise] {
                let Ok(examples) = table().read(bytes.as_slice()) else { continue };
                prop_assert!(!examples.is_empty());
                for (features, label) in examples.iter() {
                    prop_assert!(label < 2 && features.iter().all(|value| (0.0..=1.0).contains(value)));
                }
            }
        }
    }
}
