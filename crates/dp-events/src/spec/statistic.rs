//! The statistics a release can publish, by their names in the file.

use std::fmt;

use dp_mechanisms::Workload;

/// What is published at every step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Statistic {
    /// Everything so far.
    Total,
    /// The step alone.
    Step,
    /// The last so many steps.
    Window(usize),
    /// Everything so far, a step k steps ago with weight `A^{-k}`.
    Exponential(f64),
    /// Everything so far, a step k steps ago with weight `(k+1)^{-C}`.
    Polynomial(f64),
    /// The average of all steps so far.
    Average,
    /// The mean value of all rows so far.
    Mean,
    /// The value that this part of all rows so far does not exceed.
    Quantile(f64),
    /// The number of rows so far whose value lies from one bound to another, both included.
    Range(f64, f64),
}

impl Statistic {
    /// Reads a name.
    ///
    /// # Errors
    /// A sentence that says what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "\"{text}\" is no statistic; the statistics are total, step, window:W, exp:A, poly:C, average, mean, \
                 quantile:Q and range:LOW:HIGH"
            )
        };
        let (name, value) = match text.split_once(':') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let number = |from: f64, to: f64, what: &str| {
            let number = value.and_then(|value| value.parse::<f64>().ok());
            number
                .filter(|number| number.is_finite() && *number >= from && *number <= to)
                .ok_or_else(|| format!("\"{text}\": expected {what} after the colon"))
        };
        match (name, value) {
            ("total" | "count", None) => Ok(Self::Total),
            ("step", None) => Ok(Self::Step),
            ("average", None) => Ok(Self::Average),
            ("mean", None) => Ok(Self::Mean),
            ("window", Some(width)) => match width.parse::<usize>() {
                Ok(width) if width >= 1 => Ok(Self::Window(width)),
                _ => Err(format!("\"{text}\": expected a whole number of at least 1 after the colon")),
            },
            ("exp", Some(_)) => number(1.0, f64::MAX, "a number of at least 1").map(Self::Exponential),
            ("poly", Some(_)) => {
                number(f64::MIN_POSITIVE, f64::MAX, "a number above 0").map(Self::Polynomial)
            }
            ("quantile", Some(_)) => {
                let part = number(0.0, 1.0, "a number between 0 and 1")?;
                if part > 0.0 && part < 1.0 {
                    Ok(Self::Quantile(part))
                } else {
                    Err(format!("\"{text}\": expected a number strictly between 0 and 1 after the colon"))
                }
            }
            ("range", Some(bounds)) => {
                let bounds = bounds.split_once(':');
                let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
                let bounds = bounds.and_then(|(low, high)| number(low).zip(number(high)));
                match bounds {
                    Some((low, high)) if low <= high => Ok(Self::Range(low, high)),
                    _ => Err(format!(
                        "\"{text}\": expected two numbers LOW:HIGH after the colon, the lower one first"
                    )),
                }
            }
            _ => Err(expected()),
        }
    }

    /// Whether it is of the order of values, and measured by a tree over them.
    pub fn is_ordered(self) -> bool {
        matches!(self, Self::Quantile(_) | Self::Range(..))
    }

    /// The linear statistic of the stream that this is, or is made of.
    ///
    /// # Errors
    /// What the workload refuses.
    pub fn workload(self) -> dp_mechanisms::Result<Workload> {
        match self {
            Self::Total | Self::Mean | Self::Quantile(_) | Self::Range(..) => Ok(Workload::count()),
            Self::Step => Workload::window(1),
            Self::Window(width) => Workload::window(width),
            Self::Exponential(alpha) => Workload::exponential(alpha),
            Self::Polynomial(power) => Workload::polynomial(power),
            Self::Average => Ok(Workload::average()),
        }
    }

    /// Whether it is a whole number where whole numbers are counted.
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Total | Self::Step | Self::Window(_) | Self::Range(..))
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Total => formatter.write_str("total"),
            Self::Step => formatter.write_str("step"),
            Self::Window(width) => write!(formatter, "window:{width}"),
            Self::Exponential(alpha) => write!(formatter, "exp:{alpha}"),
            Self::Polynomial(power) => write!(formatter, "poly:{power}"),
            Self::Average => formatter.write_str("average"),
            Self::Mean => formatter.write_str("mean"),
            Self::Quantile(part) => write!(formatter, "quantile:{part}"),
            Self::Range(low, high) => write!(formatter, "range:{low}:{high}"),
        }
    }
}
