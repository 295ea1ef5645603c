//! Writes an operator's approval into the policy: adds the permissions that a plugin asks for and that are not granted
//! yet. The rest of the file stays as it is, comments included.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flyball_types::description::Description;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, Value};

use crate::file::MAX_POLICY;
use crate::grant::{ACCOUNTS_NAMESPACE, Asks};
use crate::{PluginPolicy, Policy, PolicyError, Rule};

/// A policy that can't be extended.
#[derive(Debug, thiserror::Error)]
pub enum ApproveError {
    #[error("can't write the policy {}", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("can't extend the policy {}: {reason}", .path.display())]
    Extend { path: PathBuf, reason: String },
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// Grants what this description asks for in the policy at `path`. Returns a sentence about the new grant. Blocks.
pub fn approve(path: &Path, description: &Description) -> Result<String, ApproveError> {
    let name = &description.name;
    let file = file_of(path, name)?;
    let text = match flyball_files::read_to_string(&file, MAX_POLICY) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(source) => return Err(ApproveError::Write { path: file, source }),
    };
    let known = Policy::parse(&file, &text)?.plugins.remove(name);
    let asks = Asks::of(description).beyond(&known.clone().unwrap_or_default());
    if known.is_some() && asks.is_empty() {
        return Ok(format!("`{name}` is already granted what it asks for"));
    }
    let extended =
        extended(&text, description, known.as_ref()).map_err(|reason| ApproveError::Extend {
            path: file.clone(),
            reason,
        })?;
    Policy::parse(&file, &extended)?;
    write(&file, &extended).map_err(|source| ApproveError::Write {
        path: file.clone(),
        source,
    })?;
    Ok(format!(
        "`{name}` is granted to {asks}, by {}",
        file.display()
    ))
}

/// The file with the policy for a plugin: the folder's file that has it, else a new one.
fn file_of(path: &Path, name: &str) -> Result<PathBuf, ApproveError> {
    let is_file = path.is_file()
        || (!path.exists()
            && path
                .extension()
                .is_some_and(|extension| extension == "toml"));
    if is_file {
        return Ok(path.to_owned());
    }
    fs::create_dir_all(path).map_err(|source| ApproveError::Write {
        path: path.to_owned(),
        source,
    })?;
    for file in Policy::files(path)? {
        if Policy::read(&file)?.plugins.contains_key(name) {
            return Ok(file);
        }
    }
    Ok(path.join(format!("{name}.toml")))
}

/// Returns the text with the permissions that the plugin asks for beyond `known`.
fn extended(
    text: &str,
    description: &Description,
    known: Option<&PluginPolicy>,
) -> Result<String, String> {
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| error.message().to_owned())?;
    let plugins = document.entry("plugins").or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let plugins = plugins.as_table_mut().ok_or("`plugins` is not a table")?;
    let plugin = plugins
        .entry(&description.name)
        .or_insert_with(|| Item::Table(Table::new()));
    let plugin = plugin
        .as_table_mut()
        .ok_or("write the plugin's policy as a table, with a header of its own")?;
    if known.is_none() {
        plugin["service-account"] =
            toml_edit::value(format!("{ACCOUNTS_NAMESPACE}/{}", description.name));
    }
    let granted = known.cloned().unwrap_or_default();
    let asks = Asks::of(description);
    // Without a policy, the discovered kinds are missing, too.
    let missing = match known {
        Some(known) => asks.beyond(known),
        None => asks,
    };
    let (rules, imports) = missing.grants(&granted);
    if !imports.is_empty() {
        let own = plugin
            .entry("imports")
            .or_insert_with(|| toml_edit::value(Array::new()));
        let own = own.as_array_mut().ok_or("`imports` is not an array")?;
        imports.into_iter().for_each(|import| own.push(import));
    }
    if !rules.is_empty() {
        let allow = plugin
            .entry("allow")
            .or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        let allow = allow
            .as_array_of_tables_mut()
            .ok_or("write `allow` as tables: `[[plugins.NAME.allow]]`")?;
        rules.iter().for_each(|rule| allow.push(table(rule)));
    }
    Ok(document.to_string())
}

