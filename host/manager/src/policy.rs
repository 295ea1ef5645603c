//! The operator's policy: which plugin may read and write what. Default: nothing.
//!
//! ```toml
//! [plugins.greeter]
//! service-account = "flyball/greeter"
//! [[plugins.greeter.allow]]
//! kinds = ["v1/Namespace", "v1/ConfigMap"]
//! verbs = ["watch"]
//! [[plugins.greeter.allow]]
//! kinds = ["v1/ConfigMap"]
//! verbs = ["get", "create", "update", "delete"]
//! namespaces = ["demo"]
//!
//! [plugins.issuer]
//! imports = ["signer"]
//! signer-keys = ["service-account"]
//! ```

pub(crate) mod approve;
pub(crate) mod grant;
mod limits;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use flyball_registry::{PackageReference, RegistryError};
use flyball_types::description::{Description, Watch};
use flyball_types::nearest::with_nearest;
use flyball_types::{ApiError, Kind, Mask};
use serde::{Deserialize, Serialize};

pub use self::limits::{LimitPolicy, Rate};

/// What the operator grants, by the plugin's name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Policy {
    #[serde(default)]
    pub plugins: BTreeMap<String, PluginPolicy>,
}

/// What the operator grants to one plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct PluginPolicy {
    /// Service account that its requests are made as, in the form `namespace/name`. By default, a built-in uses the host's
    /// credentials, and a dropped-in plugin uses `flyball-system/` and its name.
    pub service_account: Option<String>,
    /// SHA-256 of the only file that this policy applies to, in hex, as in `sha256:4a…`. By default it applies to any file
    /// whose description has the plugin's name.
    pub digest: Option<String>,
    /// Package that it is pulled from, instead of a file in a plugin folder: `oci://`, a registry and a repository, pinned to
    /// the package's digest, as in `oci://registry.example.com/plugins/hello@sha256:4a…`.
    pub source: Option<String>,
    /// File with the public key, in PEM, that the package must be signed with. A relative path starts at the policy's folder.
    pub signed_by: Option<PathBuf>,
    /// Whether it replaces the built-in controller of its name.
    pub replaces_builtin: bool,
    /// What it may read and write. A request is allowed if any rule allows it.
    pub allow: Vec<Rule>,
    /// Imports that it may use and that need a grant: `discovery`, `signer`, `raw`.
    pub imports: BTreeSet<String>,
    /// Servers that it may send requests to over `wasi:http`, as in `example.com` or `http://example.com:8080`. The default is
    /// HTTPS at its usual port. Certificates are checked against the public authorities.
    pub http_hosts: BTreeSet<String>,
    /// Keys of the host that `signer` signs and verifies with for it. A key that is not named here is denied: no plugin gets
    /// one by asking.
    pub signer_keys: BTreeSet<String>,
    /// Its configuration.
    pub config: BTreeMap<String, String>,
    /// Number of keys that it reconciles at once. By default, what it asks for.
    pub concurrency: Option<u32>,
    /// Limits that differ from the host's defaults.
    pub limits: LimitPolicy,
}

/// One permission.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Rule {
    /// Kinds, as in `apps/v1/ReplicaSet`; `*` for all.
    pub kinds: Vec<String>,
    /// A subresource such as `status`; the object itself if empty, `*` for all and the object.
    #[serde(default)]
    pub subresource: String,
    /// `watch` (read from the cache), `get` and `list` (ask the server), `create`, `update`, `patch`, `delete`,
    /// `deletecollection`; `*` for all.
    pub verbs: BTreeSet<String>,
    /// Namespaces that the rule applies to; all if empty.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Fields of watched and read objects that the plugin sees; all that it declares if empty.
    #[serde(default)]
    pub fields: Vec<String>,
}

/// A policy that can't be used. A retry helps only after it was corrected.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A file or folder can't be read.
    #[error("can't read the policy {}", .path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not a policy.
    #[error("the policy {} is not valid: {message}", .path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
    },
    /// Two files have a policy for the same plugin.
    #[error("the policy {} has rules for the plugin `{plugin}`, and so has another file of the folder: merge them into one file", .path.display())]
    Twice {
        /// The second file.
        path: PathBuf,
        /// The plugin.
        plugin: String,
    },
}

