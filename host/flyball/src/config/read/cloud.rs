//! The flags of clouds and of cloud controllers.

use std::collections::BTreeMap;

use super::flags::{ConfigError, Flags};
use crate::config::{CloudConfig, CloudControllers};

const PROVIDER: &str = "cloud-provider";

/// A flag whose value is the value of a configuration key of controllers.
struct Setting {
    flag: &'static str,
    is_duration: bool,
    /// The least valid number; for durations, in nanoseconds.
    min: u32,
    key: &'static str,
    controllers: &'static [&'static str],
}

const NODES: &str = "cloud-node-controller";
const LIFECYCLE: &str = "cloud-node-lifecycle-controller";
const SERVICES: &str = "service-lb-controller";
const ROUTES: &str = "node-route-controller";

const SETTINGS: [Setting; 7] = [
    number(
        "concurrent-node-syncs",
        1,
        "concurrent-node-syncs",
        NODES_ONLY,
    ),
    number(
        "concurrent-node-status-updates",
        0,
        "concurrent-node-status-updates",
        NODES_ONLY,
    ),
    number(
        "concurrent-node-lifecycle-syncs",
        1,
        "concurrent-node-lifecycle-syncs",
        &[LIFECYCLE],
    ),
    number(
        "concurrent-service-syncs",
        1,
        "concurrent-service-syncs",
        &[SERVICES],
    ),
    period(
        "node-status-update-frequency",
        "status-update-frequency",
        NODES_ONLY,
    ),
    period("node-monitor-period", "monitor-period", &[LIFECYCLE]),
    period(
        "route-reconciliation-period",
        "reconciliation-period",
        &[ROUTES],
    ),
];
const NODES_ONLY: &[&str] = &[NODES];
/// Flags whose text is the value of a configuration key.
const TEXTS: [(&str, &[&str]); 2] = [
    ("cluster-name", &[SERVICES, ROUTES]),
    ("cluster-cidr", &[ROUTES]),
];

const fn number(
    flag: &'static str,
    min: u32,
    key: &'static str,
    controllers: &'static [&'static str],
) -> Setting {
    Setting {
        flag,
        is_duration: false,
        min,
        key,
        controllers,
    }
}

const fn period(
    flag: &'static str,
    key: &'static str,
    controllers: &'static [&'static str],
) -> Setting {
    Setting {
        is_duration: true,
        ..number(flag, 1, key, controllers)
    }
}

impl Flags<'_> {
    /// Reads the flags. `is_ccm` is whether this process stands for cloud-controller-manager. Otherwise it runs the cloud
    /// controllers only if `--cloud-provider` names a plugin, which takes plugins.
    pub(super) fn cloud(&self, is_ccm: bool, may_load: bool) -> Result<CloudConfig, ConfigError> {
        let provider = match self.text(PROVIDER).as_deref() {
            None | Some("external") if is_ccm => {
                return Err(self.error(PROVIDER, "it must be the name of a plugin that is a cloud"));
            }
            None | Some("external") => None,
            Some(_) if !may_load && is_ccm => {
                return Err(self.error(
                    PROVIDER,
                    "there are no plugins: add --plugin-dir with the folder of the provider, or --policy with its source",
                ));
            }
            Some(_) if !may_load => {
                return Err(self.error(
                    PROVIDER,
                    "built-in cloud providers are disabled: set --cloud-provider=external and migrate to an external one",
                ));
            }
            Some(name) => Some(name.to_owned()),
        };
        let controllers = match (is_ccm, &provider) {
            (true, _) => CloudControllers::Only,
            (false, Some(_)) => CloudControllers::Also,
            (false, None) => CloudControllers::None,
        };
        Ok(CloudConfig {
            controllers,
            config_file: self.path("cloud-config").filter(|_| provider.is_some()),
            allow_untagged: self.bool("allow-untagged-cloud"),
            values: match &provider {
                Some(_) => self.cloud_values()?,
                None => BTreeMap::new(),
            },
            provider,
        })
    }

    fn cloud_values(
        &self,
    ) -> Result<BTreeMap<&'static str, BTreeMap<&'static str, String>>, ConfigError> {
        let mut values: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for setting in &SETTINGS {
            let value = if setting.is_duration {
                let period = self.duration(setting.flag)?;
                if period.is_zero() {
                    return Err(self.error(setting.flag, "it must be more than zero"));
                }
                format!("{}ms", period.as_millis().max(1))
            } else {
                self.at_least(setting.flag, setting.min)?.to_string()
            };
            for controller in setting.controllers {
                values
                    .entry(*controller)
                    .or_default()
                    .insert(setting.key, value.clone());
            }
        }
        for (flag, controllers) in TEXTS {
            for controller in controllers {
                let value = self.text(flag).unwrap_or_default();
                values.entry(*controller).or_default().insert(flag, value);
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{CloudControllers, RunConfig};
    use crate::flags::parse;

    fn read(args: &[&str], is_ccm: bool) -> Result<RunConfig, String> {
        let matches = parse(args).expect("they parse");
        let read = if is_ccm {
            RunConfig::read_cloud(&matches)
        } else {
            RunConfig::read(&matches)
        };
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn the_cloud_controllers_run_alone_beside_the_others_or_not_at_all() {
        let plugins = "--plugin-dir=/plugins";
        let runs = |config: &RunConfig| {
            ["service-lb-controller", "job-controller"].map(|name| config.controllers.enables(name))
        };
        let none = read(&["--cloud-provider=external", plugins], false).unwrap();
        assert_eq!(runs(&none), [false, true]);
        assert_eq!(none.cloud.controllers, CloudControllers::None);
        let also = read(&["--cloud-provider=sample", plugins], false).unwrap();
        assert_eq!(runs(&also), [true, true]);
        let only = read(&["--cloud-provider=sample", plugins], true).unwrap();
        assert_eq!(runs(&only), [true, false]);
        assert_eq!(only.cloud.provider.as_deref(), Some("sample"));
        let some = ["--cloud-provider=sample", plugins, "--controllers=service"];
        let some = read(&some, true).unwrap();
        assert!(some.controllers.enables("service-lb-controller"));
        assert!(!some.controllers.enables("cloud-node-controller"));
    }

    #[test]
    fn a_provider_is_a_plugin() {
        let error = |args: &[&str], is_ccm| read(args, is_ccm).unwrap_err();
        assert!(error(&["--cloud-provider=aws"], false).contains("built-in cloud providers"));
        assert!(error(&["--cloud-provider=aws"], true).contains("there are no plugins"));
        assert!(error(&[], true).contains("the name of a plugin"));
    }

    #[test]
    fn the_settings_of_cloud_controllers_come_from_their_flags() {
        let with = |args: &[&str]| {
            let given = ["--cloud-provider=sample", "--plugin-dir=/plugins"];
            read(&[&given, args].concat(), true)
        };
        let values = with(&["--cluster-name=a", "--node-monitor-period=1s"])
            .unwrap()
            .cloud
            .values;
        let services = &values["service-lb-controller"];
        assert_eq!(services["cluster-name"], "a");
        assert_eq!(services["concurrent-service-syncs"], "1");
        let lifecycle = &values["cloud-node-lifecycle-controller"];
        assert_eq!(lifecycle["monitor-period"], "1000ms");
        let nodes = &values["cloud-node-controller"];
        assert_eq!(nodes["status-update-frequency"], "300000ms");
        let error = with(&["--concurrent-node-syncs=0"]).unwrap_err();
        assert!(error.contains("at least 1"), "{error}");
    }
}