fn table(rule: &Rule) -> Table {
    let mut table = Table::new();
    let array = |texts: &mut dyn Iterator<Item = &String>| {
        Value::from(texts.map(String::as_str).collect::<Array>())
    };
    table["kinds"] = toml_edit::value(array(&mut rule.kinds.iter()));
    if !rule.subresource.is_empty() {
        table["subresource"] = toml_edit::value(rule.subresource.as_str());
    }
    table["verbs"] = toml_edit::value(array(&mut rule.verbs.iter()));
    for (key, texts) in [("namespaces", &rule.namespaces), ("fields", &rule.fields)] {
        if !texts.is_empty() {
            table[key] = toml_edit::value(array(&mut texts.iter()));
        }
    }
    table
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let temporary = path.with_extension("toml.tmp");
    fs::write(&temporary, text)?;
    fs::rename(temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(permissions: &str) -> Description {
        let text = format!(
            r#"{{"format": 1, "name": "hello", "queues": [{{"name": "hello"}}], "imports": ["discovery"],
                 "watches": [{{"kind": "v1/Namespace", "fields": ["metadata.annotations"]}}],
                 "permissions": [{permissions}]}}"#
        );
        Description::read(&text).expect("a description")
    }

    const CREATES: &str = r#"{"kind": "v1/ConfigMap", "verbs": ["create"]}"#;
    const MORE: &str = r#"{"kind": "v1/ConfigMap", "verbs": ["create", "delete"]},
                          {"kind": "apps/v1/Deployment", "subresource": "status", "verbs": ["patch"]}"#;

    fn read(path: &Path) -> PluginPolicy {
        Policy::read(path).unwrap().plugins.remove("hello").unwrap()
    }

    #[test]
    fn what_is_approved_is_granted_and_no_more() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("policy");
        let said = approve(&folder, &plugin(CREATES)).unwrap();
        assert!(
            said.contains("watch v1/Namespace, create v1/ConfigMap, use discovery"),
            "{said}"
        );
        let policy = read(&folder);
        let trusting = PluginPolicy::trusting(&plugin(CREATES));
        assert_eq!(
            (policy.allow, policy.imports),
            (trusting.allow, trusting.imports)
        );
        assert_eq!(
            policy.service_account.as_deref(),
            Some("flyball-system/hello")
        );
        assert!(
            approve(&folder, &plugin(CREATES))
                .unwrap()
                .contains("already")
        );
    }

    #[test]
    fn a_version_that_asks_for_more_extends_what_the_operator_wrote() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("policy.toml");
        let own = "# Ours.\n[plugins.other]\n\n[plugins.hello]\nservice-account = \"a/b\" # as agreed\n\
                   [[plugins.hello.allow]]\nkinds = [\"v1/Namespace\"]\nverbs = [\"watch\"]\n";
        fs::write(&file, own).unwrap();
        approve(&file, &plugin(MORE)).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            text.starts_with("# Ours.\n[plugins.other]\n") && text.contains("# as agreed"),
            "{text}"
        );
        let policy = read(&file);
        assert_eq!(policy.service_account.as_deref(), Some("a/b"));
        assert!(Asks::of(&plugin(MORE)).beyond(&policy).is_empty(), "{text}");
        assert_eq!(text.matches("v1/Namespace").count(), 1, "{text}");
    }

    #[test]
    fn an_approval_keeps_the_limits_of_namespaces_and_fields() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("policy.toml");
        let own = "[[plugins.hello.allow]]\nkinds = [\"v1/Namespace\"]\nverbs = [\"watch\"]\nfields = [\"metadata.labels\"]\n\
                   [[plugins.hello.allow]]\nkinds = [\"v1/ConfigMap\"]\nverbs = [\"create\"]\nnamespaces = [\"demo\"]\n";
        fs::write(&file, own).unwrap();
        let known = read(&file).allow;
        approve(&file, &plugin(MORE)).unwrap();
        let allow = read(&file).allow;
        assert_eq!(allow[..2], known[..]);
        let added = |kind: &str, subresource: &str, verb: &str, fields: &[&str]| Rule {
            kinds: vec![kind.into()],
            subresource: subresource.into(),
            verbs: [verb.into()].into(),
            namespaces: Vec::new(),
            fields: fields.iter().map(|&field| field.into()).collect(),
        };
        let expected = [
            added("v1/Namespace", "", "watch", &["metadata.annotations"]),
            added("v1/ConfigMap", "", "delete", &[]),
            added("apps/v1/Deployment", "status", "patch", &[]),
        ];
        assert_eq!(allow[2..], expected);
    }

    #[test]
    fn a_policy_that_is_none_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("policy.toml");
        for broken in ["[plugins", "plugins = { hello = { allow = [] } }"] {
            fs::write(&file, broken).unwrap();
            assert!(approve(&file, &plugin(CREATES)).is_err(), "{broken}");
            assert_eq!(fs::read_to_string(&file).unwrap(), broken);
        }
    }
}