impl Policy {
    /// Reads a file, or all `*.toml` files of a folder.
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        let read = |source| PolicyError::Read {
            path: path.into(),
            source,
        };
        if !path.is_dir() {
            return Self::parse(path, &std::fs::read_to_string(path).map_err(read)?);
        }
        let mut policy = Self::default();
        for file in Self::files(path)? {
            let text = std::fs::read_to_string(&file).map_err(|source| PolicyError::Read {
                path: file.clone(),
                source,
            })?;
            for (plugin, rules) in Self::parse(&file, &text)?.plugins {
                if policy.plugins.insert(plugin.clone(), rules).is_some() {
                    return Err(PolicyError::Twice { path: file, plugin });
                }
            }
        }
        Ok(policy)
    }

    /// The files of a policy's folder, in order of their names.
    pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, PolicyError> {
        let read = |source| PolicyError::Read {
            path: folder.into(),
            source,
        };
        let entries = std::fs::read_dir(folder)
            .and_then(|entries| entries.collect::<Result<Vec<_>, _>>())
            .map_err(read)?;
        let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
        files.retain(|file| {
            file.extension()
                .is_some_and(|extension| extension == "toml")
        });
        files.sort();
        Ok(files)
    }

    /// Reads a policy's text; `path` is for messages.
    pub fn parse(path: &Path, text: &str) -> Result<Self, PolicyError> {
        let invalid = |message| PolicyError::Parse {
            path: path.into(),
            message,
        };
        let mut policy: Self =
            toml::from_str(text).map_err(|error| invalid(in_one_sentence(text, &error)))?;
        for rules in policy.plugins.values_mut() {
            let beside = |file: PathBuf| {
                path.parent()
                    .map_or(file.clone(), |folder| folder.join(&file))
            };
            rules.signed_by = rules.signed_by.take().map(beside);
        }
        for (plugin, rules) in &policy.plugins {
            rules
                .validate()
                .map_err(|problem| invalid(format!("plugin `{plugin}`: {problem}")))?;
        }
        Ok(policy)
    }
}

impl PluginPolicy {
    /// Fails with a sentence about what is not valid.
    fn validate(&self) -> Result<(), String> {
        for kind in self
            .allow
            .iter()
            .flat_map(|rule| &rule.kinds)
            .filter(|kind| *kind != "*")
        {
            kind.parse::<Kind>().map_err(|error| error.to_string())?;
        }
        if let Some(account) = &self.service_account
            && account
                .split_once('/')
                .is_none_or(|(namespace, name)| namespace.is_empty() || name.is_empty())
        {
            return Err(format!(
                "`{account}` is not a service account: write `namespace/name`"
            ));
        }
        for path in self.allow.iter().flat_map(|rule| &rule.fields) {
            Mask::parse([path]).map_err(|error| error.to_string())?;
        }
        if self
            .allow
            .iter()
            .any(|rule| !rule.fields.is_empty() && !rule.only_reads())
        {
            return Err(
                "`fields` limit what is read: remove them from rules with verbs that write".into(),
            );
        }
        if let Some(host) = self
            .http_hosts
            .iter()
            .find(|host| whole_server(host).is_none())
        {
            return Err(format!(
                "`{host}` is not a server: write `example.com`, `example.com:8443` or `http://example.com`"
            ));
        }
        if let Some(source) = &self.source {
            let source: PackageReference = source
                .parse()
                .map_err(|error: RegistryError| error.to_string())?;
            if source.digest().is_none() {
                return Err(format!(
                    "the source {source} is not pinned: what it holds may change. `flyball pull` prints the digest to \
                     add, as in `@sha256:4a…`"
                ));
            }
        }
        if self.signed_by.is_some() && self.source.is_none() {
            return Err("`signed-by` is about a `source`, and there is none: add a `source`, or remove `signed-by`".into());
        }
        if let Some(digest) = self.digest.as_ref().filter(|digest| !is_digest(digest)) {
            return Err(format!(
                "`{digest}` is not a digest: write `sha256:` and 64 hex digits"
            ));
        }
        if !self.signer_keys.is_empty() && !self.imports.contains("signer") {
            return Err("`signer-keys` does nothing without `imports = [\"signer\"]`".into());
        }
        Ok(())
    }

