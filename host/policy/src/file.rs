//! Reads policies from files, and checks them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use flyball_registry::{AddressError, PackageReference, PublicKey};
use flyball_types::Mask;
use flyball_types::description::VERBS;
use flyball_types::nearest::{nearest, with_nearest};

use crate::{CanaryPolicy, PluginPolicy, Policy, Rule, ShadowPolicy, kinds};

/// Verbs that don't name requests. The API server checks them for some requests, such as the creation of a role.
const RBAC_VERBS: [&str; 7] = [
    "approve",
    "attest",
    "bind",
    "escalate",
    "impersonate",
    "sign",
    "use",
];

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
        /// The mistake and its position.
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

/// The largest file of a policy in bytes.
pub(super) const MAX_POLICY: usize = 4 * 1024 * 1024;
/// The maximum size of a public key's file, in bytes. A key takes 200.
pub const MAX_KEY: usize = 64 * 1024;
/// The most keys that a policy lets a plugin reconcile at once.
const MAX_CONCURRENCY: u32 = 10_000;

impl Policy {
    /// Reads a file, or all `*.toml` files of a folder.
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        let read = |source| PolicyError::Read {
            path: path.into(),
            source,
        };
        if !path.is_dir() {
            let text = flyball_files::read_to_string(path, MAX_POLICY).map_err(read)?;
            return Self::parse(path, &text);
        }
        let mut policy = Self::default();
        for file in Self::files(path)? {
            let text = flyball_files::read_to_string(&file, MAX_POLICY);
            let text = text.map_err(|source| PolicyError::Read {
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

    /// The kinds and patterns that the rules name, as they are written.
    pub fn kinds(&self) -> BTreeSet<&str> {
        let rules = self.plugins.values().flat_map(|rules| &rules.allow);
        let kinds = rules.flat_map(|rule| &rule.kinds);
        kinds.map(String::as_str).collect()
    }

    /// Finds keys in `signed-by` that can't be read.
    pub fn mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        for (plugin, rules) in &self.plugins {
            let key = rules.signed_by.iter().filter_map(|path| {
                let problem = check_key(path).err()?;
                Some(format!("`signed-by` is {}: {problem}", path.display()))
            });
            mistakes.extend(key.map(|mistake| format!("plugin `{plugin}`: {mistake}")));
        }
        mistakes
    }

    /// Finds plugins whose policy does not say which file it applies to. If two files hold such a plugin, none of them
    /// runs.
    pub fn warnings(&self) -> Vec<String> {
        let unbound = self.plugins.iter().filter(|(_, rules)| !rules.is_bound());
        let warning = |(plugin, _): (&String, _)| {
            format!(
                "plugin `{plugin}`: the policy applies to any file that describes itself as `{plugin}`; add \
                 `file = \"{plugin}.wasm\"`, a `digest` or a `source`"
            )
        };
        unbound.map(warning).collect()
    }

    /// The files of a policy's folder, in order of their names.
    pub fn files(folder: &Path) -> Result<Vec<PathBuf>, PolicyError> {
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
            if let Some(shadow) = &mut rules.shadow {
                shadow.file = shadow.file.take().map(beside);
            }
            if let Some(canary) = &mut rules.canary {
                canary.file = canary.file.take().map(beside);
            }
            rules.credentials = std::mem::take(&mut rules.credentials).beside(path);
        }
        let mut mistakes = Vec::new();
        for (plugin, rules) in &policy.plugins {
            let found = rules.invalid().into_iter();
            mistakes.extend(found.map(|problem| format!("plugin `{plugin}`: {problem}")));
        }
        if !mistakes.is_empty() {
            let kinds = policy.kinds();
            mistakes.extend(kinds.into_iter().filter_map(kinds::misspelt));
            return Err(invalid(mistakes.join("; ")));
        }
        Ok(policy)
    }
}

impl PluginPolicy {
    /// Returns a sentence about each mistake.
    fn invalid(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        let kinds: BTreeSet<&String> = (self.allow.iter()).flat_map(|rule| &rule.kinds).collect();
        mistakes.extend(
            kinds
                .into_iter()
                .filter_map(|kind| kinds::check(kind).err()),
        );
        let verbs: BTreeSet<&String> = (self.allow.iter()).flat_map(|rule| &rule.verbs).collect();
        mistakes.extend(verbs.into_iter().filter_map(|verb| check_verb(verb).err()));
        mistakes.extend(self.allow.iter().filter_map(|rule| rule.check().err()));
        let hosts = self.http_hosts.iter();
        mistakes.extend(hosts.filter_map(|host| host.validate().err()));
        let certificates = self.certificates.iter();
        mistakes.extend(certificates.filter_map(|rule| rule.validate().err()));
        let of_source = self.source.as_ref();
        mistakes.extend(of_source.and_then(|source| check_source(source).err()));
        mistakes.extend(self.shadow.iter().flat_map(ShadowPolicy::invalid));
        mistakes.extend(self.canary.iter().flat_map(CanaryPolicy::invalid));
        mistakes.extend(self.contradictions());
        mistakes
    }

