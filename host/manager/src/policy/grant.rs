//! Compares what a plugin asks for with what the operator's policy grants, and decides whether it may run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use flyball_types::description::{Description, Discovered, Watch};
use flyball_types::{FieldPath, Kind, Mask};
use serde::{Deserialize, Serialize};

use crate::policy::{PluginPolicy, Policy, Rule};

/// One thing that a plugin asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ask {
    /// Cached reads of a kind.
    Watch {
        kind: Kind,
        /// Empty for all.
        namespace: String,
        /// All fields that the watch reads: declared ones, and those of selectors, predicates, mappings and indexes.
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
    },
    /// An import that needs a grant.
    Use { import: String },
}

/// All that a plugin asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asks(BTreeSet<Ask>);

/// The policies and flags that grants follow from.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    /// Policies of the built-ins.
    pub builtins: Policy,
    /// Policies of dropped-in plugins.
    pub plugins: Policy,
    /// Whether a dropped-in plugin without a policy gets what it asks for.
    pub trust: bool,
    /// Configuration from flags, by plugin and key. It overrides that of a policy.
    pub config: BTreeMap<String, BTreeMap<String, String>>,
    /// Number of keys that a plugin reconciles at once, by name. It overrides that of a policy.
    pub concurrency: BTreeMap<String, u32>,
    /// The names that a dropped-in plugin may take only if its policy says `replaces-builtin`.
    pub builtin_names: BTreeSet<String>,
}

/// What a policy may bind a grant to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PluginFile<'a> {
    /// The SHA-256, in hex.
    pub(crate) digest: &'a str,
    /// The address of the package that holds the file; none if it lies in a plugin folder.
    pub(crate) package: Option<&'a str>,
}

/// What a plugin runs under.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Grant {
    pub(crate) policy: Arc<PluginPolicy>,
    /// Service account that its requests are made as: namespace and name. None for the host's own credentials.
    pub(crate) account: Option<(String, String)>,
    /// The operator's configuration.
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) concurrency: u32,
    pub(crate) is_builtin: bool,
}

impl Grant {
    /// The service account that the plugin's requests are made as, if the flag
    /// `--use-service-account-credentials` has this value. None for the host's own credentials.
    pub(crate) fn identity(&self, builtins_use_accounts: bool) -> Option<&(String, String)> {
        let uses_account = !self.is_builtin || builtins_use_accounts;
        self.account.as_ref().filter(|_| uses_account)
    }

    /// Whether the client of a version with the `other` grant may send this one's requests: it has the same credentials, which
    /// are an account's, and names the same kind of client, from which the API server takes the field manager.
    pub(crate) fn shares_client(&self, other: &Self, builtins_use_accounts: bool) -> bool {
        let identity = self.identity(builtins_use_accounts);
        self.is_builtin == other.is_builtin
            && identity.is_some()
            && identity == other.identity(builtins_use_accounts)
    }

    /// Whether whoever has the `other` may go on with it until this one is in force, because this one grants all of it to the
    /// same account.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.is_builtin == other.is_builtin
            && self.account == other.account
            && self.policy.covers(&other.policy)
    }
}

