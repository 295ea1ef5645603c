//! The verbs that an account needs: the verbs that a plugin asks for and that the policy allows.

use std::collections::{BTreeMap, BTreeSet};

use flyball_policy::{PluginPolicy, Rule};
use flyball_types::description::{Description, VERBS};
use flyball_types::{Kind, KindPattern};

use crate::tools::plural::Plurals;

/// The group of certificates and their signers.
const CERTIFICATES: &str = "certificates.k8s.io";

/// Verbs on signers. They are not verbs on objects.
pub(super) const SIGNER_VERBS: [&str; 3] = ["approve", "attest", "sign"];

/// Verbs that cached reads need: a SubjectAccessReview confirms them.
const CACHED: [&str; 3] = ["get", "list", "watch"];

/// Verbs by the objects that they apply to.
pub(super) type Rules = BTreeMap<Resources, BTreeSet<&'static str>>;

/// A resource of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Resources {
    pub(super) group: String,
    pub(super) resource: String,
    /// The names of the objects; empty for all.
    pub(super) names: Vec<String>,
}

/// The rules that an account needs.
#[derive(Debug, Default)]
pub(super) struct Needs {
    pub(super) everywhere: Rules,
    /// By namespace.
    pub(super) within: BTreeMap<String, Rules>,
    /// Sentences for the operator.
    pub(super) notes: Vec<String>,
}

/// The kinds among texts of policies, which may be patterns.
pub(super) fn kinds_of<'a>(texts: impl Iterator<Item = &'a String>) -> BTreeSet<Kind> {
    texts.filter_map(|text| text.parse().ok()).collect()
}

/// One verb that a plugin asks for.
struct Ask<'a> {
    kind: KindPattern,
    subresource: &'a str,
    verb: &'a str,
    /// Empty for all namespaces.
    namespace: &'a str,
}

impl Needs {
    pub(super) fn of(description: &Description, policy: &PluginPolicy, plurals: &Plurals) -> Self {
        let mut needs = Self::default();
        let watches = description.watches.iter().map(|watch| Ask {
            kind: watch
                .kind
                .clone()
                .map_or(KindPattern::All, KindPattern::One),
            subresource: "",
            verb: "watch",
            namespace: &watch.namespace,
        });
        let permissions = description.permissions.iter().flat_map(|permission| {
            let everywhere = permission.namespaces.is_empty().then_some("");
            let namespaces = permission.namespaces.iter().map(String::as_str);
            namespaces.chain(everywhere).flat_map(move |namespace| {
                permission.verbs.iter().map(move |verb| Ask {
                    kind: permission.kind.clone(),
                    subresource: &permission.subresource,
                    verb,
                    namespace,
                })
            })
        });
        for ask in watches.chain(permissions) {
            needs.add(&ask, policy, plurals);
        }
        if policy.imports.contains("raw") && description.imports.contains("raw") {
            needs.note("It sends GET requests to paths of its own (`raw`): add the paths that it documents as `nonResourceURLs`.");
        }
        needs.add_signers(description, policy);
        needs.add_events(policy);
        needs.add_credentials(policy);
        needs
    }

    /// Adds the verbs on signers that the API server checks in addition to the verbs on the objects: `sign` for
    /// certificates in the status of CertificateSigningRequests, `approve` for their approval, `attest` for
    /// ClusterTrustBundles. The policy names only the signers whose authorities the host holds.
    fn add_signers(&mut self, description: &Description, policy: &PluginPolicy) {
        for permission in &description.permissions {
            let pattern = &permission.kind;
            let KindPattern::One(kind) = pattern else {
                continue;
            };
            let verb = match (kind.kind.as_str(), permission.subresource.as_str()) {
                ("CertificateSigningRequest", "status") => "sign",
                ("CertificateSigningRequest", "approval") => "approve",
                ("ClusterTrustBundle", "") => "attest",
                _ => continue,
            };
            let is_write =
                |verb: &&String| matches!(verb.as_str(), "create" | "update" | "patch" | "*");
            let is_granted = |verb: &String| {
                let ask = Ask {
                    kind: pattern.clone(),
                    subresource: &permission.subresource,
                    verb,
                    namespace: "",
                };
                policy.allow.iter().any(|rule| allows(rule, &ask))
            };
            if kind.group != CERTIFICATES
                || !permission.verbs.iter().filter(is_write).any(is_granted)
            {
                continue;
            }
            let mut names: Vec<String> = policy.signers().map(str::to_owned).collect();
            if verb != "sign" {
                names.clear();
            }
            names.sort();
            names.dedup();
            if names.is_empty() {
                self.note(format!(
                    "It may {verb} for all signers: add `resourceNames` to the rule on `signers` to name some."
                ));
            }
            let signers = Resources {
                group: CERTIFICATES.into(),
                resource: "signers".into(),
                names,
            };
            self.everywhere.entry(signers).or_default().insert(verb);
        }
    }

