//! `flyball policy`: what a plugin asks for, as the policy that grants it.

use std::fmt::Write;

use flyball_manager::ACCOUNTS_NAMESPACE;
use flyball_manager::policy::{PluginPolicy, Rule};
use flyball_types::description::Description;
use flyball_types::printable;
use serde_json::json;

/// The policy that grants all that the description asks for, but no signing key: those are for the operator to name.
pub(super) fn policy(description: &Description) -> String {
    let name = &description.name;
    let granted = PluginPolicy::trusting(description);
    let mut text = format!(
        "# What {name} {} asks for. Take away what it must not do: it is told `Denied` then.\n\
         # `flyball rbac` prints the roles that its account needs for this.\n\n\
         [plugins.{name}]\n\
         # The account under which it talks to the API server.\n\
         service-account = {}\n",
        printable(&description.version),
        string(&format!("{ACCOUNTS_NAMESPACE}/{name}")),
    );
    if !granted.imports.is_empty() {
        let _ = write!(
            text,
            "# Imports that need a grant.\nimports = {}\n",
            strings(&granted.imports)
        );
    }
    if granted.imports.contains("signer") {
        text.push_str("# The host's keys that it may sign with. Whoever can sign tokens can be any service account.\n");
        text.push_str("# signer-keys = [\"service-account\"]\n");
    }
    let _ = writeln!(text, "# concurrency = {}", description.concurrency.max(1));
    if !description.config.is_empty() {
        let _ = write!(text, "\n# [plugins.{name}.config]\n");
        for (key, value) in &description.config {
            let default = value.default.as_deref().unwrap_or_default();
            let _ = writeln!(
                text,
                "# {} = {}  # {}",
                string(key),
                string(default),
                printable(&value.help)
            );
        }
    }
    for rule in granted.allow.iter().filter(|rule| !rule.kinds.is_empty()) {
        let _ = write!(text, "\n[[plugins.{name}.allow]]{}\n", remark(rule));
        let _ = writeln!(text, "kinds = {}", strings(&rule.kinds));
        if !rule.subresource.is_empty() {
            let _ = writeln!(text, "subresource = {}", string(&rule.subresource));
        }
        let _ = writeln!(text, "verbs = {}", strings(&rule.verbs));
    }
    text
}

/// What a rule is for, where its words don't say it.
fn remark(rule: &Rule) -> &'static str {
    if rule.verbs.iter().eq(["watch"]) {
        "  # Read from the host's cache, and follow."
    } else {
        ""
    }
}

/// A basic string of TOML: one of JSON, but that TOML wants DEL escaped.
fn string(text: &str) -> String {
    json!(text).to_string().replace('\u{7f}', "\\u007f")
}

fn strings<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| string(text)).collect();
    format!("[{}]", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use flyball_manager::policy::Policy;

    use super::*;

    #[test]
    fn a_printed_policy_reads_back_as_what_trust_grants() {
        let document = r#"{
            "format": 1, "name": "full", "version": "1\n[plugins.evil]", "queues": [{"name": "q"}], "concurrency": 3,
            "watches": [{"kind": "v1/Pod"}, {"discovered": {"periodMs": 1}}],
            "permissions": [
                {"kind": "v1/Pod", "subresource": "status", "verbs": ["update", "patch"]},
                {"kind": "v1/Pod", "subresource": "odd\"\n]\u007f", "verbs": ["create"]},
                {"kind": "*", "verbs": ["delete"]}
            ],
            "imports": ["raw", "signer"],
            "config": {"a.b": {"default": "c\"\nd\u007f", "help": "in\nlines"}, "none": {}}
        }"#;
        let description = Description::read(document).expect("it is valid");
        let text = policy(&description);
        let read = Policy::parse(Path::new("printed"), &text)
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(read.plugins.keys().collect::<Vec<_>>(), ["full"]);
        let (read, trusted) = (&read.plugins["full"], PluginPolicy::trusting(&description));
        assert_eq!(
            (&read.allow, &read.imports),
            (&trusted.allow, &trusted.imports)
        );
        assert_eq!(read.service_account.as_deref(), Some("flyball-system/full"));
        // All else is as where nothing is said.
        assert_eq!(
            (read.concurrency, read.config.len(), read.signer_keys.len()),
            (None, 0, 0)
        );
    }

    #[test]
    fn a_plugin_that_asks_for_nothing_is_granted_nothing() {
        let description =
            Description::read(r#"{"format": 1, "name": "idle", "queues": [{"name": "q"}]}"#);
        let text = policy(&description.expect("it is valid"));
        let read = Policy::parse(Path::new("printed"), &text).expect("it reads back");
        assert!(read.plugins["idle"].allow.is_empty());
    }
}