    /// Whether the policy applies to the file with this digest, which is in hex.
    pub(crate) fn is_for_file(&self, digest: &str) -> bool {
        self.digest
            .as_ref()
            .is_none_or(|only| only.strip_prefix("sha256:") == Some(digest))
    }

    /// Grants what the plugin asks for, all of it.
    pub fn trusting(description: &Description) -> Self {
        let watched = |watch: &Watch| match (&watch.kind, &watch.discovered) {
            (Some(kind), _) => Some(kind.to_string()),
            (None, discovered) => discovered.as_ref().map(|_| "*".into()),
        };
        let watch = Rule {
            kinds: description.watches.iter().filter_map(watched).collect(),
            verbs: BTreeSet::from(["watch".into()]),
            ..Rule::default()
        };
        let asked = description.permissions.iter().map(|permission| Rule {
            kinds: vec![permission.kind.to_string()],
            subresource: permission.subresource.clone(),
            verbs: permission.verbs.clone(),
            ..Rule::default()
        });
        let allow = std::iter::once(watch).chain(asked).collect();
        Self {
            allow,
            imports: description.imports.clone(),
            ..Self::default()
        }
    }

    /// Fails with `Denied` if the plugin may not do this. The namespace is empty for a cluster-scoped object and for all
    /// namespaces.
    pub fn check(
        &self,
        verb: &str,
        kind: &Kind,
        subresource: &str,
        namespace: &str,
    ) -> Result<(), ApiError> {
        let name = kind.to_string();
        if self
            .allow
            .iter()
            .any(|rule| rule.allows(verb, &name, subresource, namespace))
        {
            return Ok(());
        }
        let slash = if subresource.is_empty() { "" } else { "/" };
        let place = if namespace.is_empty() {
            String::new()
        } else {
            format!(" in the namespace {namespace}")
        };
        Err(ApiError::denied(format!(
            "the policy does not let this plugin {verb} {name}{slash}{subresource}{place}"
        )))
    }

    /// Whether it may do this in some namespace; the kind may be `*`.
    pub(crate) fn grants_somewhere(&self, verb: &str, kind: &str, subresource: &str) -> bool {
        self.allow
            .iter()
            .any(|rule| rule.has(verb, kind, subresource))
    }

    /// Whether it may do this in every namespace, and of all fields.
    pub(crate) fn grants_everywhere(&self, verb: &str, kind: &str, subresource: &str) -> bool {
        let mut rules = self
            .allow
            .iter()
            .filter(|rule| rule.has(verb, kind, subresource));
        rules.any(|rule| rule.namespaces.is_empty() && rule.fields.is_empty())
    }

    /// Whether it may watch this kind, in some namespace at least if none is named.
    pub(crate) fn may_watch(&self, kind: &Kind, namespace: &str) -> bool {
        let mut rules = self.watching(kind);
        rules.any(|rule| {
            namespace.is_empty() || rule.namespaces.is_empty() || rule.is_for(namespace)
        })
    }

    /// The namespaces in which it may watch a kind; all if none.
    pub(crate) fn watched_namespaces(&self, kind: &Kind) -> Option<BTreeSet<String>> {
        if self.watching(kind).any(|rule| rule.namespaces.is_empty()) {
            return None;
        }
        Some(
            self.watching(kind)
                .flat_map(|rule| &rule.namespaces)
                .cloned()
                .collect(),
        )
    }

    /// The fields that it may see of a kind that it watches; all if none.
    pub(crate) fn watched_fields(&self, kind: &Kind) -> Option<Mask> {
        self.fields("watch", kind, "")
    }

    /// The fields that it may see of what it reads by this verb in a namespace, or in some if none is named; all if none.
    pub(crate) fn fields(&self, verb: &str, kind: &Kind, namespace: &str) -> Option<Mask> {
        let is_there = |rule: &&Rule| {
            namespace.is_empty() || rule.namespaces.is_empty() || rule.is_for(namespace)
        };
        let rules = || self.reading(verb, kind).filter(is_there);
        if rules().any(|rule| rule.fields.is_empty()) {
            return None;
        }
        Mask::parse(rules().flat_map(|rule| &rule.fields)).ok()
    }

