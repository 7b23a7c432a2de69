//! Handwritten digits: a small real data set that comes with the crate.

use super::{DataError, Examples};

/// Alpaydin and Kaynak, CC BY 4.0; see `data/README.md`.
const TEXT: &str = include_str!("../../data/digits.txt");

const PIXELS: usize = 64;
/// The largest grey value of a pixel: a property of the format, not of these images.
const WHITE: u32 = 16;

/// How many of the 1797 digits, from the first on, are for training. The order of the file is kept, in which digits of one
/// hand stand together: the most similar image of the same digit stands within 65 lines for 44 % of them, and would for 7 %
/// in a random order. So the other 357 are harder than a random choice: logistic regression gets 86 % of them right, and
/// 91 % of 360 training digits that are held back.
pub const DIGITS_FOR_TRAINING: usize = 1440;

/// 1440 handwritten digits to train with and 357 to test with: 8 × 8 pixels from 0 to 1, ten classes.
///
/// # Errors
/// None with the file that comes with the crate.
pub fn digits() -> Result<(Examples, Examples), DataError> {
    parse(TEXT)?.split_at(DIGITS_FOR_TRAINING)
}

fn parse(text: &str) -> Result<Examples, DataError> {
    let mut examples = Examples::new(PIXELS, 10)?;
    let mut features = [0.0; PIXELS];
    for (index, line) in text.lines().enumerate() {
        let malformed = || DataError::Digit { line: index + 1 };
        let (pixels, label) = line.split_once(' ').ok_or_else(malformed)?;
        if pixels.len() != PIXELS {
            return Err(malformed());
        }
        for (feature, pixel) in features.iter_mut().zip(pixels.chars()) {
            *feature = f64::from(pixel.to_digit(WHITE + 1).ok_or_else(malformed)?) / f64::from(WHITE);
        }
        let label = label.parse().ok().filter(|label| *label < 10).ok_or_else(malformed)?;
        examples.push(&features, label)?;
    }
    Ok(examples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_published_shape() {
        let (train, test) = digits().unwrap();
        assert_eq!((train.len(), test.len(), train.width(), test.classes()), (1440, 357, 64, 10));
        let mut classes = [0; 10];
        let mut grey = 0.0;
        for (features, label) in train.iter().chain(test.iter()) {
            classes[label] += 1;
            grey += features.iter().sum::<f64>() * 16.0;
        }
        // Counted from the original table.
        assert_eq!(classes, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
        assert_eq!(grey, 561_718.0);
        let (first, label) = train.get(0).unwrap();
        assert_eq!(label, 0);
        assert_eq!(
            first[..8].iter().map(|x| x * 16.0).collect::<Vec<_>>(),
            [0., 0., 5., 13., 9., 1., 0., 0.]
        );
        assert!(train.get(1440).is_none());
    }

    #[test]
    fn refuses_what_is_no_digit() {
        let line = TEXT.lines().next().unwrap();
        assert_eq!(parse(line).unwrap().len(), 1);
        for bad in [
            line.replacen('5', "h", 1),
            line[1..].to_owned(),
            format!("0{line}"),
            line[..64].to_owned(),
            line.replace(' ', " 1"),
            line.replace(' ', " x"),
            line.replacen('0', "é", 1),
            String::new() + "\n" + line,
        ] {
            let text = format!("{line}\n{bad}");
            assert_eq!(parse(&text), Err(DataError::Digit { line: 2 }), "{bad}");
        }
        assert!(matches!(digits().unwrap().0.split_at(1441), Err(DataError::Split { wanted: 1441, .. })));
    }
}