/// Why a plugin may not run. The others do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
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
    /// The policy gives signing keys, or authorities that sign certificates, to whatever file has the plugin's name.
    #[error(
        "pending: the policy gives `{name}` keys to sign with, and must say which file gets them: add `digest = \"sha256:{digest}\"`, \
         or a `source`"
    )]
    UnboundKeys { name: String, digest: String },
    /// The policy does not grant it a watch, which it can't work without.
    #[error("pending: the policy does not let it {0}")]
    Watch(String),
    /// This version asks for more than the one before, and more than the policy grants.
    #[error(
        "pending: this version asks for more than it is granted, to {more}; extend the policy, or let \
         `flyball approve {name}` do so"
    )]
    AsksForMore { name: String, more: String },
    /// Its name is that of a built-in.
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
    /// What this description asks for.
    pub(crate) fn of(description: &Description) -> Self {
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
            let (kind, subresource) = (permission.kind.to_string(), permission.subresource.clone());
            let ask = move |verb: &String| Ask::Do {
                verb: verb.clone(),
                kind: kind.clone(),
                subresource: subresource.clone(),
            };
            permission.verbs.iter().map(ask)
        });
        let uses = description.imports.iter().map(|import| Ask::Use {
            import: import.clone(),
        });
        Self(watches.chain(does).chain(uses).collect())
    }

    /// What the policy does not grant.
    pub(crate) fn beyond(&self, policy: &PluginPolicy) -> Self {
        Self(
            self.0
                .iter()
                .filter(|ask| !ask.is_granted(policy))
                .cloned()
                .collect(),
        )
    }

    /// What the other does not ask for.
    fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).cloned().collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rules that grant it, and the imports, beside a policy that does not. A watch of one namespace is granted there alone, and
    /// if the policy limits the fields of a kind, then only the fields that the watch reads.
    pub(crate) fn grants(&self, policy: &PluginPolicy) -> (Vec<Rule>, BTreeSet<String>) {
        let (mut rules, mut imports): (Vec<Rule>, _) = (Vec::new(), BTreeSet::new());
        for ask in &self.0 {
            let rule = match ask {
                Ask::Watch {
                    kind,
                    namespace,
                    fields,
                } => Rule {
                    kinds: vec![kind.to_string()],
                    verbs: BTreeSet::from(["watch".into()]),
                    namespaces: Some(namespace.clone())
                        .filter(|namespace| !namespace.is_empty())
                        .into_iter()
                        .collect(),
                    fields: Some(fields.clone())
                        .filter(|_| policy.limits_fields(kind))
                        .unwrap_or_default(),
                    ..Rule::default()
                },
                Ask::WatchAll { .. } => Rule {
                    kinds: vec!["*".into()],
                    verbs: BTreeSet::from(["watch".into()]),
                    ..Rule::default()
                },
                Ask::Do {
                    verb,
                    kind,
                    subresource,
                } => Rule {
                    kinds: vec![kind.clone()],
                    subresource: subresource.clone(),
                    verbs: BTreeSet::from([verb.clone()]),
                    ..Rule::default()
                },
                Ask::Use { import } => {
                    imports.insert(import.clone());
                    continue;
                }
            };
            let alike = rules.iter_mut().find(|known| {
                (&known.kinds, &known.subresource) == (&rule.kinds, &rule.subresource)
                    && (&known.namespaces, &known.fields) == (&rule.namespaces, &rule.fields)
            });
            match alike {
                Some(known) => known.verbs.extend(rule.verbs),
                None => rules.push(rule),
            }
        }
        (rules, imports)
    }
}

impl Ask {
    /// What of it the policy does not grant, as half a sentence.
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
        let missing: Vec<String> = missing.iter().map(FieldPath::to_string).collect();
        format!(
            "{self}: it reads {}, which `fields` does not grant everywhere it would see",
            missing.join(", ")
        )
    }

    fn is_granted(&self, policy: &PluginPolicy) -> bool {
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
            // Which kinds these are is found when they are followed: of what is not granted, nothing is seen.
            Self::WatchAll { .. } => true,
            Self::Do {
                verb,
                kind,
                subresource,
            } => policy.grants_somewhere(verb, kind, subresource),
            Self::Use { import } => policy.imports.contains(import),
        }
    }
}

impl Grants {
    /// The grant of a built-in. It is empty if there is no policy for the built-in's name.
    pub(crate) fn builtin(&self, description: &Description) -> Grant {
        let policy = self
            .builtins
            .plugins
            .get(&description.name)
            .cloned()
            .unwrap_or_default();
        let account = policy.service_account.as_deref().and_then(account);
        self.granted(description, policy, account, true)
    }

    /// The operator's configuration for a plugin of this name from this file. It is empty if the policy
    /// does not grant the name to this file: then the values are not the plugin's to see.
    pub(crate) fn config_for(&self, name: &str, file: PluginFile<'_>) -> BTreeMap<String, String> {
        let policy = self.plugins.plugins.get(name);
        let replaces_builtin = policy.is_some_and(|policy| policy.replaces_builtin);
        if !self.is_for(name, file) || (self.builtin_names.contains(name) && !replaces_builtin) {
            return BTreeMap::new();
        }
        self.config(name, policy)
    }

    /// Whether the policy of this name applies to this file. Without a policy, only the name counts.
    pub(crate) fn is_for(&self, name: &str, file: PluginFile<'_>) -> bool {
        let policy = self.plugins.plugins.get(name);
        policy.is_none_or(|policy| policy.is_for(file))
    }

    /// The file or package that the policy of this name applies to.
    pub(crate) fn only_file(&self, name: &str) -> String {
        let policy = self.plugins.plugins.get(name);
        let bound = policy.map(|policy| (&policy.source, &policy.digest));
        match bound {
            Some((Some(source), _)) => format!("the package {source}"),
            Some((None, Some(digest))) => format!("the file {digest}"),
            Some((None, None)) | None => "a file".to_owned(),
        }
    }

