//! The public clock: which step a time belongs to, and when a step is over.
//!
//! Steps are fixed by the description of the dashboard alone. A step closes because its end has passed, never because a row
//! arrived or did not.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

use crate::rows::Row;

/// The most steps that a calendar may have.
pub const MOST_STEPS: usize = 1 << 20;

/// The length of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    count: i64,
    unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Length {
    /// Reads `1 day`, `2 hours`, `1 month` and the like.
    ///
    /// # Errors
    /// A sentence that says what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "`{text}` is not a length; write a whole number and a unit, such as \"1 day\", \"6 hours\", \"1 week\" or \
                 \"1 month\""
            )
        };
        let mut words = text.split_whitespace();
        let (count, unit) = (words.next().ok_or_else(expected)?, words.next().ok_or_else(expected)?);
        let count: i64 = count.parse().map_err(|_| expected())?;
        let unit = match unit.strip_suffix('s').unwrap_or(unit) {
            "second" => Unit::Second,
            "minute" => Unit::Minute,
            "hour" => Unit::Hour,
            "day" => Unit::Day,
            "week" => Unit::Week,
            "month" => Unit::Month,
            "year" => Unit::Year,
            _ => return Err(expected()),
        };
        if words.next().is_some() || !(1..=1_000_000).contains(&count) {
            return Err(expected());
        }
        Ok(Self { count, unit })
    }

    /// The span of `times` lengths.
    fn times(self, times: i64) -> Option<Span> {
        let count = self.count.checked_mul(times)?;
        let span = Span::new();
        match self.unit {
            Unit::Second => span.try_seconds(count),
            Unit::Minute => span.try_minutes(count),
            Unit::Hour => span.try_hours(count),
            Unit::Day => span.try_days(count),
            Unit::Week => span.try_weeks(count),
            Unit::Month => span.try_months(count),
            Unit::Year => span.try_years(count),
        }
        .ok()
    }

    fn is_whole_days(self) -> bool {
        matches!(self.unit, Unit::Day | Unit::Week | Unit::Month | Unit::Year)
    }
}

impl std::fmt::Display for Length {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let unit = match self.unit {
            Unit::Second => "second",
            Unit::Minute => "minute",
            Unit::Hour => "hour",
            Unit::Day => "day",
            Unit::Week => "week",
            Unit::Month => "month",
            Unit::Year => "year",
        };
        write!(formatter, "{} {unit}{}", self.count, if self.count == 1 { "" } else { "s" })
    }
}

/// The steps of a dashboard, and how a row's time finds its step.
///
/// # Example
/// ```
/// use dp_events::calendar::{Calendar, Length};
/// let days = Calendar::new(Length::parse("1 day")?, "2026-01-01", "2026-12-31", None, None)?;
/// assert_eq!(days.steps(), 365);
/// assert_eq!(days.step_of(b"2026-02-01"), Some(31));
/// assert_eq!(days.step_of(b"2026-02-01T23:59:59Z"), Some(31));
/// assert_eq!(days.step_of(b"2027-01-01"), None);
/// assert_eq!(days.label(31), "2026-02-01");
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone)]
pub struct Calendar {
    length: Length,
    zone: TimeZone,
    zone_name: String,
    format: Option<String>,
    /// The beginnings of all steps and the end of the last, in nanoseconds since 1970.
    boundaries: Vec<i128>,
    /// The step that holds midnight of every day from the day of the first boundary on; the common case of a date column.
    midnights: Vec<Option<u32>>,
    first_day: i64,
}

