//! `flyball rbac`: the RBAC roles that let a plugin's service account do what the policy allows.
//!
//! Each permission that the plugin asks for is combined with each rule of the policy that allows
//! it. A rule without namespaces becomes a rule of the ClusterRole; a rule with namespaces becomes
//! a rule of a Role in each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, bail};
use flyball_manager::policy::{PluginPolicy, Policy, Rule};
use flyball_manager::{ACCOUNTS_NAMESPACE, PluginDescription};
use flyball_types::description::{Description, VERBS};
use flyball_types::{Kind, KindPattern, printable};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Manifests, output, plural};

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
/// Verbs that cached reads need: a SubjectAccessReview confirms them.
const CACHED: [&str; 3] = ["get", "list", "watch"];

/// Prints the roles of a plugin under the policy at `path`, else under the policy that the running
/// host has for it, else under a policy that grants all that it asks for.
pub(super) fn run(
    known: PluginDescription,
    path: Option<&Path>,
    format: Manifests,
) -> anyhow::Result<String> {
    let PluginDescription {
        description,
        policy,
    } = known;
    let name = &description.name;
    let mut granted = match (path, policy) {
        (Some(path), _) => {
            let mut policy = Policy::read(path)?;
            policy.plugins.remove(name).with_context(|| {
                format!(
                    "the policy {} does not mention the plugin `{name}`: the plugin has no grant and needs no role",
                    path.display()
                )
            })?
        }
        (None, Some(policy)) => policy,
        (None, None) => PluginPolicy::trusting(&description),
    };
    granted
        .service_account
        .get_or_insert_with(|| format!("{ACCOUNTS_NAMESPACE}/{name}"));
    let Some(account) = granted
        .service_account
        .as_deref()
        .and_then(|account| account.split_once('/'))
    else {
        bail!("the policy of the plugin `{name}` names no service account: write `namespace/name`");
    };
    let needs = Needs::of(&description, &granted);
    let objects = needs.objects(name, account);
    Ok(match format {
        Manifests::Json => {
            output::pretty_json(&json!({"apiVersion": "v1", "kind": "List", "items": objects}))
        }
        Manifests::Yaml => needs.comment(name, account) + &output::yaml(&objects)?,
    })
}

/// Verbs by group and resource.
type Rules = BTreeMap<(String, String), BTreeSet<&'static str>>;

/// The rules that an account needs.
#[derive(Debug, Default)]
struct Needs {
    everywhere: Rules,
    /// By namespace.
    within: BTreeMap<String, Rules>,
    /// Sentences for the operator.
    notes: Vec<String>,
}

/// One verb that a plugin asks for.
struct Ask<'a> {
    /// None for all kinds.
    kind: Option<&'a Kind>,
    subresource: &'a str,
    verb: &'a str,
    /// Empty for all namespaces.
    namespace: &'a str,
}

impl Needs {
    fn of(description: &Description, policy: &PluginPolicy) -> Self {
        let mut needs = Self::default();
        let watches = description.watches.iter().map(|watch| Ask {
            kind: watch.kind.as_ref(),
            subresource: "",
            verb: "watch",
            namespace: &watch.namespace,
        });
        let permissions = description.permissions.iter().flat_map(|permission| {
            permission.verbs.iter().map(|verb| Ask {
                kind: match &permission.kind {
                    KindPattern::All => None,
                    KindPattern::One(kind) => Some(kind),
                },
                subresource: &permission.subresource,
                verb,
                namespace: "",
            })
        });
        for ask in watches.chain(permissions) {
            needs.add(&ask, policy);
        }
        if policy.imports.contains("raw") && description.imports.contains("raw") {
            needs.note("It sends GET requests to paths of its own (`raw`): add the paths that it documents as `nonResourceURLs`.");
        }
        for group in ["", "events.k8s.io"] {
            let verbs = needs
                .everywhere
                .entry((group.into(), "events".into()))
                .or_default();
            verbs.extend(["create", "patch"]);
        }
        needs
    }

    fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn add(&mut self, ask: &Ask<'_>, policy: &PluginPolicy) {
        let name = ask.kind.map_or("*".into(), Kind::to_string);
        let slash = if ask.subresource.is_empty() { "" } else { "/" };
        let what = format!("{} {name}{slash}{}", ask.verb, ask.subresource);
        let mut granted = false;
        for rule in policy.allow.iter().filter(|rule| allows(rule, ask)) {
            // A plugin that asks for all kinds gets the kinds of the rule.
            let kinds = match ask.kind {
                Some(_) => std::slice::from_ref(&name),
                None => rule.kinds.as_slice(),
            };
            for kind in kinds {
                granted |= self.add_kind(kind, ask, &rule.namespaces, &what);
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
    fn add_kind(&mut self, kind: &str, ask: &Ask<'_>, namespaces: &[String], what: &str) -> bool {
        let (group, mut resource, namespaced) = match kind.parse::<Kind>() {
            Ok(kind) => {
                let known = plural::of(&kind);
                if known.namespaced.is_none() {
                    self.note(format!(
                        "`{}` is the usual plural of {kind}; `kubectl api-resources` prints the actual one.",
                        known.resource
                    ));
                }
                (kind.group, known.resource, known.namespaced)
            }
            Err(_) => ("*".into(), "*".into(), None),
        };
        match (ask.subresource, resource.as_str()) {
            ("", "*") => self.note(format!(
                "RBAC grants this on all subresources as well: {what}."
            )),
            ("", _) => {}
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
        let key = (group, resource);
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

    /// The namespace of accounts if it is Flyball's own, the account, its roles and their bindings.
    fn objects(&self, name: &str, (namespace, account): (&str, &str)) -> Vec<Value> {
        let role = format!("flyball:{name}");
        let subjects = Some(vec![Subject {
            kind: "ServiceAccount".into(),
            name: account.into(),
            namespace: Some(namespace.into()),
            ..Subject::default()
        }]);
        let role_ref = |kind: &str| RoleRef {
            api_group: Some(RBAC_GROUP.into()),
            kind: kind.into(),
            name: role.clone(),
        };
        let mut objects = Vec::new();
        if namespace == ACCOUNTS_NAMESPACE {
            objects.push(to_value(&Namespace {
                metadata: metadata(namespace, None),
                ..Namespace::default()
            }));
        }
        objects.push(to_value(&ServiceAccount {
            metadata: metadata(account, Some(namespace)),
            ..ServiceAccount::default()
        }));
        objects.push(to_value(&ClusterRole {
            metadata: metadata(&role, None),
            rules: Some(policy_rules(&self.everywhere)),
            ..ClusterRole::default()
        }));
        objects.push(to_value(&ClusterRoleBinding {
            metadata: metadata(&role, None),
            role_ref: role_ref("ClusterRole"),
            subjects: subjects.clone(),
        }));
        for (place, rules) in &self.within {
            objects.push(to_value(&Role {
                metadata: metadata(&role, Some(place)),
                rules: Some(policy_rules(rules)),
            }));
            objects.push(to_value(&RoleBinding {
                metadata: metadata(&role, Some(place)),
                role_ref: role_ref("Role"),
                subjects: subjects.clone(),
            }));
        }
        objects
    }

    fn comment(&self, name: &str, (namespace, account): (&str, &str)) -> String {
        let first = [
            format!("The roles of the plugin {name} as {namespace}/{account}."),
            "The host itself needs more: `create` of serviceaccounts/token for this account, `create` of".into(),
            "subjectaccessreviews, and `list` and `watch` of all kinds that plugins watch.".into(),
        ];
        first
            .iter()
            .chain(&self.notes)
            .map(|line| format!("# {}\n", printable(line)))
            .collect()
    }
}

fn metadata(name: &str, namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.into()),
        namespace: namespace.map(str::to_owned),
        ..ObjectMeta::default()
    }
}

fn to_value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).expect("typed objects have no map with keys other than strings")
}

/// Whether a rule allows some of what is asked for.
fn allows(rule: &Rule, ask: &Ask<'_>) -> bool {
    let has = |words: &BTreeSet<String>, word: &str| words.contains(word) || words.contains("*");
    let kind = ask.kind.map(Kind::to_string);
    has(&rule.verbs, ask.verb)
        && kind.is_none_or(|kind| {
            rule.kinds
                .iter()
                .any(|known| *known == kind || known == "*")
        })
        && (rule.subresource == ask.subresource || rule.subresource == "*")
        && (ask.namespace.is_empty()
            || rule.namespaces.is_empty()
            || rule
                .namespaces
                .iter()
                .any(|namespace| namespace == ask.namespace))
}

/// The rules of a role. Resources of a group with the same verbs share a rule.
fn policy_rules(rules: &Rules) -> Vec<PolicyRule> {
    let mut joined: BTreeMap<(&str, Vec<&str>), Vec<&str>> = BTreeMap::new();
    for ((group, resource), verbs) in rules {
        let verbs = VERBS
            .into_iter()
            .filter(|verb| verbs.contains(verb))
            .collect();
        joined.entry((group, verbs)).or_default().push(resource);
    }
    let strings = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect();
    joined
        .into_iter()
        .map(|((group, verbs), resources)| PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(strings(resources)),
            verbs: strings(verbs),
            ..PolicyRule::default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = r#"{
        "format": 1, "name": "a", "queues": [{"name": "q"}],
        "watches": [
            {"kind": "v1/Namespace"}, {"kind": "v1/ConfigMap"}, {"kind": "v1/Secret", "namespace": "vault"},
            {"kind": "example.com/v1/Gateway"}
        ],
        "permissions": [
            {"kind": "v1/ConfigMap", "verbs": ["create", "delete"]},
            {"kind": "apps/v1/Deployment", "subresource": "status", "verbs": ["update"]}
        ]
    }"#;

    fn needs(document: &str, policy: Option<&str>) -> (Value, Value, Vec<String>) {
        let description = Description::read(document).expect("it is valid");
        let policy = match policy {
            None => PluginPolicy::trusting(&description),
            Some(text) => Policy::parse(Path::new("p"), text)
                .expect("it is valid")
                .plugins
                .remove("a")
                .expect("it is there"),
        };
        let needs = Needs::of(&description, &policy);
        let within = needs
            .within
            .iter()
            .map(|(namespace, rules)| (namespace.clone(), to_value(&policy_rules(rules))))
            .collect();
        (
            to_value(&policy_rules(&needs.everywhere)),
            Value::Object(within),
            needs.notes,
        )
    }

    fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
        json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
    }

