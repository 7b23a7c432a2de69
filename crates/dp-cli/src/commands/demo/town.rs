//! An invented town: who visits its emergency rooms in a year, and when that is reported.

use std::f64::consts::TAU;

/// The days of the year.
pub(super) const DAYS: usize = 365;

/// The districts, and how many of a thousand people live in each.
pub(super) const DISTRICTS: [(&str, u64); 6] = [
    ("Centre", 270),
    ("Harbour", 210),
    ("Mill Hill", 180),
    ("Old Town", 140),
    ("Riverside", 120),
    ("Woods", 80),
];

/// Those who live there.
const PEOPLE: u64 = 300_000;

/// Whoever comes again was among so many visits before.
const REMEMBERED: usize = 20_000;

/// One row of the line list.
pub(super) struct Visit {
    /// The day of the visit, counted from 0.
    pub(super) day: usize,
    /// The day on which it is reported: the same, or a few days later.
    pub(super) reported: usize,
    pub(super) person: u64,
    /// The place of the district in [`DISTRICTS`].
    pub(super) district: usize,
    /// Until somebody had time.
    pub(super) minutes: u32,
}

/// Every visit of the year, in the order in which they are reported.
///
/// Three waves over a quiet background, fewer visits at weekends; every eighth visit is by somebody who came in the weeks
/// before, and every thirtieth is reported late.
pub(super) fn visits() -> Vec<Visit> {
    let mut chance = Chance(1918);
    let mut visits: Vec<Visit> = Vec::new();
    for day in 0..DAYS {
        let t = day as f64;
        let wave = |peak: f64, height: f64, width: f64| height * (-((t - peak) / width).powi(2) / 2.0).exp();
        let level = 260.0 + wave(70.0, 420.0, 17.0) + wave(205.0, 190.0, 24.0) + wave(318.0, 640.0, 20.0);
        let mean = level * (1.0 + 0.2 * (TAU * t / 7.0).cos());
        let today = (mean + mean.sqrt() * chance.normal()).round().max(0.0) as usize;
        for _ in 0..today {
            let again = visits.len() > REMEMBERED && chance.below(8) == 0;
            let person = if again {
                visits[visits.len() - 1 - chance.below(REMEMBERED as u64) as usize].person
            } else {
                chance.below(PEOPLE)
            };
            let delay = if chance.below(30) == 0 { 1 + chance.below(9) as usize } else { 0 };
            let minutes = 4.0 + 38.0 * -(1.0 - chance.unit()).ln() * (0.6 + level / 900.0);
            visits.push(Visit {
                day,
                reported: day + delay,
                person,
                district: district_of(person),
                minutes: minutes.min(600.0) as u32,
            });
        }
    }
    visits.retain(|visit| visit.reported < DAYS);
    visits.sort_by_key(|visit| visit.reported);
    visits
}

/// Where somebody lives.
fn district_of(person: u64) -> usize {
    let mut place = person % 1000;
    for (district, (_, share)) in DISTRICTS.iter().enumerate() {
        match place.checked_sub(*share) {
            Some(rest) => place = rest,
            None => return district,
        }
    }
    0
}

/// Chance for invented data, the same for everybody (splitmix64); no noise is made of it.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    /// From 0 to 1, without 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The sum of twelve uniform numbers is normal enough for an invention.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_town_has_returning_people_and_late_reports() {
        assert_eq!(DISTRICTS.iter().map(|(_, share)| share).sum::<u64>(), 1000);
        let visits = visits();
        let late = visits.iter().filter(|visit| visit.reported > visit.day).count();
        let people: std::collections::HashSet<u64> = visits.iter().map(|visit| visit.person).collect();
        assert!(late * 20 < visits.len() && late * 50 > visits.len(), "{late} of {}", visits.len());
        assert!(people.len() * 10 < visits.len() * 8, "{} of {}", people.len(), visits.len());
        assert!(visits.windows(2).all(|pair| pair[0].reported <= pair[1].reported));
    }
}