impl Calendar {
    /// The steps of a length from the one that begins at `first` to the one that holds `last`.
    ///
    /// # Errors
    /// A sentence about the argument that makes no sense.
    pub fn new(
        length: Length,
        first: &str,
        last: &str,
        zone: Option<&str>,
        format: Option<&str>,
    ) -> Result<Self, String> {
        let zone_name = zone.unwrap_or("UTC");
        let zone = match zone {
            None => TimeZone::UTC,
            Some(name) => TimeZone::get(name).map_err(|_| {
                format!("`{name}` is not a known time zone; write a name such as \"Europe/Berlin\"")
            })?,
        };
        let civil = |text: &str| {
            parse_civil(text)
                .ok_or_else(|| format!("`{text}` is not a date; write 2026-01-31 or 2026-01-31T08:00"))
        };
        let (first, last) = (civil(first)?, civil(last)?);
        if last < first {
            return Err(format!("the last step begins at {last}, before the first at {first}"));
        }
        let zoned = |moment: DateTime| zone.to_zoned(moment).map_err(|error| error.to_string());
        let (origin, end) = (zoned(first)?, zoned(last)?);
        let boundary = |index: usize| -> Result<Zoned, String> {
            length
                .times(i64::try_from(index).unwrap_or(i64::MAX))
                .and_then(|span| origin.checked_add(span).ok())
                .ok_or_else(|| "a step ends after the year 9999".to_owned())
        };
        let mut boundaries = Vec::new();
        let mut index = 0;
        loop {
            let start = boundary(index)?;
            boundaries.push(start.timestamp().as_nanosecond());
            if start > end {
                break;
            }
            index += 1;
            if index > MOST_STEPS {
                return Err(format!(
                    "there are more than {MOST_STEPS} steps; choose a longer step or an earlier end"
                ));
            }
        }
        let mut calendar = Self {
            length,
            zone,
            zone_name: zone_name.to_owned(),
            format: format.map(str::to_owned),
            boundaries,
            midnights: Vec::new(),
            first_day: day_number(first.date()),
        };
        let days = day_number(last.date()) - calendar.first_day + 1;
        // Days past the last step's beginning may still belong to it.
        let extra = if length.is_whole_days() { 400 } else { 2 };
        calendar.midnights = (0..(days + extra).min(4_000_000))
            .map(|offset| {
                let date = date_of(calendar.first_day + offset)?;
                calendar.step_at(calendar.instant(date.at(0, 0, 0, 0))?).map(|step| step as u32)
            })
            .collect();
        Ok(calendar)
    }

    /// The number of steps.
    pub fn steps(&self) -> usize {
        self.boundaries.len() - 1
    }

    /// The length of a step.
    pub fn length(&self) -> Length {
        self.length
    }

    /// The zone whose clock sets the boundaries.
    pub fn zone(&self) -> &str {
        &self.zone_name
    }

    /// The step, counted from 0, of a time as it is written in a row; nothing if it cannot be read or lies in no step.
    ///
    /// # Complexity
    /// Constant for plain dates, logarithmic in the number of steps otherwise.
    pub fn step_of(&self, text: &[u8]) -> Option<usize> {
        self.step_in(text, self.format.as_deref())
    }

    /// The step of a time in a row. A field that is a date or a time by its type is read as such, whatever format texts have.
    pub fn step_of_field(&self, row: &Row<'_>, column: usize) -> Option<usize> {
        let text = row.field(column)?.trim_ascii();
        self.step_in(text, if row.is_time(column) { None } else { self.format.as_deref() })
    }

    fn step_in(&self, text: &[u8], format: Option<&str>) -> Option<usize> {
        if format.is_none()
            && let Some(day) = plain_date(text)
        {
            let offset = usize::try_from(day.checked_sub(self.first_day)?).ok()?;
            if let Some(step) = self.midnights.get(offset) {
                return step.map(|step| step as usize);
            }
        }
        self.step_at(self.parse(text, format)?)
    }

    /// The step, counted from 0, that holds an instant in nanoseconds since 1970.
    pub fn step_at(&self, instant: i128) -> Option<usize> {
        let after = self.boundaries.partition_point(|boundary| *boundary <= instant);
        after.checked_sub(1).filter(|step| *step < self.steps())
    }

    /// The number of steps that are over at an instant in nanoseconds since 1970.
    pub fn closed_at(&self, instant: i128) -> usize {
        self.boundaries[1..].partition_point(|boundary| *boundary <= instant)
    }

    /// An instant from what somebody writes on the command line: a date or a date-time, in the zone of the calendar.
    ///
    /// # Errors
    /// A sentence that says what is expected.
    pub fn read_instant(&self, text: &str) -> Result<i128, String> {
        read_default(text, &self.zone)
            .ok_or_else(|| format!("`{text}` is not a time; write 2026-01-31 or 2026-01-31T08:00:00Z"))
    }

    /// Now, in nanoseconds since 1970.
    pub fn now() -> i128 {
        Timestamp::now().as_nanosecond()
    }

    /// The beginning of a step as it is printed: a date where steps are whole days, a time with its offset otherwise.
    pub fn label(&self, step: usize) -> String {
        self.printed(self.boundaries.get(step).copied().unwrap_or_default())
    }

    /// The end of a step, printed as its beginning is.
    pub fn end_label(&self, step: usize) -> String {
        self.printed(self.boundaries.get(step + 1).copied().unwrap_or_default())
    }

    fn printed(&self, instant: i128) -> String {
        let Ok(timestamp) = Timestamp::from_nanosecond(instant) else { return String::new() };
        let zoned = timestamp.to_zoned(self.zone.clone());
        let midnight = zoned.time() == jiff::civil::Time::midnight();
        if self.length.is_whole_days() && midnight {
            zoned.date().to_string()
        } else if self.zone_name == "UTC" {
            timestamp.to_string()
        } else {
            zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
        }
    }