    fn watching(&self, kind: &Kind) -> impl Iterator<Item = &Rule> {
        self.reading("watch", kind)
    }

    fn reading(&self, verb: &str, kind: &Kind) -> impl Iterator<Item = &Rule> {
        let name = kind.to_string();
        self.allow
            .iter()
            .filter(move |rule| rule.has(verb, &name, ""))
    }

    /// Fails with `Denied` if the plugin may not use this import.
    pub fn check_import(&self, import: &str) -> Result<(), ApiError> {
        if self.imports.contains(import) {
            return Ok(());
        }
        Err(ApiError::denied(format!(
            "the policy does not let this plugin use `{import}`"
        )))
    }

    /// Fails with `Denied` if the plugin may not send requests to this server, named as in `https://example.com:443`.
    pub(crate) fn check_server(&self, server: &str) -> Result<(), ApiError> {
        if self
            .http_hosts
            .iter()
            .any(|granted| whole_server(granted).as_deref() == Some(server))
        {
            return Ok(());
        }
        Err(ApiError::denied(format!(
            "the policy does not let this plugin send requests to {server}"
        )))
    }

    /// Fails with `Denied` if `signer` may not use this key for the plugin, whether the host holds such a key or not.
    pub fn check_key(&self, key: &str) -> Result<(), ApiError> {
        self.check_import("signer")?;
        if self.signer_keys.contains(key) {
            return Ok(());
        }
        Err(ApiError::denied(format!(
            "the policy does not let this plugin use the key `{key}`"
        )))
    }
}

impl Rule {
    fn allows(&self, verb: &str, kind: &str, subresource: &str, namespace: &str) -> bool {
        self.has(verb, kind, subresource) && (self.namespaces.is_empty() || self.is_for(namespace))
    }

    fn has(&self, verb: &str, kind: &str, subresource: &str) -> bool {
        (self.verbs.contains(verb) || self.verbs.contains("*"))
            && self.kinds.iter().any(|known| known == kind || known == "*")
            && (self.subresource == subresource || self.subresource == "*")
    }

    fn only_reads(&self) -> bool {
        self.subresource.is_empty()
            && self
                .verbs
                .iter()
                .all(|verb| matches!(verb.as_str(), "watch" | "get" | "list"))
    }

    fn is_for(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|known| known == namespace)
    }
}

/// A server as an operator names it, with its scheme and port; none if it is not valid.
fn whole_server(text: &str) -> Option<String> {
    let (scheme, rest, usual) = match text.split_once("://") {
        Some(("http", rest)) => ("http", rest, 80),
        Some(("https", rest)) => ("https", rest, 443),
        Some(_) => return None,
        None => ("https", text, 443),
    };
    let authority: http::uri::Authority = rest.parse().ok()?;
    if authority.host().is_empty() || authority.as_str().contains('@') {
        return None;
    }
    Some(format!(
        "{scheme}://{}:{}",
        authority.host().to_ascii_lowercase(),
        authority.port_u16().unwrap_or(usual)
    ))
}

