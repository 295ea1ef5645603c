//! Compares the permissions that a plugin asks for with the operator's policy, and decides whether it may run.

mod narrowing;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use flyball_types::description::{Description, Discovered, Watch};
use flyball_types::{FieldPath, Kind, Mask, listed, printable};
use serde::{Deserialize, Serialize};

pub use self::narrowing::Narrowing;
use crate::{PluginPolicy, Policy, Rule};

/// One permission that a plugin asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// Cached reads of a kind.
    Watch {
        kind: Kind,
        /// Empty for all.
        namespace: String,
        /// All fields that the watch reads: declared fields, and fields of selectors, predicates, mappings and indexes.
        fields: Vec<String>,
    },
    /// Cached reads of every kind that has these verbs.
    WatchAll { verbs: Vec<String> },
    /// A request to the API server.
    Do {
        verb: String,
        /// A kind, or `*`.
        kind: String,
        subresource: String,
        /// Empty for all.
        #[serde(default)]
        namespace: String,
    },
    /// An import that needs a grant.
    Use { import: String },
}

/// All that a plugin asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asks(BTreeSet<Ask>);

/// The policies and flags that grants follow from.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    /// Policies of the built-ins.
    pub builtins: Policy,
    /// Policies of dropped-in plugins.
    pub plugins: Policy,
    /// Whether a dropped-in plugin without a policy is granted what it asks for.
    pub trust: bool,
    /// The cloud of the flags.
    pub cloud: CloudFlags,
    /// Configuration from flags, by plugin and key. It overrides the configuration of a policy.
    pub config: BTreeMap<String, BTreeMap<String, String>>,
    /// Number of keys that a plugin reconciles at once, by name. It overrides the number in a policy.
    pub concurrency: BTreeMap<String, u32>,
    /// The names that a dropped-in plugin may take only if its policy says `replaces-builtin`.
    pub builtin_names: BTreeSet<String>,
}

/// The provider that the built-in controllers call, and its configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudFlags {
    /// `--cloud-provider`.
    pub provider: Option<String>,
    /// `--cloud-config`: the configuration of that provider, which takes precedence over its policy's.
    pub config_file: Option<PathBuf>,
}

/// The properties of a file that a policy may bind a grant to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginFile<'a> {
    /// The SHA-256, in hex.
    pub digest: &'a str,
    /// The address of the package that holds the file; none if it lies in a plugin folder.
    pub package: Option<&'a str>,
    /// Its name in the plugin folder; none for a package, and where the name is not known.
    pub name: Option<&'a str>,
}

/// The policy, identity and configuration that a plugin runs under.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    pub policy: Arc<PluginPolicy>,
    /// Service account that its requests are made as: namespace and name. None for the host's own credentials.
    pub account: Option<(String, String)>,
    /// The operator's configuration.
    pub config: BTreeMap<String, String>,
    pub concurrency: u32,
    pub is_builtin: bool,
}

impl Grant {
    /// The service account that the plugin's requests are made as, if the flag `--use-service-account-credentials` has
    /// this value. None for the host's own credentials.
    pub fn identity(&self, builtins_use_accounts: bool) -> Option<&(String, String)> {
        let uses_account = !self.is_builtin || builtins_use_accounts;
        self.account.as_ref().filter(|_| uses_account)
    }

    /// Whether this version may use the client of a version with the `other` grant. It may if both have the credentials
    /// of the same account and the same kind of client, from which the API server takes the field manager.
    pub fn shares_client(&self, other: &Self, builtins_use_accounts: bool) -> bool {
        let identity = self.identity(builtins_use_accounts);
        self.is_builtin == other.is_builtin
            && identity.is_some()
            && identity == other.identity(builtins_use_accounts)
    }

    /// Whether a version with the `other` grant may continue until this grant is in force, because this one grants all
    /// of it to the same account.
    pub fn covers(&self, other: &Self) -> bool {
        self.is_builtin == other.is_builtin
            && self.account == other.account
            && self.policy.covers(&other.policy)
    }
}

