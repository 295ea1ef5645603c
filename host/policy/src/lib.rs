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
//! [[plugins.issuer.certificates]]
//! signers = ["example.com/server"]
//! ```

pub mod access;
pub mod approve;
mod canary;
mod certificates;
mod credentials;
mod decide;
mod file;
pub mod grant;
mod http_hosts;
pub mod imports;
pub mod kinds;
mod limits;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use flyball_types::description::{Description, Watch};
use serde::{Deserialize, Serialize};

use self::grant::PluginFile;

pub use self::canary::{
    Calls, CanaryPolicy, Interval, Rollout, Selector, ShadowPolicy, Share, Step, Steps, Thresholds,
};
pub use self::certificates::CertificateRule;
pub use self::certificates::Certified;
pub use self::credentials::CredentialPolicy;
pub use self::decide::Visible;
pub(crate) use self::decide::deny_hidden;
pub use self::file::MAX_KEY;
pub use self::file::PolicyError;
pub use self::http_hosts::HttpHost;
pub use self::limits::{LimitPolicy, Rate};

/// The operator's grants, by the plugin's name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Policy {
    #[serde(default)]
    pub plugins: BTreeMap<String, PluginPolicy>,
}

/// The operator's grants to one plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct PluginPolicy {
    /// Service account that its requests are made as, in the form `namespace/name`. By default, a built-in uses the
    /// host's credentials, and a dropped-in plugin uses `flyball-system/` and its name.
    pub service_account: Option<String>,
    /// SHA-256 of the only file that this policy applies to, in hex, as in `sha256:4a…`. By default it applies to any
    /// file whose description has the plugin's name.
    pub digest: Option<String>,
    /// Name of the only file in a plugin folder that this policy applies to, as in `greeter.wasm`. Together with `digest`,
    /// both must match.
    pub file: Option<String>,
    /// Package that it is pulled from, instead of a file in a plugin folder: `oci://`, a registry and a repository,
    /// pinned to the package's digest, as in `oci://registry.example.com/plugins/hello@sha256:4a…`.
    pub source: Option<String>,
    /// File with the public key, in PEM, that the package must be signed with. A relative path starts at the policy's
    /// folder.
    pub signed_by: Option<PathBuf>,
    /// Whether it replaces the built-in controller of its name.
    pub replaces_builtin: bool,
    /// Permissions to read and write. A request is allowed if any rule allows it.
    pub allow: Vec<Rule>,
    /// Imports that it may use and that need a grant: `cloud`, `discovery`, `signer`, `raw`.
    pub imports: BTreeSet<String>,
    /// Servers that it may send requests to over `wasi:http`, as in `example.com` or `http://example.com:8080`. The
    /// default is HTTPS at its usual port. Certificates are checked against the public authorities. Redirects are not
    /// followed.
    ///
    /// A name allows only public addresses of the server: none that are private, of the host itself, link-local (such
    /// as the metadata services of clouds) or otherwise reserved. An address, as in `http://10.1.2.3:8080`, allows just
    /// that one. A server in a private network is named with its addresses:
    /// `{ host = "vault.internal", addresses = ["10.1.0.0/16", "fd00::1"] }`. It may have no others then.
    pub http_hosts: BTreeSet<HttpHost>,
    /// Keys of the host that `signer` signs and verifies with for it. A key that is not named here is denied: no plugin
    /// gets one by asking. A policy that names a key must also have a `digest` or a `source`.
    pub signer_keys: BTreeSet<String>,
    /// Certificates that `signer` signs for it with the host's authorities. A certificate is signed if any rule allows
    /// it. As for keys, no plugin gets one by asking, and the policy must also have a `digest` or a `source`.
    pub certificates: Vec<CertificateRule>,
    /// Name of the provider that its calls of the cloud go to. It needs the import `cloud`.
    pub cloud_provider: Option<String>,
    /// What it gets as the provider of a cloud: configuration and credentials. A policy that gives some must also have a
    /// `file`, a `digest` or a `source`.
    pub credentials: CredentialPolicy,
    /// Its configuration.
    pub config: BTreeMap<String, String>,
    /// Number of keys that it reconciles at once. By default, the number that it asks for.
    pub concurrency: Option<u32>,
    /// Limits that differ from the host's defaults.
    pub limits: LimitPolicy,
    /// A new version that runs in its shadow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowPolicy>,
    /// A new version that reconciles some of its keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryPolicy>,
    /// Whether it grants what the description asks for because the operator has written no policy. What it does not
    /// grant, the description does not ask for.
    #[serde(skip)]
    pub is_description: bool,
}

/// One permission.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Rule {
    /// Kinds, as in `apps/v1/ReplicaSet`; `*` for all, and `GROUP/*` for all of a group. Only the latter two grant raw
    /// reads of resources that the API server does not list as kinds, such as custom metrics.
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
    /// Fields of watched and read objects that the plugin sees. If empty, it sees all fields that it declares.
    #[serde(default)]
    pub fields: Vec<String>,
}

impl PluginPolicy {
    /// Whether the policy applies to this file.
    pub fn is_for(&self, file: PluginFile<'_>) -> bool {
        match (&self.source, file.package) {
            (Some(source), Some(package)) => source == package,
            (None, None) => {
                let digest = self.digest.as_ref();
                let name = self.file.as_deref();
                digest.is_none_or(|only| only.strip_prefix("sha256:") == Some(file.digest))
                    && name.is_none_or(|only| file.name == Some(only))
            }
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Whether the policy says which file or package it applies to. Otherwise, it applies to any file whose description
    /// has the plugin's name.
    pub fn is_bound(&self) -> bool {
        self.digest.is_some() || self.file.is_some() || self.source.is_some()
    }

    /// Grants everything that the plugin asks for, and no more.
    pub fn trusting(description: &Description) -> Self {
        let watched = |watch: &Watch| match (&watch.kind, &watch.discovered) {
            (Some(kind), _) => Some(kind.to_string()),
            (None, discovered) => discovered.as_ref().map(|_| "*".into()),
        };
        // By namespace; those of all namespaces first.
        let mut watches: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for watch in &description.watches {
            let kinds = watches.entry(&watch.namespace).or_default();
            if let Some(kind) = watched(watch)
                && !kinds.contains(&kind)
            {
                kinds.push(kind);
            }
        }
        let everywhere = watches.get("").cloned().unwrap_or_default();
        for (namespace, kinds) in &mut watches {
            kinds.retain(|kind| namespace.is_empty() || !everywhere.contains(kind));
        }
        let watches = watches.into_iter().filter(|(_, kinds)| !kinds.is_empty());
        let watches = watches.map(|(namespace, kinds)| Rule {
            kinds,
            verbs: BTreeSet::from(["watch".into()]),
            namespaces: match namespace {
                "" => Vec::new(),
                namespace => vec![namespace.to_owned()],
            },
            ..Rule::default()
        });
        let asked = description.permissions.iter().map(|permission| Rule {
            kinds: vec![permission.kind.to_string()],
            subresource: permission.subresource.clone(),
            verbs: permission.verbs.clone(),
            namespaces: permission.namespaces.iter().cloned().collect(),
            ..Rule::default()
        });
        Self {
            allow: watches.chain(asked).collect(),
            imports: description.imports.clone(),
            is_description: true,
            ..Self::default()
        }
    }
}
