//! `flyball policy`: a policy that grants a plugin what it asks for.

use flyball_policy::grant::ACCOUNTS_NAMESPACE;
use flyball_policy::{PluginPolicy, Rule};
use flyball_types::description::Description;
use flyball_types::printable;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, value};

/// The policy that grants all that the description asks for, except signing keys: the operator
/// names those.
pub(super) fn policy(description: &Description) -> String {
    let granted = PluginPolicy::trusting(description);
    let mut plugin = Table::new();
    plugin.decor_mut().set_prefix(comment(&format!(
        "The grants that {} {} asks for. Delete those that it must not have: such calls fail with `Denied`.\n\
         `flyball rbac` prints the roles that its service account needs.\n",
        description.name,
        printable(&description.version)
    )));
    let account = format!("{ACCOUNTS_NAMESPACE}/{}", description.name);
    plugin["service-account"] = value(account);
    describe(
        &mut plugin,
        "service-account",
        "The account under which the plugin sends requests to the API server.",
    );
    if !granted.imports.is_empty() {
        plugin["imports"] = value(strings(&granted.imports));
        describe(&mut plugin, "imports", "Imports that need a grant.");
    }
    let rules = granted.allow.iter().filter(|rule| !rule.kinds.is_empty());
    let rules: ArrayOfTables = rules.map(table).collect();
    if !rules.is_empty() {
        plugin["allow"] = Item::ArrayOfTables(rules);
    }
    let mut document = with_plugin(&description.name, plugin);
    document.set_trailing(comment(&suggestions(description, &granted)));
    document.to_string()
}

/// Settings that the operator may want to add, as TOML.
fn suggestions(description: &Description, granted: &PluginPolicy) -> String {
    let mut plugin = Table::new();
    plugin["file"] = value(format!("{}.wasm", description.name));
    describe(
        &mut plugin,
        "file",
        "The only file in the plugin folder that this policy applies to. `digest` binds it to the file's content.",
    );
    plugin["concurrency"] = value(i64::from(description.concurrency.max(1)));
    if granted.imports.contains("signer") {
        plugin["signer-keys"] = value(Array::from_iter(["service-account"]));
        describe(
            &mut plugin,
            "signer-keys",
            "The host's keys that the plugin may sign with. Who can sign tokens can act as every service account.",
        );
    }
    let mut config = Table::new();
    for (key, setting) in &description.config {
        config[key] = value(setting.default.as_deref().unwrap_or_default());
        describe(&mut config, key, &setting.help);
    }
    if !config.is_empty() {
        plugin["config"] = Item::Table(config);
    }
    format!(
        "\nMore settings:\n{}",
        with_plugin(&description.name, plugin)
    )
}

/// The document of a policy for one plugin.
fn with_plugin(name: &str, plugin: Table) -> DocumentMut {
    let mut plugins = Table::new();
    plugins.set_implicit(true);
    plugins[name] = Item::Table(plugin);
    let mut document = DocumentMut::new();
    document["plugins"] = Item::Table(plugins);
    document
}

/// Puts a comment above a key.
fn describe(table: &mut Table, key: &str, text: &str) {
    if let Some(mut key) = table.key_mut(key) {
        key.leaf_decor_mut().set_prefix(comment(&printable(text)));
    }
}

/// Makes a comment of each line.
fn comment(text: &str) -> String {
    text.lines()
        .map(|line| match printable(line).trim_end() {
            "" => "\n".to_owned(),
            line => format!("# {line}\n"),
        })
        .collect()
}

fn table(rule: &Rule) -> Table {
    let mut table = Table::new();
    if rule.verbs.iter().eq(["watch"]) {
        table
            .decor_mut()
            .set_prefix("\n# Cached reads, and the changes of these kinds.\n");
    }
    table["kinds"] = value(strings(&rule.kinds));
    if !rule.subresource.is_empty() {
        table["subresource"] = value(rule.subresource.as_str());
    }
    table["verbs"] = value(strings(&rule.verbs));
    if !rule.namespaces.is_empty() {
        table["namespaces"] = value(strings(&rule.namespaces));
    }
    table
}

fn strings<'a>(texts: impl IntoIterator<Item = &'a String>) -> Array {
    texts.into_iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use flyball_policy::Policy;
    use flyball_types::Kind;

    use super::*;

    #[test]
    fn a_printed_policy_grants_the_same_as_trust() {
        let document = r#"{
            "format": 1, "name": "full", "version": "1\n[plugins.evil]", "queues": [{"name": "q"}], "concurrency": 3,
            "watches": [
                {"kind": "v1/Pod"}, {"discovered": {"periodMs": 1}}, {"kind": "v1/Pod", "namespace": "vault"}
            ],
            "permissions": [
                {"kind": "v1/Pod", "subresource": "status", "verbs": ["update", "patch"]},
                {"kind": "v1/Pod", "subresource": "scale", "verbs": ["create"]},
                {"kind": "*", "verbs": ["delete"], "namespaces": ["a", "b"]}
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
        // All other settings have their defaults.
        assert_eq!(
            (read.concurrency, read.config.len(), read.signer_keys.len()),
            (None, 0, 0)
        );
        // Without the comment signs, the suggestions are TOML.
        let (_, suggested) = text
            .split_once("# More settings:\n")
            .expect("there are suggestions");
        let suggested: String = suggested
            .lines()
            .map(|line| line.strip_prefix("# ").unwrap_or(line).to_owned() + "\n")
            .collect();
        let suggested: DocumentMut = suggested
            .parse()
            .unwrap_or_else(|error| panic!("{error}\n{suggested}"));
        let suggested = &suggested["plugins"]["full"];
        assert_eq!(suggested["concurrency"].as_integer(), Some(3));
        assert_eq!(suggested["config"]["none"].as_str(), Some(""));
    }

    #[test]
    fn a_printed_policy_grants_namespaces_and_not_the_whole_cluster() {
        let description = Description::read(
            r#"{
                "format": 1, "name": "narrow", "queues": [{"name": "q"}],
                "watches": [{"kind": "v1/Pod"}, {"kind": "v1/Secret", "namespace": "vault"}],
                "permissions": [{"kind": "*", "verbs": ["delete"], "namespaces": ["a", "b"]}]
            }"#,
        );
        let text = policy(&description.expect("it is valid"));
        let read = Policy::parse(Path::new("printed"), &text).expect("it reads back");
        let read = &read.plugins["narrow"];
        let secret = Kind::new("", "v1", "Secret");
        assert!(read.may_watch(&secret, "vault") && !read.may_watch(&secret, "a"));
        assert!(read.check("delete", &secret, "", "a").is_ok());
        assert!(read.check("delete", &secret, "", "vault").is_err());
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