    /// Returns a sentence about each setting that has a wrong form, or that doesn't go together with another one.
    fn contradictions(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        if let Some(account) = &self.service_account
            && account
                .split_once('/')
                .is_none_or(|(namespace, name)| namespace.is_empty() || name.is_empty())
        {
            mistakes.push(format!(
                "`{account}` is not a service account: write `namespace/name`"
            ));
        }
        if self.signed_by.is_some() && self.source.is_none() {
            mistakes.push("`signed-by` is about a `source`, and there is none: add a `source`, or remove `signed-by`".into());
        }
        if let Some(digest) = self.digest.as_ref().filter(|digest| !is_digest(digest)) {
            mistakes.push(format!(
                "`{digest}` is not a digest: write `sha256:` and 64 hex digits"
            ));
        }
        if let Some(file) = self.file.as_ref().filter(|file| !is_file_name(file)) {
            mistakes.push(format!(
                "`{file}` is not the name of a file in a plugin folder: write it without its folder, as in `greeter.wasm`"
            ));
        }
        let signs = self.imports.contains("signer");
        if !self.signer_keys.is_empty() && !signs {
            mistakes.push("`signer-keys` does nothing without `imports = [\"signer\"]`".into());
        }
        if !self.certificates.is_empty() && !signs {
            mistakes.push("`certificates` does nothing without `imports = [\"signer\"]`".into());
        }
        if self.cloud_provider.is_some() && !self.imports.contains("cloud") {
            mistakes.push("`cloud-provider` does nothing without `imports = [\"cloud\"]`".into());
        }
        mistakes.extend(self.credentials.validate().err());
        if self.concurrency.is_some_and(|keys| keys > MAX_CONCURRENCY) {
            mistakes.push(format!("`concurrency` is greater than {MAX_CONCURRENCY}"));
        }
        if self.digest.is_some() && self.source.is_some() {
            mistakes.push(
                "a `source` names the digest of its package: remove `digest`, which is about files"
                    .into(),
            );
        }
        if self.file.is_some() && self.source.is_some() {
            mistakes.push(
                "a `source` names a package: remove `file`, which is about plugin folders".into(),
            );
        }
        mistakes
    }
}

impl Rule {
    fn check(&self) -> Result<(), String> {
        Mask::parse(&self.fields).map_err(|error| error.to_string())?;
        if !self.fields.is_empty() && !self.only_reads() {
            return Err(
                "`fields` limit what is read: remove them from rules with verbs that write".into(),
            );
        }
        Ok(())
    }
}

/// Fails with a sentence if a word is neither a verb nor `*`.
fn check_verb(verb: &str) -> Result<(), String> {
    let mut known = VERBS.iter().chain(&RBAC_VERBS).copied();
    if verb == "*" || known.any(|known| known == verb) {
        return Ok(());
    }
    Err(match nearest(verb, VERBS) {
        Some(near) => format!("`{verb}` is not a verb: did you mean `{near}`?"),
        None => format!("`{verb}` is not a verb: use {}, or *", VERBS.join(", ")),
    })
}

/// Fails with a sentence if a source is not the address of a package, pinned to its digest.
pub(crate) fn check_source(source: &str) -> Result<(), String> {
    let source: PackageReference = source
        .parse()
        .map_err(|error: AddressError| error.to_string())?;
    match source.digest() {
        Some(_) => Ok(()),
        None => Err(format!(
            "the source {source} is not pinned: what it holds may change. `flyball pull` prints the digest to \
             add, as in `@sha256:4a…`"
        )),
    }
}

/// Fails with a sentence if a file holds no public key.
fn check_key(path: &Path) -> Result<(), String> {
    let text = flyball_files::read_to_string(path, MAX_KEY).map_err(|error| error.to_string())?;
    let key = PublicKey::from_pem(&text);
    key.map(drop).map_err(|error| error.to_string())
}

fn is_file_name(text: &str) -> bool {
    text.strip_suffix(".wasm")
        .is_some_and(|stem| !stem.is_empty() && !stem.starts_with('.') && !stem.contains('/'))
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
pub(crate) mod tests {
    use flyball_types::Kind;
    use flyball_types::description::Description;

    use super::*;

    pub(crate) const TEXT: &str = r#"
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

    pub(crate) fn parse(text: &str) -> Result<Policy, String> {
        Policy::parse(Path::new("policy.toml"), text).map_err(|error| error.to_string())
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
                "`Pod` is not a kind: write it as `apps/v1/Deployment`, or `v1/Pod` in the core group; did you mean `v1/Pod`?",
            ),
            (
                "[[plugins.a.allow]]\nkinds = [\"apps/Deployment\"]\nverbs = []",
                "`apps/Deployment` has no version: did you mean `apps/v1/Deployment`?",
            ),
            (
                "[[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nverbs = [\"wach\"]",
                "`wach` is not a verb: did you mean `watch`?",
            ),
            (
                "[[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nverbs = [\"frobnicate\"]",
                "`frobnicate` is not a verb: use get, list, watch",
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
                "[[plugins.a.certificates]]\nsigners = [\"example.com/a\"]",
                "`certificates` does nothing without `imports = [\"signer\"]`",
            ),
            (
                "[plugins.a]\nimports = [\"signer\"]\n[[plugins.a.certificates]]\nsigners = [\"a\"]",
                "`a` is not the name of a signer",
            ),
            (
                "[plugins.a]\nimports = [\"signer\"]\n[[plugins.a.certificates]]\nsigners = []",
                "names no `signers`",
            ),
            (
                "[plugins.a]\ncloud-provider = \"b\"",
                "`cloud-provider` does nothing without `imports = [\"cloud\"]`",
            ),
            (
                "[plugins.a.credentials]\nsecret = \"b\"",
                "`b` is not a Secret: write `namespace/name`",
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
                "-1 is not a number of cores",
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
    fn the_reference_has_every_key() {
        let page = include_str!("../../../docs/policy.md");
        for header in [
            "[plugins.a]",
            "[[plugins.a.allow]]",
            "[plugins.a.limits]",
            "[[plugins.a.certificates]]",
        ] {
            let error =
                toml::from_str::<Policy>(&format!("{header}\nno-such-key = 1\n")).unwrap_err();
            let (_, expected) = error.message().split_once("expected one of ").unwrap();
            let keys: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
            assert!(keys.len() >= 5, "{header}: {keys:?}");
            let missing: Vec<&str> = keys
                .into_iter()
                .filter(|key| !page.contains(&format!("`{key}`")))
                .collect();
            assert_eq!(missing, [] as [&str; 0], "{header}: docs/policy.md");
        }
    }

    #[test]
    fn all_mistakes_of_a_policy_are_named_at_once() {
        let error = parse(
            "[plugins.a]\nservice-account = \"a\"\n[[plugins.a.allow]]\nkinds = [\"apps/v1/Deploymnt\", \"Pod\"]\n\
             verbs = [\"wach\"]\n[plugins.b]\ndigest = \"1\"\n",
        )
        .unwrap_err();
        for expected in [
            "plugin `a`: `a` is not a service account",
            "did you mean `watch`?",
            "did you mean `v1/Pod`?",
            "plugin `b`: `1` is not a digest",
            "did you mean `apps/v1/Deployment`?",
        ] {
            assert!(error.contains(expected), "{expected}: {error}");
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
    fn a_file_that_is_no_regular_file_or_is_too_large_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let [huge, device] = ["huge.toml", "device.toml"].map(|name| home.path().join(name));
        let file = std::fs::File::create(&huge).unwrap();
        file.set_len(MAX_POLICY as u64 + 1).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &device).unwrap();
        for path in [huge.as_path(), &device, home.path()] {
            let error = Policy::read(path).unwrap_err();
            assert!(matches!(error, PolicyError::Read { .. }), "{error}");
        }
    }

    #[test]
    fn the_files_of_credentials_are_found_beside_the_policy() {
        let text = "[plugins.a.credentials]\nconfig-file = \"a.json\"\nfolder = \"/run/a\"";
        let policy = Policy::parse(Path::new("/etc/flyball/policy.toml"), text).unwrap();
        let credentials = &policy.plugins["a"].credentials;
        let config = credentials.config_file.as_deref();
        assert_eq!(config, Some(Path::new("/etc/flyball/a.json")));
        assert_eq!(credentials.folder.as_deref(), Some(Path::new("/run/a")));
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
}