    fn events() -> [Value; 2] {
        [
            rule("", &["events"], &["create", "patch"]),
            rule("events.k8s.io", &["events"], &["create", "patch"]),
        ]
    }

    #[test]
    fn the_rules_cover_what_the_plugin_asks_for() {
        let (everywhere, within, notes) = needs(DOCUMENT, None);
        let [core_events, events] = events();
        let expected = json!([
            core_events,
            rule("", &["namespaces"], &["get", "list", "watch"]),
            rule(
                "",
                &["configmaps"],
                &["get", "list", "watch", "create", "delete"]
            ),
            rule("apps", &["deployments/status"], &["update"]),
            events,
            rule("example.com", &["gateways"], &["get", "list", "watch"]),
        ]);
        assert_eq!(everywhere, expected);
        assert_eq!(
            within,
            json!({"vault": [rule("", &["secrets"], &["get", "list", "watch"])]})
        );
        assert_eq!(notes.len(), 1);
        assert!(
            notes[0].contains("`gateways` is the usual plural of example.com/v1/Gateway"),
            "{notes:?}"
        );
    }

    #[test]
    fn what_the_policy_does_not_grant_is_left_out_with_a_note() {
        let policy = r#"
            [[plugins.a.allow]]
            kinds = ["v1/Namespace", "v1/Secret"]
            verbs = ["*"]
            [[plugins.a.allow]]
            kinds = ["v1/ConfigMap"]
            verbs = ["watch", "create", "patch"]
            namespaces = ["one", "two"]
        "#;
        let (everywhere, within, notes) = needs(DOCUMENT, Some(policy));
        let [core_events, events] = events();
        let watch = ["get", "list", "watch"];
        assert_eq!(
            everywhere,
            json!([core_events, rule("", &["namespaces"], &watch), events])
        );
        let maps = json!([rule(
            "",
            &["configmaps"],
            &["get", "list", "watch", "create"]
        )]);
        assert_eq!(
            within,
            json!({"one": maps, "two": maps, "vault": [rule("", &["secrets"], &watch)]})
        );
        let notes = notes.join("\n");
        for missing in [
            "asks for: delete v1/ConfigMap",
            "asks for: update apps/v1/Deployment/status",
            "asks for: watch example.com/v1/Gateway",
        ] {
            assert!(notes.contains(missing), "{notes}");
        }
    }