    /// Adds events about objects, which the host records in their namespaces: everywhere, or where the plugin may do
    /// something.
    fn add_events(&mut self, policy: &PluginPolicy) {
        let mut rules = policy.allow.iter();
        let places: Vec<&mut Rules> = match rules.any(|rule| rule.namespaces.is_empty()) {
            true => vec![&mut self.everywhere],
            false => self.within.values_mut().collect(),
        };
        for rules in places {
            for group in ["", "events.k8s.io"] {
                let events = Resources {
                    group: group.into(),
                    resource: "events".into(),
                    names: Vec::new(),
                };
                let verbs = rules.entry(events).or_default();
                verbs.extend(["create", "patch"]);
            }
        }
    }

    /// Adds the Secret with the credentials of a cloud's provider, which the host reads as the provider's account.
    fn add_credentials(&mut self, policy: &PluginPolicy) {
        let Some((namespace, name)) = policy.credentials.secret() else {
            return;
        };
        let secret = Resources {
            group: String::new(),
            resource: "secrets".into(),
            names: vec![name.into()],
        };
        let rules = self.within.entry(namespace.into()).or_default();
        rules.entry(secret).or_default().insert("get");
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn add(&mut self, ask: &Ask<'_>, policy: &PluginPolicy, plurals: &Plurals) {
        let name = ask.kind.to_string();
        let slash = if ask.subresource.is_empty() { "" } else { "/" };
        let place = match ask.namespace {
            "" => String::new(),
            namespace => format!(" in {namespace}"),
        };
        let what = format!("{} {name}{slash}{}{place}", ask.verb, ask.subresource);
        let mut granted = false;
        for rule in policy.allow.iter().filter(|rule| allows(rule, ask)) {
            // A plugin that asks for all kinds gets the kinds of the rule.
            let kinds = match ask.kind {
                KindPattern::All => rule.kinds.as_slice(),
                _ => std::slice::from_ref(&name),
            };
            for kind in kinds {
                granted |= self.add_kind(kind, ask, &rule.namespaces, &what, plurals);
            }
        }
        if !granted {
            self.note(format!(
                "The policy does not grant what the plugin asks for: {what}."
            ));
        }
    }

    /// Adds the verb on one kind, or on all (`*`), in these namespaces. Returns whether the policy
    /// grants it.
    fn add_kind(
        &mut self,
        kind: &str,
        ask: &Ask<'_>,
        namespaces: &[String],
        what: &str,
        plurals: &Plurals,
    ) -> bool {
        let (group, mut resource, namespaced) = match kind.parse::<KindPattern>() {
            Ok(KindPattern::One(kind)) => {
                let known = plurals.of(&kind);
                (kind.group, known.resource, known.namespaced)
            }
            Ok(KindPattern::Group(group)) => (group, "*".into(), None),
            Ok(KindPattern::All) | Err(_) => ("*".into(), "*".into(), None),
        };
        match (ask.subresource, resource.as_str()) {
            ("", "*") => self.note(format!(
                "RBAC grants this on all subresources as well: {what}."
            )),
            ("", _) => {}
            ("*", "*") => {}
            ("*", _) => {
                self.note(format!(
                    "RBAC has no pattern for this; name the subresources: {what}."
                ));
                return true;
            }
            (subresource, _) => resource = format!("{resource}/{subresource}"),
        }
        let verbs: &[&str] = match ask.verb {
            "watch" => &CACHED,
            "*" => &VERBS,
            verb => match VERBS.iter().position(|known| *known == verb) {
                Some(at) => &VERBS[at..=at],
                None => {
                    self.note(format!("The verb `{verb}` is unknown and left out."));
                    return true;
                }
            },
        };
        let key = Resources {
            group,
            resource,
            names: Vec::new(),
        };
        if namespaces.is_empty() && ask.namespace.is_empty() {
            self.everywhere.entry(key).or_default().extend(verbs);
            return true;
        }
        if namespaced == Some(false) {
            self.note(format!(
                "The policy grants this only in namespaces, but the kind is cluster-scoped: {what}."
            ));
            return true;
        }
        let only = [ask.namespace.to_owned()];
        for namespace in if ask.namespace.is_empty() {
            namespaces
        } else {
            &only
        } {
            self.within
                .entry(namespace.clone())
                .or_default()
                .entry(key.clone())
                .or_default()
                .extend(verbs);
        }
        true
    }
}

/// Whether a rule allows at least part of the request.
fn allows(rule: &Rule, ask: &Ask<'_>) -> bool {
    let has = |words: &BTreeSet<String>, word: &str| words.contains(word) || words.contains("*");
    let covers = |known: &String| match (known.parse::<KindPattern>(), &ask.kind) {
        (_, KindPattern::All) | (Ok(KindPattern::All), _) => true,
        (Ok(KindPattern::Group(group)), KindPattern::One(kind)) => group == kind.group,
        (Ok(known), asked) => known == *asked,
        (Err(_), _) => false,
    };
    has(&rule.verbs, ask.verb)
        && rule.kinds.iter().any(covers)
        && (rule.subresource == ask.subresource || rule.subresource == "*")
        && (ask.namespace.is_empty()
            || rule.namespaces.is_empty()
            || rule
                .namespaces
                .iter()
                .any(|namespace| namespace == ask.namespace))
}