/// Why a plugin may not run. The others do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The policy has no rules for it.
    #[error(
        "pending: no policy grants it anything; it asks to {wants}. `flyball policy` prints a policy that grants just that, \
         `flyball approve {name}` puts it in force"
    )]
    NoPolicy { name: String, wants: String },
    /// The policy applies to another file.
    #[error("pending: the policy for `{name}` applies only to {granted}, and this one is {found}")]
    OtherFile {
        name: String,
        granted: String,
        found: String,
    },
    /// The policy gives signing keys, or authorities that sign certificates, to any file with the plugin's name.
    #[error(
        "pending: the policy gives `{name}` keys to sign with, and must say which file gets them: add `digest = \"sha256:{digest}\"`, \
         or a `source`"
    )]
    UnboundKeys { name: String, digest: String },
    /// The policy does not grant it a watch, which it can't work without.
    #[error("pending: the policy does not let it {0}")]
    Watch(String),
    /// The policy gives credentials to any file with the plugin's name.
    #[error(
        "pending: the policy gives `{name}` credentials, and must say which file gets them: add `file = \"{name}.wasm\"`, \
         `digest = \"sha256:{digest}\"`, or a `source`"
    )]
    UnboundCredentials { name: String, digest: String },
    /// This version asks for more than the previous one, and more than the policy grants.
    #[error(
        "pending: this version asks for more than it is granted, to {more}; extend the policy, or let \
         `flyball approve {name}` do so"
    )]
    AsksForMore { name: String, more: String },
    /// A built-in controller has the plugin's name.
    #[error(
        "a built-in controller has the name `{name}`: write `replaces-builtin = true` into the plugin's policy if it is to \
         replace that one"
    )]
    BuiltIn { name: String },
}

/// The most keys that a dropped-in plugin reconciles at once if its policy does not say how many...
const CONCURRENCY_WITH_POLICY: u32 = 100;
/// ...and if it has no policy of its own, because all plugins are trusted.
const CONCURRENCY_WITHOUT_POLICY: u32 = 10;

/// Namespace of a dropped-in plugin's service account, unless its policy names another account.
pub const ACCOUNTS_NAMESPACE: &str = "flyball-system";

impl Asks {
    /// Returns what a description asks for. For a large one this takes many milliseconds.
    pub fn of(description: &Description) -> Self {
        let watched = |watch: &Watch| match (&watch.kind, &watch.discovered) {
            (Some(kind), _) => {
                let paths = description.watched_paths(watch, kind);
                let fields: BTreeSet<String> = paths.all().map(FieldPath::to_string).collect();
                Some(Ask::Watch {
                    kind: kind.clone(),
                    namespace: watch.namespace.clone(),
                    fields: fields.into_iter().collect(),
                })
            }
            (None, Some(Discovered { verbs, .. })) => Some(Ask::WatchAll {
                verbs: verbs.iter().cloned().collect(),
            }),
            (None, None) => None,
        };
        let watches = description.watches.iter().filter_map(watched);
        let does = description.permissions.iter().flat_map(|permission| {
            let everywhere = permission.namespaces.is_empty().then(String::new);
            let namespaces = permission.namespaces.iter().cloned().chain(everywhere);
            namespaces.flat_map(move |namespace| {
                let ask = move |verb: &String| Ask::Do {
                    verb: verb.clone(),
                    kind: permission.kind.to_string(),
                    subresource: permission.subresource.clone(),
                    namespace: namespace.clone(),
                };
                permission.verbs.iter().map(ask)
            })
        });
        let uses = description.imports.iter().map(|import| Ask::Use {
            import: import.clone(),
        });
        Self(watches.chain(does).chain(uses).collect())
    }

    /// Returns the single permissions.
    pub fn iter(&self) -> impl Iterator<Item = &Ask> {
        self.0.iter()
    }

    /// Returns what the policy does not grant.
    pub fn beyond(&self, policy: &PluginPolicy) -> Self {
        Self(
            self.0
                .iter()
                .filter(|ask| !ask.is_granted(policy))
                .cloned()
                .collect(),
        )
    }

    /// The first watch that the policy does not grant, as half a sentence. No plugin can work without its watches.
    pub fn refused_watch(&self, policy: &PluginPolicy) -> Option<String> {
        self.refused_watches(policy).next()
    }