fn is_digest(text: &str) -> bool {
    let hex = text.strip_prefix("sha256:").unwrap_or_default();
    hex.len() == 64
        && hex
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The parser's message, with the line number.
fn in_one_sentence(text: &str, error: &toml::de::Error) -> String {
    let message = with_nearest(&error.message().replace('\n', " "));
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TEXT: &str = r#"
        [plugins.greeter]
        service-account = "flyball/greeter"
        imports = ["discovery"]
        config = { greeting = "hello" }
        limits = { cpu = "250ms", memory = "64Mi" }
        [[plugins.greeter.allow]]
        kinds = ["v1/ConfigMap"]
        verbs = ["create", "update"]
        namespaces = ["demo"]
        [[plugins.greeter.allow]]
        kinds = ["apps/v1/Deployment"]
        subresource = "status"
        verbs = ["*"]
    "#;

    fn parse(text: &str) -> Result<Policy, String> {
        Policy::parse(Path::new("policy.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_plugin_may_do_what_a_rule_allows_and_nothing_else() {
        let policy = parse(TEXT).unwrap();
        let greeter = &policy.plugins["greeter"];
        let map = Kind::new("", "v1", "ConfigMap");
        let deployment = Kind::new("apps", "v1", "Deployment");
        assert!(greeter.check("create", &map, "", "demo").is_ok());
        assert!(greeter.check("patch", &deployment, "status", "any").is_ok());
        for (verb, kind, subresource, namespace) in [
            ("delete", &map, "", "demo"),
            ("create", &map, "", "other"),
            ("create", &map, "", ""),
            ("create", &map, "status", "demo"),
            ("patch", &deployment, "", "any"),
        ] {
            let error = greeter
                .check(verb, kind, subresource, namespace)
                .unwrap_err();
            assert_eq!((error.status, error.reason.as_str()), (403, "Denied"));
        }
        assert!(greeter.check_import("discovery").is_ok());
        assert!(greeter.check_import("signer").is_err());
        assert_eq!(greeter.limits.cpu, Some(Duration::from_millis(250)));
        assert_eq!(greeter.limits.memory, Some(64 << 20));
    }

    #[test]
    fn a_star_is_every_kind_and_every_subresource() {
        let text =
            "[[plugins.a.allow]]\nkinds = [\"*\"]\nsubresource = \"*\"\nverbs = [\"delete\"]";
        let policy = parse(text).unwrap();
        let widget = Kind::new("example.com", "v1", "Widget");
        for subresource in ["", "status"] {
            assert!(
                policy.plugins["a"]
                    .check("delete", &widget, subresource, "demo")
                    .is_ok()
            );
            assert!(
                policy.plugins["a"]
                    .check("update", &widget, subresource, "demo")
                    .is_err()
            );
        }
        assert!(
            parse(&text.replace("[\"*\"]\nsub", "[\"v1/*\"]\nsub"))
                .unwrap_err()
                .contains("`v1/*` is not a kind")
        );
    }

    #[test]
    fn a_trusted_plugin_that_asks_for_all_kinds_gets_them_and_no_other_verb() {
        let asked = r#"{"format": 1, "name": "a", "queues": [{"name": "a"}],
                        "permissions": [{"kind": "*", "verbs": ["delete"]}]}"#;
        let policy = PluginPolicy::trusting(&Description::read(asked).unwrap());
        let widget = Kind::new("example.com", "v1", "Widget");
        assert!(policy.check("delete", &widget, "", "demo").is_ok());
        assert!(policy.check("list", &widget, "", "demo").is_err());
        assert!(policy.check("delete", &widget, "status", "demo").is_err());
    }

    #[test]
    fn a_key_is_used_only_by_whom_the_operator_names_it_for() {
        let policy =
            parse("[plugins.issuer]\nimports = [\"signer\"]\nsigner-keys = [\"a\"]").unwrap();
        let issuer = &policy.plugins["issuer"];
        assert!(issuer.check_key("a").is_ok());
        assert!(
            issuer
                .check_key("b")
                .unwrap_err()
                .message
                .contains("the key `b`")
        );
        let asking = Description {
            imports: BTreeSet::from(["signer".into()]),
            ..Description::default()
        };
        let trusted = PluginPolicy::trusting(&asking);
        assert_eq!(trusted.check_key("a").unwrap_err().reason, "Denied");
        let keys_alone = PluginPolicy {
            signer_keys: BTreeSet::from(["a".into()]),
            ..PluginPolicy::default()
        };
        assert!(
            keys_alone
                .check_key("a")
                .unwrap_err()
                .message
                .contains("`signer`")
        );
    }

    #[test]
    fn what_is_no_policy_is_refused_with_the_place_and_the_reason() {
        for (text, expected) in [
            (
                "[plugins.a]\nallowed = []",
                "unknown field `allowed`: did you mean `allow`?",
            ),
            (
                "[plugins.a]\nservice-account = \"a\"",
                "`a` is not a service account",
            ),
            (
                "[[plugins.a.allow]]\nkinds = [\"Pod\"]\nverbs = []",
                "`Pod` is not a kind",
            ),
            (
                "[plugins.a]\nsource = \"oci://example.com/a:1\"",
                "is not pinned",
            ),
            ("[plugins.a]\nsource = \"example.com/a\"", "example.com/a"),
            (
                "[plugins.a]\nsigned-by = \"key.pem\"",
                "`signed-by` is about a `source`",
            ),
            (
                "[plugins.a]\nsigner-keys = [\"a\"]",
                "does nothing without `imports = [\"signer\"]`",
            ),
            (
                "[plugins.a.limits]\ncpu = \"fast\"",
                "`fast` is not a duration",
            ),
            (
                "[plugins.a.limits]\nwrites-burst = \"many\"",
                "a limit is a number, or `{ times = 2 }`",
            ),
            (
                "[plugins.a.limits]\ncpu-share = -1.0",
                "-1 is no number of cores",
            ),
            (
                "[plugins.a.limits]\nmemory = \"99999999999Gi\"",
                "is not an amount of memory",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.contains(expected) && error.contains("policy.toml"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_plugins_policy_reads_back_as_it_was_written() {
        for text in [
            TEXT,
            "[plugins.greeter]\nlimits = { writes-per-second = { times = 2.0 }, wall = \"1m\" }",
        ] {
            let greeter = &parse(text).unwrap().plugins["greeter"];
            let written = serde_json::to_string(greeter).unwrap();
            assert_eq!(
                serde_json::from_str::<PluginPolicy>(&written).unwrap(),
                *greeter,
                "{written}"
            );
        }
    }

    #[test]
    fn fields_narrow_what_is_read_and_rules_without_them_widen_it() {
        let narrow = "[[plugins.a.allow]]\nkinds = [\"v1/Secret\"]\nverbs = [\"watch\", \"get\"]\nfields = [\"metadata.labels\"]\n";
        let secret = Kind::new("", "v1", "Secret");
        let fields = |text: &str, verb: &str, namespace: &str| {
            parse(text).unwrap().plugins["a"].fields(verb, &secret, namespace)
        };
        let labels = Mask::parse(["metadata.labels"]).unwrap();
        assert_eq!(fields(narrow, "get", "demo"), Some(labels.clone()));
        let wide = format!(
            "{narrow}[[plugins.a.allow]]\nkinds = [\"*\"]\nverbs = [\"get\"]\nnamespaces = [\"demo\"]"
        );
        assert_eq!(fields(&wide, "get", "demo"), None);
        assert_eq!(fields(&wide, "get", "other"), Some(labels.clone()));
        assert_eq!(fields(&wide, "watch", ""), Some(labels));
        let writes = narrow.replace("\"get\"", "\"update\"");
        assert!(
            parse(&writes)
                .unwrap_err()
                .contains("`fields` limit what is read")
        );
    }

    #[test]
    fn a_key_is_found_beside_the_policy() {
        let digest = "0".repeat(64);
        let text = format!(
            "[plugins.a]\nsource = \"oci://example.com/a@sha256:{digest}\"\nsigned-by = \"key.pem\""
        );
        let policy = Policy::parse(Path::new("/etc/flyball/policy.toml"), &text).unwrap();
        assert_eq!(
            policy.plugins["a"].signed_by.as_deref(),
            Some(Path::new("/etc/flyball/key.pem"))
        );
    }

    #[test]
    fn requests_go_to_the_servers_that_the_operator_names() {
        let text = "[plugins.a]\nhttp-hosts = [\"Example.com\", \"http://[::1]:8080\", \"https://other.com:8443\"]";
        let policy = &parse(text).unwrap().plugins["a"];
        for server in [
            "https://example.com:443",
            "http://[::1]:8080",
            "https://other.com:8443",
        ] {
            assert!(policy.check_server(server).is_ok(), "{server}");
        }
        for server in [
            "http://example.com:80",
            "https://example.com:8443",
            "https://other.com:443",
            "https://x.example.com:443",
        ] {
            assert_eq!(
                policy.check_server(server).unwrap_err().reason,
                "Denied",
                "{server}"
            );
        }
        for host in [
            "",
            "ftp://example.com",
            "user@example.com",
            "example.com/path",
            "a b",
        ] {
            let text = format!("[plugins.a]\nhttp-hosts = [\"{host}\"]");
            assert!(
                parse(&text).unwrap_err().contains("is not a server"),
                "{host}"
            );
        }
    }
}
