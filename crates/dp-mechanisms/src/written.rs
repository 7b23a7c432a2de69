//! Budgets and participations as they are written down, before they are checked.

use serde::{Deserialize, Serialize};

use crate::budget::{self, Kind};
use crate::error::{Error, Result};
use crate::sensitivity;

/// What a budget buys follows from how it was stated, whatever else was written.
#[derive(Deserialize)]
pub(crate) struct Budget {
    kind: Kind,
}

impl TryFrom<Budget> for budget::Budget {
    type Error = Error;

    fn try_from(stated: Budget) -> Result<Self> {
        match stated.kind {
            Kind::Approximate { epsilon, delta } => Self::approximate(epsilon, delta),
            Kind::ZeroConcentrated { rho } => Self::zero_concentrated(rho),
            Kind::Gaussian { mu } => Self::gaussian(mu),
            Kind::Pure { epsilon } => Self::pure(epsilon),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Participation {
    Single,
    Repeated { times: usize, separation: usize },
}

impl TryFrom<Participation> for sensitivity::Participation {
    type Error = Error;

    fn try_from(stated: Participation) -> Result<Self> {
        match stated {
            Participation::Single => Ok(Self::Single),
            Participation::Repeated { times, separation } => Self::repeated(times, separation),
        }
    }
}

impl From<sensitivity::Participation> for Participation {
    fn from(participation: sensitivity::Participation) -> Self {
        match participation {
            sensitivity::Participation::Single => Self::Single,
            sensitivity::Participation::Repeated(repeated) => {
                Self::Repeated { times: repeated.times(), separation: repeated.separation() }
            }
        }
    }
}