    /// All watches that the policy does not grant.
    pub fn refused_watches(&self, policy: &PluginPolicy) -> impl Iterator<Item = String> {
        let watches = self.0.iter().filter(|ask| matches!(ask, Ask::Watch { .. }));
        let refused = watches.filter(|ask| !ask.is_granted(policy));
        refused.map(|watch| watch.refused(policy))
    }

    /// Returns what the other does not ask for.
    fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).cloned().collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Ask {
    /// The rule that grants this; none for an import.
    fn rule(&self, policy: &PluginPolicy) -> Option<Rule> {
        let within = |namespace: &String| match namespace.as_str() {
            "" => Vec::new(),
            _ => vec![namespace.clone()],
        };
        Some(match self {
            Self::Watch {
                kind,
                namespace,
                fields,
            } => Rule {
                kinds: vec![kind.to_string()],
                verbs: BTreeSet::from(["watch".into()]),
                namespaces: within(namespace),
                fields: Some(fields.clone())
                    .filter(|_| policy.limits_fields(kind))
                    .unwrap_or_default(),
                ..Rule::default()
            },
            Self::WatchAll { .. } => Rule {
                kinds: vec!["*".into()],
                verbs: BTreeSet::from(["watch".into()]),
                ..Rule::default()
            },
            Self::Do {
                verb,
                kind,
                subresource,
                namespace,
            } => Rule {
                kinds: vec![kind.clone()],
                subresource: subresource.clone(),
                verbs: BTreeSet::from([verb.clone()]),
                namespaces: within(namespace),
                ..Rule::default()
            },
            Self::Use { .. } => return None,
        })
    }

    /// Returns the part that the policy does not grant, as half a sentence.
    fn refused(&self, policy: &PluginPolicy) -> String {
        let Self::Watch {
            kind,
            namespace,
            fields,
        } = self
        else {
            return self.to_string();
        };
        let read = Mask::parse(fields).unwrap_or_else(|_| Mask::whole());
        let missing = policy.ungranted_fields(kind, namespace, &read);
        if missing.is_empty() || !policy.may_watch(kind, namespace) {
            return self.to_string();
        }
        format!(
            "{self}: it reads {}, which `fields` does not grant everywhere it would see",
            listed(&missing)
        )
    }

    /// Whether the policy grants it.
    pub fn is_granted(&self, policy: &PluginPolicy) -> bool {
        match self {
            Self::Watch {
                kind,
                namespace,
                fields,
            } => {
                policy.may_watch(kind, namespace)
                    && Mask::parse(fields).is_ok_and(|read| {
                        policy.ungranted_fields(kind, namespace, &read).is_empty()
                    })
            }
            // The kinds are only known once discovery has listed them. Kinds that are not granted are then left out.
            Self::WatchAll { .. } => true,
            Self::Do {
                verb,
                kind,
                subresource,
                namespace,
            } => match namespace.as_str() {
                "" => policy.grants_somewhere(verb, kind, subresource),
                namespace => policy.grants_in(verb, kind, subresource, namespace),
            },
            Self::Use { import } => policy.imports.contains(import),
        }
    }
}

impl Grants {
    /// The grant of a built-in. It is empty if there is no policy for the built-in's name.
    pub fn builtin(&self, description: &Description) -> Grant {
        let policy = self
            .builtins
            .plugins
            .get(&description.name)
            .cloned()
            .unwrap_or_default();
        let account = policy.service_account.as_deref().and_then(account);
        self.granted(description, policy, account, true)
    }

    /// The operator's configuration for a plugin of this name from this file. It is empty if the policy does not grant
    /// the name to this file, because the plugin must not see the values then.
    pub fn config_for(&self, name: &str, file: PluginFile<'_>) -> BTreeMap<String, String> {
        let policy = self.plugins.plugins.get(name);
        let replaces_builtin = policy.is_some_and(|policy| policy.replaces_builtin);
        if !self.is_for(name, file) || (self.builtin_names.contains(name) && !replaces_builtin) {
            return BTreeMap::new();
        }
        self.config(name, policy)
    }

