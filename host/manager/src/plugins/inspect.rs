//! Inspects a plugin's file without a cluster, for the commands that inspect and validate files. The plugin is loaded
//! and describes itself as in a host, but it has no grant and does not run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use flyball_plugin::Engine;
use flyball_policy::grant::{Asks, Grants};
use flyball_policy::{PluginPolicy, Policy};
use flyball_types::FieldPath;
use flyball_types::description::Description;
use flyball_types::nearest::nearest;

use crate::plugins::load::{Origin, PluginError, describe_with, dropped_in, read};

/// A file that a host could run, if the policy granted what the plugin asks for.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The checked description.
    pub description: Arc<Description>,
    /// The SHA-256 of the file, in hex.
    pub digest: String,
    /// Probable mistakes in the policy of the plugin: a watch lacks a grant, a grant has a field that no watch reads, or a
    /// setting has a key that the plugin does not declare.
    pub mistakes: Vec<String>,
    /// The operator's settings.
    pub settings: BTreeMap<String, String>,
    /// The file's bytes.
    pub wasm: Bytes,
}

/// Loads a file as the host would, up to its checked description. The plugin describes itself with the configuration
/// that `policy` has for it.
///
/// # Errors
/// The file can't be read, is not a component for this host, or its `describe` fails. A retry does not help.
pub async fn inspect(
    engine: &Engine,
    path: &Path,
    policy: &Policy,
) -> Result<Inspection, PluginError> {
    let origin = Origin::File(path.to_owned());
    let wasm = read(engine, path).await?;
    let grants = Grants {
        plugins: policy.clone(),
        ..Grants::default()
    };
    let (mut plugin, component) = dropped_in(engine, origin, wasm.clone()).await?;
    let config = grants.config_for(plugin.name(), plugin.file());
    if !config.is_empty() {
        plugin = describe_with(config.clone(), &plugin, engine, &component).await?;
    }
    let own = policy.plugins.get(plugin.name());
    let mistakes = own.map(|own| {
        let mut mistakes = unused_fields(own, &plugin.description);
        mistakes.extend(refused_watches(own, &plugin.description));
        mistakes
    });
    let mut mistakes = mistakes.unwrap_or_default();
    mistakes.extend(undeclared_settings(&config, &plugin.description));
    Ok(Inspection {
        mistakes,
        settings: config,
        description: plugin.description,
        digest: plugin.digest,
        wasm,
    })
}

/// Fields that each watch shows.
const ALWAYS: [&str; 4] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.resourceVersion",
];

/// Returns a sentence about each field of a rule on watches that no watch of the plugin reads.
fn unused_fields(policy: &PluginPolicy, description: &Description) -> Vec<String> {
    let rules = policy.allow.iter();
    let rules = rules.filter(|rule| rule.verbs.iter().eq(["watch"]));
    let unused = rules.flat_map(|rule| {
        let watches = description.watches.iter().filter_map(|watch| {
            let kind = watch.kind.as_ref()?;
            let is_of_rule = rule.kinds.contains(&kind.to_string());
            is_of_rule.then(|| description.watched_paths(watch, kind).mask().ok())?
        });
        let mut read: Vec<FieldPath> = watches.flat_map(|mask| mask.paths()).collect();
        // Without a watch of its kinds, a rule is for another version of the plugin.
        if read.is_empty() {
            return Vec::new();
        }
        read.extend(ALWAYS.iter().filter_map(|path| path.parse().ok()));
        let is_read = |field: &FieldPath| {
            let (field, mut read) = (field.steps(), read.iter());
            read.any(|path| path.steps().starts_with(field) || field.starts_with(path.steps()))
        };
        let fields = rule.fields.iter();
        let fields = fields.filter_map(|text| Some((text, text.parse().ok()?)));
        let unread = fields.filter(|(_, field)| !is_read(field));
        let names: Vec<String> = read.iter().map(FieldPath::to_string).collect();
        let sentence = |unread: &String| {
            let meant = nearest(unread, names.iter().map(String::as_str));
            let meant = meant.map_or_else(
                || format!("it reads {}", names.join(", ")),
                |meant| format!("did you mean `{meant}`?"),
            );
            format!(
                "the policy grants `{unread}` of {}, which no watch of the plugin `{}` reads: {meant}",
                rule.kinds.join(", "),
                description.name
            )
        };
        unread.map(|(unread, _)| sentence(unread)).collect()
    });
    unused.collect()
}

