//! The flags that the controllers' manifests describe.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use flyball_controllers::flag::Kind;
use flyball_controllers::{CONTROLLERS, ControllerFlag, Sets};

use super::flags::{ConfigError, Flags};

/// The effects of the controllers' flags.
#[derive(Default)]
pub(super) struct ControllerSettings {
    /// The number of keys that are reconciled concurrently, by controller, where a flag is given.
    pub(super) concurrency: BTreeMap<String, u32>,
    /// Configuration values by controller and key.
    pub(super) values: BTreeMap<&'static str, BTreeMap<&'static str, String>>,
    pub(super) resync_periods: BTreeMap<&'static str, Duration>,
    /// The boolean flags that are false although a controller needs them to run.
    pub(super) turned_off: Vec<&'static str>,
}

impl Flags<'_> {
    /// Reads the flags of all controllers. Fails if a value is out of its range.
    pub(super) fn controller_settings(&self) -> Result<ControllerSettings, ConfigError> {
        let mut all = ControllerSettings::default();
        for controller in CONTROLLERS {
            for flag in controller.flags {
                let name = flag.flag.name;
                match flag.sets {
                    Sets::Nothing => {}
                    Sets::Concurrency if !self.is_given(name) => {}
                    Sets::Concurrency => {
                        let workers = u32::try_from(self.in_range(flag)?).unwrap_or(u32::MAX);
                        all.concurrency.insert(controller.name.to_owned(), workers);
                    }
                    Sets::Config(key) => {
                        let values = all.values.entry(controller.name).or_default();
                        values.insert(key, self.config_value(flag)?);
                    }
                    Sets::File(key) => {
                        if let Some(path) = self.path(name) {
                            let values = all.values.entry(controller.name).or_default();
                            values.insert(key, self.document(name, &path)?);
                        }
                    }
                    Sets::ResyncPeriod => {
                        all.resync_periods
                            .insert(controller.name, self.duration(name)?);
                    }
                }
            }
            if !controller.resyncs {
                all.resync_periods.insert(controller.name, Duration::ZERO);
            }
            all.turned_off
                .extend(controller.enabled_by.filter(|flag| !self.bool(flag)));
        }
        Ok(all)
    }

    /// Returns the value of a flag in the syntax of configuration values. Durations are in milliseconds.
    fn config_value(&self, flag: &ControllerFlag) -> Result<String, ConfigError> {
        let name = flag.flag.name;
        Ok(match flag.flag.kind {
            Kind::Duration => {
                let duration = self.duration(name)?;
                if flag.is_positive && duration.is_zero() {
                    return Err(self.error(name, "it must be more than zero"));
                }
                let least = Duration::from_millis(u64::try_from(flag.range.0).unwrap_or(0));
                if duration < least {
                    return Err(self.error(name, format!("it must be at least {least:?}")));
                }
                format!("{}ms", duration.as_millis())
            }
            Kind::Int32 => self.in_range(flag)?.to_string(),
            Kind::Float => self.float(name).to_string(),
            Kind::Bool => self.bool(name).to_string(),
            _ => self.text(name).unwrap_or_default(),
        })
    }

    /// Returns the document in the file that a flag names, as JSON.
    fn document(&self, name: &'static str, path: &Path) -> Result<String, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| self.error(name, format!("can't read it: {error}")))?;
        let document: serde_json::Value = serde_saphyr::from_str(&text)
            .map_err(|error| self.error(name, format!("it is neither YAML nor JSON: {error}")))?;
        Ok(document.to_string())
    }

    /// Returns the value of an integer flag. Fails if it is out of the range that the manifest says.
    fn in_range(&self, flag: &ControllerFlag) -> Result<i64, ConfigError> {
        let (name, value, (min, max)) = (flag.flag.name, self.int(flag.flag.name), flag.range);
        match value {
            value if (min..=max).contains(&value) => Ok(value),
            _ if max == i64::from(i32::MAX) => {
                Err(self.error(name, format!("it must be at least {min}")))
            }
            _ => Err(self.error(name, format!("it must be from {min} to {max}"))),
        }
    }
}