    /// Whether the policy of this name applies to this file. Without a policy, only the name counts.
    pub fn is_for(&self, name: &str, file: PluginFile<'_>) -> bool {
        let policy = self.plugins.plugins.get(name);
        policy.is_none_or(|policy| policy.is_for(file))
    }

    /// A version that the operator rolls back to, as it is checked against the policy of this name.
    ///
    /// If the policy names a package, the version may have run from another package of the plugin: the policy named that
    /// package then, and its key was checked. If the policy names a file, the version may have run from any file.
    pub fn rolled_back<'a>(&'a self, name: &str, version: PluginFile<'a>) -> PluginFile<'a> {
        let policy = self.plugins.plugins.get(name);
        let source = policy.and_then(|policy| policy.source.as_deref());
        let file = policy.and_then(|policy| policy.file.as_deref());
        PluginFile {
            package: version.package.map(|ran| source.unwrap_or(ran)),
            name: match version.package {
                Some(_) => None,
                None => file.or(version.name),
            },
            ..version
        }
    }

    /// Whether the policy of this name says which file or package it applies to.
    pub fn is_bound(&self, name: &str) -> bool {
        let policy = self.plugins.plugins.get(name);
        policy.is_some_and(PluginPolicy::is_bound)
    }

    /// Whether the operator may roll back to this version.
    pub fn may_roll_back(&self, name: &str, version: PluginFile<'_>) -> bool {
        self.is_for(name, self.rolled_back(name, version))
    }

    /// Whether a version with this grant may continue while the package that the policy names is pulled. It may if the
    /// policy still grants all of it.
    pub fn covers_running(&self, description: &Description, asks: &Asks, running: &Grant) -> bool {
        let policy = self.plugins.plugins.get(&description.name);
        let Some(source) = policy.and_then(|policy| policy.source.as_deref()) else {
            return false;
        };
        let package = PluginFile {
            digest: "",
            package: Some(source),
            name: None,
        };
        let granted = self.dropped_in(description, asks, package, None);
        granted.is_ok_and(|granted| granted.covers(running))
    }

    /// The file or package that the policy of this name applies to.
    pub fn only_file(&self, name: &str) -> String {
        let policy = self.plugins.plugins.get(name);
        let bound = policy.map(|policy| (&policy.source, &policy.digest, &policy.file));
        match bound {
            Some((Some(source), ..)) => format!("the package {source}"),
            Some((None, Some(digest), None)) => format!("the file {digest}"),
            Some((None, None, Some(file))) => format!("the file {file}"),
            Some((None, Some(digest), Some(file))) => format!("the file {file} with {digest}"),
            Some((None, None, None)) | None => "a file".to_owned(),
        }
    }

    /// Returns the configuration of a policy, overridden by the values of the flags.
    fn config(&self, name: &str, policy: Option<&PluginPolicy>) -> BTreeMap<String, String> {
        let mut config = policy
            .map(|policy| policy.config.clone())
            .unwrap_or_default();
        config.extend(self.config.get(name).cloned().unwrap_or_default());
        config
    }

