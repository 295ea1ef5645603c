//! Writes an operator's approval into the policy: adds the permissions that a plugin asks for and that are not granted
//! yet. The rest of the file stays as it is, comments included.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flyball_types::description::Description;
use flyball_types::listed;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, Value};

use crate::file::MAX_POLICY;
use crate::grant::{ACCOUNTS_NAMESPACE, Asks, Narrowing};
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

/// Grants what this description asks for in the policy at `path`, with a narrowing only in some namespaces. Returns a
/// sentence about the new grant. Blocks.
pub fn approve(
    path: &Path,
    description: &Description,
    narrowing: Option<&Narrowing>,
) -> Result<String, ApproveError> {
    let name = &description.name;
    let file = file_of(path, name)?;
    let text = match flyball_files::read_to_string(&file, MAX_POLICY) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(source) => return Err(ApproveError::Write { path: file, source }),
    };
    let known = Policy::parse(&file, &text)?.plugins.remove(name);
    let extend = |reason| ApproveError::Extend {
        path: file.clone(),
        reason,
    };
    let addition = Addition::of(description, known.as_ref(), narrowing).map_err(extend)?;
    if known.is_some() && addition.is_empty() {
        return Ok(format!("`{name}` is already granted what it asks for"));
    }
    let extended = addition.added_to(&text, name, known.is_some());
    let extended = extended.map_err(extend)?;
    Policy::parse(&file, &extended)?;
    write(&file, &extended).map_err(|source| ApproveError::Write {
        path: file.clone(),
        source,
    })?;
    Ok(format!(
        "{}, by {}",
        addition.sentence(name),
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

/// What an approval adds to a policy.
struct Addition {
    rules: Vec<Rule>,
    imports: BTreeSet<String>,
    /// What it grants, for people.
    asks: Asks,
    /// Half a sentence about the limits of the grant.
    limits: String,
}

impl Addition {
    /// Fails with a sentence if the plugin can't work with a grant that is so narrow.
    fn of(
        description: &Description,
        known: Option<&PluginPolicy>,
        narrowing: Option<&Narrowing>,
    ) -> Result<Self, String> {
        let granted = known.cloned().unwrap_or_default();
        let asks = Asks::of(description);
        let beyond = asks.beyond(&granted);
        let Some(narrowing) = narrowing else {
            // Without a policy, the discovered kinds are missing, too.
            let missing = match known {
                Some(_) => &beyond,
                None => &asks,
            };
            let (rules, imports) = missing.grants(&granted);
            return Ok(Self {
                rules,
                imports,
                asks: beyond,
                limits: String::new(),
            });
        };
        let within = asks.grants_within(&granted, narrowing);
        let (rules, mut imports) = within.map_err(|watch| {
            format!(
                "`{}` can't work without what it asks for in another namespace, to {watch}: name that namespace, too",
                description.name
            )
        })?;
        imports.retain(|import| !granted.imports.contains(import));
        Ok(Self {
            limits: limits(&rules, narrowing),
            rules,
            imports,
            asks: match known {
                Some(_) => beyond,
                None => asks,
            },
        })
    }

    fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.imports.is_empty()
    }

    /// A sentence without its end about what the plugin is granted.
    fn sentence(&self, name: &str) -> String {
        match self.asks.is_empty() {
            true => format!("`{name}` is granted what it asks for{}", self.limits),
            false => format!("`{name}` is granted to {}{}", self.asks, self.limits),
        }
    }

    /// Returns the text of a policy with this. A plugin that the policy does not have yet gets an account.
    fn added_to(&self, text: &str, name: &str, is_known: bool) -> Result<String, String> {
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
            .entry(name)
            .or_insert_with(|| Item::Table(Table::new()));
        let plugin = plugin
            .as_table_mut()
            .ok_or("write the plugin's policy as a table, with a header of its own")?;
        if !is_known {
            let account = format!("{ACCOUNTS_NAMESPACE}/{name}");
            plugin["service-account"] = toml_edit::value(account);
        }
        if !self.imports.is_empty() {
            let own = plugin
                .entry("imports")
                .or_insert_with(|| toml_edit::value(Array::new()));
            let own = own.as_array_mut().ok_or("`imports` is not an array")?;
            self.imports.iter().for_each(|import| own.push(import));
        }
        if !self.rules.is_empty() {
            let allow = plugin
                .entry("allow")
                .or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
            let allow = allow
                .as_array_of_tables_mut()
                .ok_or("write `allow` as tables: `[[plugins.NAME.allow]]`")?;
            self.rules.iter().for_each(|rule| allow.push(table(rule)));
        }
        Ok(document.to_string())
    }
}

/// Half a sentence about the namespaces of a grant, and about the kinds that have none.
fn limits(rules: &[Rule], narrowing: &Narrowing) -> String {
    let kinds = rules.iter().flat_map(|rule| &rule.kinds);
    let unlimited: BTreeSet<&String> = kinds
        .filter(|kind| narrowing.is_cluster_scoped(kind))
        .collect();
    let except = match unlimited.is_empty() {
        true => String::new(),
        false => format!(
            " (not {}: cluster-scoped objects have no namespace)",
            listed(unlimited)
        ),
    };
    format!(" only in {}{except}", listed(&narrowing.namespaces))
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
    use flyball_types::Kind;

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
        let said = approve(&folder, &plugin(CREATES), None).unwrap();
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
            approve(&folder, &plugin(CREATES), None)
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
        approve(&file, &plugin(MORE), None).unwrap();
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
        approve(&file, &plugin(MORE), None).unwrap();
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
    fn an_approval_for_some_namespaces_grants_nothing_in_others() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("policy.toml");
        let narrowing = |namespaces: &[&str]| Narrowing {
            namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
            cluster_scoped: [Kind::new("", "v1", "Namespace")].into(),
        };
        let (config_map, namespace) = (
            Kind::new("", "v1", "ConfigMap"),
            Kind::new("", "v1", "Namespace"),
        );
        let said = approve(&file, &plugin(CREATES), Some(&narrowing(&["a"]))).unwrap();
        assert!(
            said.contains("only in a (not v1/Namespace: cluster-scoped objects have no namespace)"),
            "{said}"
        );
        let policy = read(&file);
        assert!(policy.check("create", &config_map, "", "a").is_ok());
        assert!(policy.check("create", &config_map, "", "b").is_err());
        assert!(
            policy.may_watch(&namespace, "") && policy.watched_namespaces(&namespace).is_none()
        );
        // Further namespaces are added.
        approve(&file, &plugin(CREATES), Some(&narrowing(&["a", "b"]))).unwrap();
        let policy = read(&file);
        assert!(policy.check("create", &config_map, "", "b").is_ok());
        assert!(policy.check("create", &config_map, "", "").is_err());
        let again = approve(&file, &plugin(CREATES), Some(&narrowing(&["b"]))).unwrap();
        assert!(again.contains("already"), "{again}");
    }

    #[test]
    fn namespaces_that_are_asked_for_are_not_widened() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("policy.toml");
        let asked =
            r#"{"kind": "v1/ConfigMap", "verbs": ["create", "update"], "namespaces": ["a", "b"]}"#;
        let mut description = plugin(asked);
        approve(&file, &description, None).unwrap();
        let expected = Rule {
            kinds: vec!["v1/ConfigMap".into()],
            verbs: ["create".into(), "update".into()].into(),
            namespaces: vec!["a".into(), "b".into()],
            ..Rule::default()
        };
        assert_eq!(read(&file).allow[1..], [expected]);
        // The plugin does not work without this watch.
        description.watches[0].namespace = "vault".into();
        let narrowing = Narrowing {
            namespaces: ["a".to_owned()].into(),
            ..Narrowing::default()
        };
        let other = home.path().join("other.toml");
        let refused = approve(&other, &description, Some(&narrowing)).unwrap_err();
        let ApproveError::Extend { reason, .. } = refused else {
            panic!("{refused}");
        };
        assert!(reason.contains("watch v1/Namespace in vault"), "{reason}");
        assert!(!other.exists());
    }

    #[test]
    fn a_policy_that_is_none_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("policy.toml");
        for broken in ["[plugins", "plugins = { hello = { allow = [] } }"] {
            fs::write(&file, broken).unwrap();
            assert!(approve(&file, &plugin(CREATES), None).is_err(), "{broken}");
            assert_eq!(fs::read_to_string(&file).unwrap(), broken);
        }
    }
}