/// Returns a sentence about each setting that the plugin does not declare, so that it has no effect.
pub(super) fn undeclared_settings(
    settings: &BTreeMap<String, String>,
    description: &Description,
) -> Vec<String> {
    let declared = &description.config;
    let undeclared = settings.keys().filter(|key| !declared.contains_key(*key));
    let sentence = |key: &String| {
        let names = || declared.keys().map(String::as_str);
        let hint = match nearest(key, names()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if declared.is_empty() => "it declares none".to_owned(),
            None => format!("it declares {}", names().collect::<Vec<_>>().join(", ")),
        };
        format!(
            "the plugin `{}` does not declare the setting `{key}`: {hint}",
            description.name
        )
    };
    undeclared.map(sentence).collect()
}

/// Returns a sentence about each watch that the policy does not grant, without which the plugin does not run.
fn refused_watches(policy: &PluginPolicy, description: &Description) -> Vec<String> {
    let asks = Asks::of(description);
    let refused = asks.refused_watches(policy);
    let name = &description.name;
    let mut sentences: Vec<String> = refused
        .map(|refused| format!("the policy does not let the plugin `{name}` {refused}"))
        .collect();
    // Several watches may be of one kind.
    sentences.dedup();
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_the_plugin_does_not_declare_is_named_with_the_nearest_one() {
        let description = r#"{"format": 1, "name": "a", "queues": [{"name": "q"}],
            "config": {"image": {"default": "b"}, "period": {}}}"#;
        let description = Description::read(description).unwrap();
        let undeclared = |key: &str| {
            let settings = BTreeMap::from([(key.to_owned(), "c".to_owned())]);
            undeclared_settings(&settings, &description).pop()
        };
        assert_eq!(undeclared("image"), None);
        let misspelt = undeclared("imgae").unwrap();
        assert!(misspelt.ends_with("did you mean `image`?"), "{misspelt}");
        let far = undeclared("zone").unwrap();
        assert!(far.ends_with("it declares image, period"), "{far}");
    }

    #[test]
    fn a_watch_that_the_policy_does_not_grant_is_named_with_the_fields_that_lack() {
        let description = r#"{"format": 1, "name": "a", "queues": [{"name": "q"}],
            "watches": [{"kind": "v1/Pod", "fields": ["spec.nodeName"], "labelSelector": "app=web"}]}"#;
        let description = Description::read(description).unwrap();
        let refused = |kind: &str, fields: &str| {
            let text = format!(
                "[[plugins.a.allow]]\nkinds = [\"{kind}\"]\nverbs = [\"watch\"]\nfields = [{fields}]"
            );
            let policy = Policy::parse(Path::new("p"), &text).unwrap();
            refused_watches(&policy.plugins["a"], &description).pop()
        };
        let granted = "\"spec.nodeName\", \"metadata.labels\"";
        assert_eq!(refused("v1/Pod", granted), None);
        let lacks_labels = refused("v1/Pod", "\"spec.nodeName\"").unwrap();
        assert!(
            lacks_labels.starts_with("the policy does not let the plugin `a` watch v1/Pod")
                && lacks_labels.contains("it reads metadata.labels"),
            "{lacks_labels}"
        );
        assert!(refused("v1/Secret", "\"data\"").is_some());
    }

    #[test]
    fn a_field_of_a_policy_that_no_watch_reads_is_named_with_the_nearest_one() {
        let description = r#"{"format": 1, "name": "a", "queues": [{"name": "q"}],
            "watches": [{"kind": "v1/Pod", "fields": ["metadata.labels", "spec.nodeName"]}]}"#;
        let description = Description::read(description).unwrap();
        let unused = |kind: &str, verbs: &str, field: &str| {
            let text = format!(
                "[[plugins.a.allow]]\nkinds = [\"{kind}\"]\nverbs = [{verbs}]\nfields = [\"{field}\"]"
            );
            let policy = Policy::parse(Path::new("p"), &text).unwrap();
            unused_fields(&policy.plugins["a"], &description).pop()
        };
        for field in [
            "metadata.labels",
            "metadata",
            "metadata.labels['app']",
            "metadata.uid",
        ] {
            assert_eq!(unused("v1/Pod", "\"watch\"", field), None, "{field}");
        }
        assert_eq!(
            unused("v1/Pod", "\"watch\"", "metadata.lables").unwrap(),
            "the policy grants `metadata.lables` of v1/Pod, which no watch of the plugin `a` reads: did you mean \
             `metadata.labels`?"
        );
        let far = unused("v1/Pod", "\"watch\"", "data").unwrap();
        assert!(far.contains("reads: it reads metadata.labels"), "{far}");
        // Live reads need no watch.
        assert_eq!(
            unused("v1/Pod", "\"watch\", \"get\"", "metadata.lables"),
            None
        );
        assert_eq!(unused("v1/Secret", "\"watch\"", "metadata.lables"), None);
    }
}