    /// The grant of a dropped-in plugin from this file, which asks for `asks`. `before` has the permissions that the last
    /// running version asked for.
    pub fn dropped_in(
        &self,
        description: &Description,
        asks: &Asks,
        file: PluginFile<'_>,
        before: Option<&Asks>,
    ) -> Result<Grant, Refusal> {
        let name = description.name.clone();
        let policy = self.plugins.plugins.get(&name);
        if self.builtin_names.contains(&name)
            && !policy.is_some_and(|policy| policy.replaces_builtin)
        {
            return Err(Refusal::BuiltIn { name });
        }
        let Some(policy) = policy else {
            if self.trust {
                return Ok(self.granted(
                    description,
                    PluginPolicy::trusting(description),
                    None,
                    false,
                ));
            }
            return Err(Refusal::NoPolicy {
                name,
                wants: asks.to_string(),
            });
        };
        if !policy.is_for(file) {
            return Err(Refusal::OtherFile {
                granted: self.only_file(&name),
                found: file.to_string(),
                name,
            });
        }
        let may_sign = !policy.signer_keys.is_empty() || !policy.certificates.is_empty();
        if may_sign && policy.digest.is_none() && policy.source.is_none() {
            return Err(Refusal::UnboundKeys {
                name,
                digest: file.digest.to_owned(),
            });
        }
        if !policy.credentials.is_empty() && !policy.is_bound() {
            return Err(Refusal::UnboundCredentials {
                name,
                digest: file.digest.to_owned(),
            });
        }
        // Permissions that the previous version asked for and did not get are deliberately ignored.
        if let Some(before) = before {
            let more = asks.beyond(policy).without(before);
            if !more.is_empty() {
                let more = more.0.iter().map(|ask| ask.refused(policy));
                return Err(Refusal::AsksForMore {
                    name,
                    more: listed(more),
                });
            }
        }
        if let Some(watch) = asks.refused_watch(policy) {
            return Err(Refusal::Watch(watch));
        }
        let account = policy.service_account.as_deref().and_then(account);
        let account = account.or_else(|| Some((ACCOUNTS_NAMESPACE.to_owned(), name)));
        Ok(self.granted(description, policy.clone(), account, false))
    }

    fn granted(
        &self,
        description: &Description,
        mut policy: PluginPolicy,
        account: Option<(String, String)>,
        is_builtin: bool,
    ) -> Grant {
        self.cloud.apply(&mut policy, &description.name, is_builtin);
        // They grant nothing: a change of them must not replace the version that runs.
        (policy.shadow, policy.canary) = (None, None);
        // A description only asks. Unless the operator sets a concurrency, it is capped.
        let most = match (is_builtin, account.is_some()) {
            (true, _) => u32::MAX,
            (false, true) => CONCURRENCY_WITH_POLICY,
            (false, false) => CONCURRENCY_WITHOUT_POLICY,
        };
        let concurrency = self.concurrency.get(&description.name).copied();
        let concurrency = concurrency
            .or(policy.concurrency)
            .unwrap_or(description.concurrency.min(most))
            .max(1);
        Grant {
            config: self.config(&description.name, Some(&policy)),
            policy: Arc::new(policy),
            account,
            concurrency,
            is_builtin,
        }
    }
}

impl CloudFlags {
    /// Completes the policy of a built-in controller that calls a cloud, or of the provider.
    fn apply(&self, policy: &mut PluginPolicy, name: &str, is_builtin: bool) {
        let Some(provider) = &self.provider else {
            return;
        };
        if is_builtin && policy.imports.contains("cloud") {
            policy.cloud_provider = Some(provider.clone());
        }
        if name == provider && self.config_file.is_some() {
            policy.credentials.config_file = self.config_file.clone();
        }
    }
}

fn account(text: &str) -> Option<(String, String)> {
    text.split_once('/')
        .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
}

impl fmt::Display for PluginFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.package {
            Some(package) => write!(f, "the package {package}"),
            None => {
                f.write_str("the file ")?;
                if let Some(name) = self.name {
                    write!(f, "{} with ", printable(name))?;
                }
                write!(f, "sha256:{}", self.digest)
            }
        }
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Watch {
                kind, namespace, ..
            } if namespace.is_empty() => write!(f, "watch {kind}"),
            Self::Watch {
                kind, namespace, ..
            } => write!(f, "watch {kind} in {namespace}"),
            Self::WatchAll { verbs } if verbs.is_empty() => f.write_str("watch every kind"),
            Self::WatchAll { verbs } => {
                write!(f, "watch every kind that one can {}", verbs.join(" and "))
            }
            Self::Do {
                verb,
                kind,
                subresource,
                namespace,
            } => {
                write!(f, "{verb} {kind}")?;
                if !subresource.is_empty() {
                    write!(f, "/{subresource}")?;
                }
                if !namespace.is_empty() {
                    write!(f, " in {namespace}")?;
                }
                Ok(())
            }
            Self::Use { import } => write!(f, "use {import}"),
        }
    }
}

impl fmt::Display for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&listed(&self.0))
    }
}

#[cfg(test)]
mod tests;