    /// The values of a policy, with those of the flags in front.
    fn config(&self, name: &str, policy: Option<&PluginPolicy>) -> BTreeMap<String, String> {
        let mut config = policy
            .map(|policy| policy.config.clone())
            .unwrap_or_default();
        config.extend(self.config.get(name).cloned().unwrap_or_default());
        config
    }

    /// The grant of a dropped-in plugin from this file. `before` is what the version that ran last asked for.
    pub(crate) fn dropped_in(
        &self,
        description: &Description,
        file: PluginFile<'_>,
        before: Option<&Asks>,
    ) -> Result<Grant, Refusal> {
        let name = description.name.clone();
        let asks = Asks::of(description);
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
        let beyond = asks.beyond(policy);
        // What the version before asked for and was not granted either is left out on purpose.
        if let Some(before) = before {
            let more = beyond.without(before);
            if !more.is_empty() {
                let more: Vec<String> = more.0.iter().map(|ask| ask.refused(policy)).collect();
                return Err(Refusal::AsksForMore {
                    name,
                    more: more.join(", "),
                });
            }
        }
        if let Some(watch) = beyond.0.iter().find(|ask| matches!(ask, Ask::Watch { .. })) {
            return Err(Refusal::Watch(watch.refused(policy)));
        }
        let account = policy.service_account.as_deref().and_then(account);
        let account = account.or_else(|| Some((ACCOUNTS_NAMESPACE.to_owned(), name)));
        Ok(self.granted(description, policy.clone(), account, false))
    }

    fn granted(
        &self,
        description: &Description,
        policy: PluginPolicy,
        account: Option<(String, String)>,
        is_builtin: bool,
    ) -> Grant {
        // What a description asks for is no grant: without the operator's word it has a bound.
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

fn account(text: &str) -> Option<(String, String)> {
    text.split_once('/')
        .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
}

impl fmt::Display for PluginFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.package {
            Some(package) => write!(f, "the package {package}"),
            None => write!(f, "the file sha256:{}", self.digest),
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
            } if subresource.is_empty() => write!(f, "{verb} {kind}"),
            Self::Do {
                verb,
                kind,
                subresource,
            } => write!(f, "{verb} {kind}/{subresource}"),
            Self::Use { import } => write!(f, "use {import}"),
        }
    }
}