    fn instant(&self, moment: DateTime) -> Option<i128> {
        Some(self.zone.to_zoned(moment).ok()?.timestamp().as_nanosecond())
    }

    fn parse(&self, text: &[u8], format: Option<&str>) -> Option<i128> {
        let text = std::str::from_utf8(text).ok()?.trim();
        let Some(format) = format else { return read_default(text, &self.zone) };
        let parsed = jiff::fmt::strtime::parse(format, text).ok()?;
        if let Ok(timestamp) = parsed.to_timestamp() {
            return Some(timestamp.as_nanosecond());
        }
        let moment =
            parsed.to_datetime().or_else(|_| parsed.to_date().map(|date| date.at(0, 0, 0, 0))).ok()?;
        self.instant(moment)
    }
}

/// Whether a format can be used for reading times: it must read back what it writes.
pub(crate) fn check_format(format: &str) -> Result<(), String> {
    let refuse = |reason: String| format!("`{format}` is not a format for times: {reason}");
    let sample =
        jiff::civil::date(2026, 11, 28).at(0, 0, 0, 0).in_tz("UTC").map_err(|error| error.to_string())?;
    let written = jiff::fmt::strtime::format(format, &sample).map_err(|error| refuse(error.to_string()))?;
    let parsed = jiff::fmt::strtime::parse(format, &written).map_err(|error| refuse(error.to_string()))?;
    // Seconds since 1970 hold no date, and need none.
    let instant = || parsed.to_timestamp().map(|instant| instant.to_zoned(TimeZone::UTC).date());
    match parsed.to_date().or_else(|_| instant()) {
        Ok(date) if date == sample.date() => Ok(()),
        Ok(_) | Err(_) => Err(refuse(
            "it does not hold a year, a month and a day, such as %d.%m.%Y, or the seconds since 1970, %s"
                .to_owned(),
        )),
    }
}

/// A date, a date-time in the zone, or an instant with its own offset.
fn read_default(text: &str, zone: &TimeZone) -> Option<i128> {
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Some(timestamp.as_nanosecond());
    }
    let moment = parse_civil(text)?;
    Some(zone.to_zoned(moment).ok()?.timestamp().as_nanosecond())
}

fn parse_civil(text: &str) -> Option<DateTime> {
    if let Ok(date) = text.parse::<Date>()
        && text.len() == 10
    {
        return Some(date.at(0, 0, 0, 0));
    }
    text.parse::<DateTime>().ok()
}

/// Days since 1970 of `YYYY-MM-DD`, without detours.
fn plain_date(text: &[u8]) -> Option<i64> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text else { return None };
    let digits = |digits: &[u8]| {
        digits.iter().try_fold(0_i64, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'))
        })
    };
    let (year, month, day) = (digits(&[*y1, *y2, *y3, *y4])?, digits(&[*m1, *m2])?, digits(&[*d1, *d2])?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=longest).contains(&day) {
        return None;
    }
    // The year begins in March, so that a leap day is its last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

fn day_number(date: Date) -> i64 {
    plain_date(date.to_string().as_bytes()).unwrap_or_default()
}