    #[test]
    fn a_permission_on_all_kinds_becomes_rules_on_the_kinds_of_the_policy() {
        let document = r#"{
            "format": 1, "name": "a", "queues": [{"name": "q"}], "watches": [{"discovered": {"periodMs": 1}}],
            "permissions": [{"kind": "*", "verbs": ["delete"]}, {"kind": "*", "subresource": "status", "verbs": ["patch"]}]
        }"#;
        let (everywhere, _, notes) = needs(document, None);
        let [core_events, events] = events();
        let all = rule("*", &["*"], &["get", "list", "watch", "delete"]);
        let statuses = rule("*", &["*/status"], &["patch"]);
        assert_eq!(everywhere, json!([core_events, all, statuses, events]));
        assert!(
            notes.iter().any(|note| note.contains("all subresources")),
            "{notes:?}"
        );
        let policy = "[[plugins.a.allow]]\nkinds = [\"v1/Pod\", \"batch/v1/Job\"]\nverbs = [\"watch\", \"delete\"]";
        let (everywhere, _, _) = needs(document, Some(policy));
        let verbs = ["get", "list", "watch", "delete"];
        assert_eq!(
            everywhere,
            json!([
                core_events,
                rule("", &["pods"], &verbs),
                rule("batch", &["jobs"], &verbs),
                events
            ])
        );
    }

    #[test]
    fn a_cluster_scoped_kind_needs_no_role_in_a_namespace() {
        let policy = "[[plugins.a.allow]]\nkinds = [\"v1/Namespace\"]\nverbs = [\"watch\"]\nnamespaces = [\"one\"]";
        let (_, within, notes) = needs(DOCUMENT, Some(policy));
        assert_eq!(within, json!({}));
        assert!(
            notes
                .iter()
                .any(|note| note.contains("the kind is cluster-scoped")),
            "{notes:?}"
        );
    }

    #[test]
    fn names_in_a_policy_can_not_inject_a_document() {
        let namespace = "one\n---\nkind: Secret";
        let policy = format!(
            "[[plugins.a.allow]]\nkinds = [\"v1/ConfigMap\"]\nverbs = [\"watch\"]\nnamespaces = [{namespace:?}]"
        );
        let description = Description::read(DOCUMENT).expect("it is valid");
        let policy = Policy::parse(Path::new("p"), &policy).expect("it is valid");
        let needs = Needs::of(&description, &policy.plugins["a"]);
        let objects = needs.objects("a", ("flyball", namespace));
        let text = needs.comment("a", ("flyball", namespace))
            + &output::yaml(&objects).expect("it is written");
        let read: Vec<Value> = serde_saphyr::from_multiple(&text).expect("it is YAML");
        assert_eq!(read, objects, "{text}");
        assert_eq!(read[0]["metadata"]["name"], namespace);
    }
}