impl fmt::Display for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asks: Vec<String> = self.0.iter().map(Ask::to_string).collect();
        f.write_str(&asks.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const DIGEST: &str = "4a5b6c7d8e9f00112233445566778899aabbccddeeff00112233445566778899";

    const FILE: PluginFile<'static> = file(DIGEST);

    const fn file(digest: &str) -> PluginFile<'_> {
        PluginFile {
            digest,
            package: None,
        }
    }

    fn plugin(permissions: &str) -> Description {
        let text = format!(
            r#"{{"format": 1, "name": "hello", "queues": [{{"name": "hello"}}],
                 "watches": [{{"kind": "v1/Namespace", "fields": ["metadata.annotations"]}}],
                 "permissions": [{permissions}]}}"#
        );
        Description::read(&text).expect("a description")
    }

    const CREATES: &str = r#"{"kind": "v1/ConfigMap", "verbs": ["create"]}"#;
    const DELETES: &str = r#"{"kind": "v1/ConfigMap", "verbs": ["create"]}, {"kind": "v1/ConfigMap", "verbs": ["delete"]}"#;

    fn grants(policy: &str) -> Grants {
        let plugins = Policy::parse(Path::new("policy.toml"), policy).expect("a policy");
        Grants {
            plugins,
            ..Grants::default()
        }
    }

    const WATCHES: &str =
        "[[plugins.hello.allow]]\nkinds = [\"v1/Namespace\"]\nverbs = [\"watch\"]\n";

    #[test]
    fn without_a_policy_a_plugin_waits_and_what_it_asks_for_is_told() {
        let refused = grants("")
            .dropped_in(&plugin(CREATES), FILE, None)
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("watch v1/Namespace, create v1/ConfigMap"),
            "{refused}"
        );
        let trusting = Grants {
            trust: true,
            ..Grants::default()
        };
        let granted = trusting.dropped_in(&plugin(CREATES), FILE, None).unwrap();
        assert_eq!(granted.account, None);
        assert!(
            granted
                .policy
                .grants_somewhere("create", "v1/ConfigMap", "")
        );
    }

    #[test]
    fn a_plugin_asks_for_no_more_workers_than_the_operator_allows() {
        let greedy = Description {
            concurrency: 100_000_000,
            ..plugin(CREATES)
        };
        let trusting = Grants {
            trust: true,
            ..Grants::default()
        };
        let concurrency = |grants: &Grants| {
            let grant = grants.dropped_in(&greedy, FILE, None);
            grant.expect("it is granted").concurrency
        };
        assert_eq!(concurrency(&trusting), 10);
        assert_eq!(concurrency(&grants(WATCHES)), 100);
        let word = format!("[plugins.hello]\nconcurrency = 500\n{WATCHES}");
        assert_eq!(concurrency(&grants(&word)), 500);
    }

    #[test]
    fn what_the_operator_left_out_is_denied_and_the_plugin_runs() {
        let granted = grants(WATCHES)
            .dropped_in(&plugin(CREATES), FILE, None)
            .unwrap();
        assert!(
            !granted
                .policy
                .grants_somewhere("create", "v1/ConfigMap", "")
        );
        assert_eq!(
            granted.account,
            Some((ACCOUNTS_NAMESPACE.into(), "hello".into()))
        );
    }

    #[test]
    fn what_it_watches_must_be_granted() {
        let other = WATCHES.replace("v1/Namespace", "v1/Pod");
        let refused = grants(&other)
            .dropped_in(&plugin(CREATES), FILE, None)
            .unwrap_err();
        assert_eq!(refused, Refusal::Watch("watch v1/Namespace".into()));
        let narrow = format!("{WATCHES}fields = [\"metadata.labels\"]");
        assert!(
            grants(&narrow)
                .dropped_in(&plugin(CREATES), FILE, None)
                .is_err()
        );
        let wide = format!("{WATCHES}fields = [\"metadata\"]");
        assert!(
            grants(&wide)
                .dropped_in(&plugin(CREATES), FILE, None)
                .is_ok()
        );
    }

    #[test]
    fn a_version_that_asks_for_more_waits_and_one_that_asks_for_as_much_does_not() {
        let before = Asks::of(&plugin(CREATES));
        assert!(
            grants(WATCHES)
                .dropped_in(&plugin(CREATES), FILE, Some(&before))
                .is_ok()
        );
        let refused = grants(WATCHES)
            .dropped_in(&plugin(DELETES), FILE, Some(&before))
            .unwrap_err();
        assert!(
            refused.to_string().contains("to delete v1/ConfigMap;"),
            "{refused}"
        );
        let more = format!(
            "{WATCHES}[[plugins.hello.allow]]\nkinds = [\"v1/ConfigMap\"]\nverbs = [\"delete\"]"
        );
        assert!(
            grants(&more)
                .dropped_in(&plugin(DELETES), FILE, Some(&before))
                .is_ok()
        );
    }

    #[test]
    fn a_grant_may_be_for_one_file_alone() {
        let bound = format!("[plugins.hello]\ndigest = \"sha256:{DIGEST}\"\n{WATCHES}");
        assert!(
            grants(&bound)
                .dropped_in(&plugin(CREATES), FILE, None)
                .is_ok()
        );
        let other = DIGEST.replace('4', "5");
        let refused = grants(&bound)
            .dropped_in(&plugin(CREATES), file(&other), None)
            .unwrap_err();
        assert!(refused.to_string().contains(&other), "{refused}");
    }

    #[test]
    fn a_file_with_a_built_ins_name_runs_only_if_the_policy_says_that_it_replaces_it() {
        let with_builtin = |grants: Grants| Grants {
            builtin_names: BTreeSet::from(["hello".to_owned()]),
            ..grants
        };
        let refused = with_builtin(grants(WATCHES))
            .dropped_in(&plugin(CREATES), FILE, None)
            .unwrap_err();
        assert!(
            refused.to_string().contains("replaces-builtin"),
            "{refused}"
        );
        let replacing = format!("[plugins.hello]\nreplaces-builtin = true\n{WATCHES}");
        assert!(
            with_builtin(grants(&replacing))
                .dropped_in(&plugin(CREATES), FILE, None)
                .is_ok()
        );
        let trusting = Grants {
            trust: true,
            ..Grants::default()
        };
        assert!(
            with_builtin(trusting)
                .dropped_in(&plugin(CREATES), FILE, None)
                .is_err()
        );
    }

    #[test]
    fn only_a_file_that_the_name_is_granted_to_sees_the_configuration() {
        let text = format!(
            "[plugins.hello]\ndigest = \"sha256:{DIGEST}\"\nconfig = {{ token = \"secret\", from = \"policy\" }}"
        );
        let flags = BTreeMap::from([("from".to_owned(), "flag".to_owned())]);
        let mut grants = Grants {
            config: BTreeMap::from([("hello".to_owned(), flags)]),
            ..grants(&text)
        };
        let expected = [("from", "flag"), ("token", "secret")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(grants.config_for("hello", FILE), expected.into());
        let other = DIGEST.replace('4', "5");
        assert!(grants.config_for("hello", file(&other)).is_empty());
        grants.builtin_names.insert("hello".to_owned());
        assert!(grants.config_for("hello", FILE).is_empty());
    }

    #[test]
    fn a_policy_with_a_source_accepts_no_file_and_no_other_package() {
        let source = format!("oci://example.com/hello@sha256:{DIGEST}");
        let bound = format!("[plugins.hello]\nsource = \"{source}\"\n{WATCHES}");
        let grant = |package: Option<&str>| {
            let file = PluginFile {
                digest: DIGEST,
                package,
            };
            let granted = grants(&bound).dropped_in(&plugin(CREATES), file, None);
            granted.map_err(|refusal| refusal.to_string())
        };
        assert!(grant(Some(&source)).is_ok());
        let refused = grant(None).unwrap_err();
        assert!(
            refused.contains(&format!("only to the package {source}")),
            "{refused}"
        );
        assert!(grant(Some("oci://example.com/other")).is_err());
        // The values of the policy are not a file's to see either.
        let with_config = format!("{bound}\n[plugins.hello.config]\ntoken = \"secret\"");
        assert!(grants(&with_config).config_for("hello", FILE).is_empty());
    }

    #[test]
    fn signing_keys_are_given_only_to_a_file_or_package_that_the_policy_names() {
        let keys = "[plugins.hello]\nimports = [\"signer\"]\nsigner-keys = [\"a\"]\n";
        let grant = |bound: &str| {
            let text = format!("{keys}{bound}{WATCHES}");
            grants(&text).dropped_in(&plugin(CREATES), FILE, None)
        };
        let refused = grant("").unwrap_err().to_string();
        assert!(
            refused.contains(&format!("`digest = \"sha256:{DIGEST}\"`").replace('`', "")),
            "{refused}"
        );
        assert!(grant(&format!("digest = \"sha256:{DIGEST}\"\n")).is_ok());
        let signers = "[plugins.hello]\nimports = [\"signer\"]\n\
                       certificates = [{ signers = [\"example.com/a\"] }]\n";
        let grant = |bound: &str| {
            let text = format!("{signers}{bound}{WATCHES}");
            grants(&text).dropped_in(&plugin(CREATES), FILE, None)
        };
        assert!(matches!(grant(""), Err(Refusal::UnboundKeys { .. })));
        assert!(grant(&format!("digest = \"sha256:{DIGEST}\"\n")).is_ok());
    }

    #[test]
    fn a_plugin_has_the_identity_of_its_account_even_where_built_ins_have_the_hosts() {
        let account = Some(("kube-system".to_owned(), "a".to_owned()));
        let grant = |is_builtin| Grant {
            policy: Arc::default(),
            account: account.clone(),
            config: BTreeMap::new(),
            concurrency: 1,
            is_builtin,
        };
        for builtins_use_accounts in [false, true] {
            assert_eq!(
                grant(false).identity(builtins_use_accounts),
                account.as_ref()
            );
        }
        assert_eq!(grant(true).identity(true), account.as_ref());
        assert_eq!(grant(true).identity(false), None);
    }

    #[test]
    fn a_client_is_shared_only_by_versions_with_the_same_credentials_and_the_same_kind_of_name() {
        let account = |name: &str| Some(("kube-system".to_owned(), name.to_owned()));
        let accounts = [None, account("a"), account("b")];
        let grants: Vec<Grant> = [false, true]
            .into_iter()
            .flat_map(|is_builtin| accounts.clone().map(|account| (is_builtin, account)))
            .map(|(is_builtin, account)| Grant {
                policy: Arc::default(),
                account,
                config: BTreeMap::new(),
                concurrency: 1,
                is_builtin,
            })
            .collect();
        for builtins_use_accounts in [false, true] {
            for (one, other) in grants
                .iter()
                .flat_map(|one| grants.iter().map(move |other| (one, other)))
            {
                let expected = one.account.is_some()
                    && one.account == other.account
                    && one.is_builtin == other.is_builtin
                    && (builtins_use_accounts || !one.is_builtin);
                assert_eq!(
                    one.shares_client(other, builtins_use_accounts),
                    expected,
                    "{one:?} after {other:?}, {builtins_use_accounts}"
                );
            }
        }
    }
}