fn date_of(day: i64) -> Option<Date> {
    let span = Span::new().try_days(day).ok()?;
    jiff::civil::date(1970, 1, 1).checked_add(span).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calendar(length: &str, first: &str, last: &str, zone: Option<&str>) -> Calendar {
        Calendar::new(Length::parse(length).unwrap(), first, last, zone, None).unwrap()
    }

    #[test]
    fn plain_dates_agree_with_the_library_over_four_centuries() {
        let mut date = jiff::civil::date(1890, 1, 1);
        let mut day = day_number(date);
        assert_eq!(date_of(day), Some(date));
        while date < jiff::civil::date(2290, 1, 1) {
            assert_eq!(plain_date(date.to_string().as_bytes()), Some(day), "{date}");
            date = date.tomorrow().unwrap();
            day += 1;
        }
        for wrong in
            ["2026-02-29", "2026-13-01", "2026-00-10", "2026-04-31", "2026-4-31", "2026/04/30", "2100-02-29"]
        {
            assert_eq!(plain_date(wrong.as_bytes()), None, "{wrong}");
        }
        assert!(plain_date(b"2000-02-29").is_some());
    }

    #[test]
    fn lengths_are_read_and_refused() {
        for (text, printed) in
            [("1 day", "1 day"), ("6 hours", "6 hours"), ("2 week", "2 weeks"), ("1 months", "1 month")]
        {
            assert_eq!(Length::parse(text).unwrap().to_string(), printed);
        }
        for wrong in ["", "day", "0 days", "-1 day", "1.5 days", "1 fortnight", "1 day long"] {
            assert!(Length::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// Days in a zone are 23, 24 or 25 hours long; hours are not stretched.
    #[test]
    fn days_follow_the_clock_of_the_zone() {
        let berlin = calendar("1 day", "2026-03-28", "2026-03-31", Some("Europe/Berlin"));
        assert_eq!(berlin.steps(), 4);
        let hours: Vec<i128> =
            berlin.boundaries.windows(2).map(|pair| (pair[1] - pair[0]) / 3_600_000_000_000).collect();
        assert_eq!(hours, [24, 23, 24, 24]);
        // 23:30 UTC is the next day in Berlin.
        assert_eq!(berlin.step_of(b"2026-03-28T23:30:00Z"), Some(1));
        assert_eq!(berlin.step_of(b"2026-03-28T23:30:00"), Some(0));
        assert_eq!(berlin.step_of(b"2026-03-28 23:30:00"), Some(0));
        assert_eq!(berlin.step_of(b"2026-03-29"), Some(1));
        assert_eq!(berlin.label(1), "2026-03-29");
        let hourly = calendar("1 hour", "2026-03-29", "2026-03-29T23:00", Some("Europe/Berlin"));
        assert_eq!(hourly.steps(), 23);
        assert_eq!(hourly.label(2), "2026-03-29T03:00:00+02:00");
    }

    #[test]
    fn weeks_and_months_hold_their_days() {
        let weeks = calendar("1 week", "2026-01-05", "2026-02-01", None);
        assert_eq!(weeks.steps(), 4);
        assert_eq!(weeks.step_of(b"2026-01-11"), Some(0));
        assert_eq!(weeks.step_of(b"2026-01-12"), Some(1));
        assert_eq!(weeks.step_of(b"2026-02-01"), Some(3));
        assert_eq!(weeks.step_of(b"2026-02-02"), None);
        let months = calendar("1 month", "2026-01-01", "2026-12-01", None);
        assert_eq!(months.steps(), 12);
        assert_eq!(months.step_of(b"2026-02-28"), Some(1));
        assert_eq!(months.step_of(b"2026-12-31"), Some(11));
        assert_eq!(months.label(11), "2026-12-01");
    }

    #[test]
    fn a_step_is_over_when_its_end_has_passed() {
        let days = calendar("1 day", "2026-01-01", "2026-01-03", None);
        let closed = |text: &str| days.closed_at(days.read_instant(text).unwrap());
        assert_eq!(closed("2025-12-31"), 0);
        assert_eq!(closed("2026-01-01T23:59:59Z"), 0);
        assert_eq!(closed("2026-01-02"), 1);
        assert_eq!(closed("2026-01-04"), 3);
        assert_eq!(closed("2030-01-01"), 3);
    }

    #[test]
    fn other_formats_are_read_and_checked() {
        let length = Length::parse("1 day").unwrap();
        let days = Calendar::new(length, "2026-01-01", "2026-01-31", None, Some("%d.%m.%Y")).unwrap();
        assert_eq!(days.step_of(b"15.01.2026"), Some(14));
        assert_eq!(days.step_of(b"2026-01-15"), None);
        let stamped =
            Calendar::new(length, "2026-01-01", "2026-01-31", None, Some("%Y-%m-%d %H:%M:%S %z")).unwrap();
        assert_eq!(stamped.step_of(b"2026-01-15 23:30:00 -0100"), Some(15));
        // 2026-01-15 23:30:00 in UTC, which is the next day in Berlin.
        let seconds = |zone| Calendar::new(length, "2026-01-01", "2026-01-31", zone, Some("%s")).unwrap();
        assert_eq!(seconds(None).step_of(b"1768519800"), Some(14));
        assert_eq!(seconds(Some("Europe/Berlin")).step_of(b"1768519800"), Some(15));
        assert!(check_format("%d.%m.%Y").is_ok() && check_format("%d/%m/%y %H:%M").is_ok());
        assert!(
            check_format("%H:%M").is_err() && check_format("%Q!").is_err() && check_format("%d.%m.").is_err()
        );
    }

    #[test]
    fn senseless_calendars_are_refused() {
        let length = Length::parse("1 second").unwrap();
        assert!(Calendar::new(length, "2026-01-02", "2026-01-01", None, None).is_err());
        assert!(Calendar::new(length, "2026-01-01", "2027-01-01", None, None).is_err());
        assert!(Calendar::new(length, "1.1.2026", "2026-01-01", None, None).is_err());
        assert!(Calendar::new(length, "2026-01-01", "2026-01-01", Some("Mars/Olympus"), None).is_err());
    }
}
