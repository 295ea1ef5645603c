//! The operator's settings.

use flyball_sdk::prelude::*;

/// The configuration keys with their defaults and descriptions.
pub const KEYS: &[(&str, &str, &str)] = &[(
    "drivers",
    "fake-csi.flyball.dev",
    "The names of the drivers, separated by commas.",
)];

/// The parsed settings; [`KEYS`] documents them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    drivers: String,
}

/// Adds the keys to a description.
pub fn declare(description: Description) -> Description {
    KEYS.iter()
        .fold(description, |description, (key, default, help)| {
            description.config(key, Some(default), help)
        })
}

impl Settings {
    pub fn read(host: &Host) -> Self {
        let (key, default, _) = KEYS[0];
        Self {
            drivers: host.config(key).unwrap_or_else(|| default.into()),
        }
    }

    /// Whether the plugin plays this driver.
    pub fn plays(&self, driver: &str) -> bool {
        let mut drivers = self.drivers.split(',').map(str::trim);
        !driver.is_empty() && drivers.any(|own| own == driver)
    }
}
