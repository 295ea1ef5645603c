//! Settings of the one plugin of a command, from the command line. They take precedence over the policy's, as those of
//! the host's flag of the same name do.

use std::str::FromStr;

use flyball_policy::{PluginPolicy, Policy};
use flyball_types::description::Description;

/// Settings for the plugin that a command runs.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct SettingFlags {
    /// Value of one of the plugin's settings, which takes precedence over the policy's; may be repeated
    #[arg(long = "plugin-config", value_name = "KEY=VALUE")]
    settings: Vec<Setting>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    key: String,
    value: String,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self {
                key: key.to_owned(),
                value: value.to_owned(),
            }),
            _ => Err("write a setting and its value, as in greeting=hello".to_owned()),
        }
    }
}

impl Setting {
    /// The key. The plugin's name may stand before it, as `flyball run` needs it.
    fn key(&self, plugin: &str) -> &str {
        let key = self.key.strip_prefix(plugin);
        let key = key.and_then(|key| key.strip_prefix('.'));
        key.filter(|key| !key.is_empty()).unwrap_or(&self.key)
    }
}

impl SettingFlags {
    pub(super) fn is_empty(&self) -> bool {
        self.settings.is_empty()
    }

    /// The flags of `flyball run` that give these settings to a plugin.
    pub(super) fn for_host(&self, plugin: &str) -> impl Iterator<Item = String> {
        self.settings.iter().map(move |setting| {
            let (key, value) = (setting.key(plugin), &setting.value);
            format!("--plugin-config={plugin}.{key}={value}")
        })
    }

    /// Adds the settings to the plugin's policy. A plugin without a policy gets one that grants all that it asks for.
    pub(super) fn add_to(&self, policy: &mut Policy, description: &Description) {
        let name = &description.name;
        let plugins = &mut policy.plugins;
        let own = plugins.entry(name.clone());
        let own = own.or_insert_with(|| PluginPolicy::trusting(description));
        for setting in &self.settings {
            let key = setting.key(name).to_owned();
            own.config.insert(key, setting.value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(texts: &[&str]) -> SettingFlags {
        let settings = texts.iter().map(|text| text.parse().expect("a setting"));
        SettingFlags {
            settings: settings.collect(),
        }
    }

    #[test]
    fn a_setting_is_the_plugin_s_with_or_without_its_name() {
        let flags = flags(&["greeting=a=b.c", "hello.period=", "hello-2.x=y"]);
        let given: Vec<String> = flags.for_host("hello").collect();
        assert_eq!(
            given,
            [
                "--plugin-config=hello.greeting=a=b.c",
                "--plugin-config=hello.period=",
                "--plugin-config=hello.hello-2.x=y",
            ]
        );
        for text in ["greeting", "=a", ""] {
            assert!(text.parse::<Setting>().is_err(), "{text}");
        }
    }

    #[test]
    fn settings_take_precedence_over_the_policy_s() {
        let description = r#"{"format": 1, "name": "hello", "queues": [{"name": "hello"}]}"#;
        let description = Description::read(description).expect("it is valid");
        let mut policy = Policy::default();
        flags(&["a=1", "b=2"]).add_to(&mut policy, &description);
        flags(&["hello.a=3"]).add_to(&mut policy, &description);
        let config = &policy.plugins["hello"].config;
        let values: Vec<(&str, &str)> = config.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(values, [("a", "3"), ("b", "2")]);
    }
}
