//! `flyball rbac`: what a plugin's account must be allowed in the cluster, so that the server lets it do what the policy does.
//!
//! Each thing that the plugin asks for is taken with each rule of the policy that allows it: a rule without namespaces makes a
//! rule of the ClusterRole, one with namespaces a rule of a Role in each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, bail};
use flyball_manager::policy::{PluginPolicy, Policy, Rule};
use flyball_manager::{ACCOUNTS_NAMESPACE, PluginDescription};
use flyball_types::description::Description;
use flyball_types::{Kind, KindPattern};
use serde_json::{Value, json};

use super::{Manifests, plural, yaml};

/// The API's group of all that is made here.
const RBAC: &str = "rbac.authorization.k8s.io";
/// What the account must be allowed for what the host reads for it from its cache: a `SubjectAccessReview` confirms it.
const CACHED: [&str; 3] = ["get", "list", "watch"];
/// The order in which people write verbs.
const VERBS: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];

/// Prints what a plugin needs: under the policy at `path`, else under that which it is known to have, else to get all that it
/// asks for.
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
                    "the policy {} does not speak of the plugin `{name}`: it is granted nothing, and needs no role",
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
            yaml::pretty_json(&json!({"apiVersion": "v1", "kind": "List", "items": objects}))
        }
        Manifests::Yaml => {
            let documents: Vec<String> = objects.iter().map(yaml::document).collect();
            format!(
                "{}{}",
                needs.comment(name, account),
                documents.join("---\n")
            )
        }
    })
}

/// Verbs by group and resource.
type Rules = BTreeMap<(String, String), BTreeSet<&'static str>>;

/// What an account needs.
#[derive(Debug, Default)]
struct Needs {
    everywhere: Rules,
    /// By namespace.
    within: BTreeMap<String, Rules>,
    /// What the operator should know, as sentences.
    notes: Vec<String>,
}

/// One thing that a plugin asks for.
struct Ask<'a> {
    kind: Option<&'a Kind>,
    subresource: &'a str,
    /// The verb of the policy.
    verb: &'a str,
    /// Only this namespace; all if empty.
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
            needs.note("It GETs paths of its own (`raw`): allow those that it documents, as `nonResourceURLs`.");
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
            // Asking for all kinds, it gets those of the rule.
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
                "The plugin asks to {what}, which the policy does not grant."
            ));
        }
    }

    /// Adds what is asked for of one kind, or of all (`*`), in these namespaces; answers whether it can be granted.
    fn add_kind(&mut self, kind: &str, ask: &Ask<'_>, namespaces: &[String], what: &str) -> bool {
        let (group, mut resource, namespaced) = match kind.parse::<Kind>() {
            Ok(kind) => {
                let known = plural::of(&kind);
                if known.namespaced.is_none() {
                    self.note(format!(
                        "`{}` is the usual plural of {kind}; `kubectl api-resources` tells the true one.",
                        known.resource
                    ));
                }
                (kind.group, known.resource, known.namespaced)
            }
            Err(_) => ("*".into(), "*".into(), None),
        };
        match (ask.subresource, resource.as_str()) {
            ("", "*") => self.note(format!(
                "To {what}, RBAC must grant it on all subresources as well."
            )),
            ("", _) => {}
            ("*", _) => {
                self.note(format!("RBAC can't say to {what}: name the subresources."));
                return true;
            }
            (subresource, _) => resource = format!("{resource}/{subresource}"),
        }
        let verbs: &[&str] = match ask.verb {
            "watch" => &CACHED,
            verb => {
                match VERBS.iter().position(|known| *known == verb) {
                    Some(at) => &VERBS[at..=at],
                    None => {
                        self.note(format!("`{verb}` is no verb of the API that Flyball writes with: it is left out."));
                        return true;
                    }
                }
            }
        };
        let key = (group, resource);
        if namespaces.is_empty() && ask.namespace.is_empty() {
            self.everywhere.entry(key).or_default().extend(verbs);
            return true;
        }
        if namespaced == Some(false) {
            self.note(format!(
                "The policy grants to {what} only in namespaces, in which no such object lies."
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

    fn objects(&self, name: &str, (namespace, account): (&str, &str)) -> Vec<Value> {
        let mut objects = Vec::new();
        if namespace == ACCOUNTS_NAMESPACE {
            objects.push(
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            );
        }
        objects.push(json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace},
        }));
        let everywhere = [(None, &self.everywhere)];
        let within = self
            .within
            .iter()
            .map(|(namespace, rules)| (Some(namespace), rules));
        for (place, rules) in everywhere.into_iter().chain(within) {
            let (role, binding) = match place {
                None => ("ClusterRole", "ClusterRoleBinding"),
                Some(_) => ("Role", "RoleBinding"),
            };
            let mut metadata = json!({"name": format!("flyball:{name}")});
            if let Some(place) = place {
                metadata["namespace"] = place.as_str().into();
            }
            let api = format!("{RBAC}/v1");
            objects.push(json!({"apiVersion": api, "kind": role, "metadata": metadata, "rules": written(rules)}));
            objects.push(json!({
                "apiVersion": api, "kind": binding, "metadata": metadata,
                "roleRef": {"apiGroup": RBAC, "kind": role, "name": format!("flyball:{name}")},
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
            }));
        }
        objects
    }

    fn comment(&self, name: &str, (namespace, account): (&str, &str)) -> String {
        let mut text = format!(
            "# What the plugin {name} needs as {namespace}/{account}. The host needs more: `create` of \
             serviceaccounts/token for this\n# account, `create` of subjectaccessreviews, and `list` and `watch` of all \
             that plugins watch.\n"
        );
        for note in &self.notes {
            text.push_str(&format!("# {note}\n"));
        }
        text
    }
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

/// Rules as RBAC has them: resources of a group with the same verbs are one.
fn written(rules: &Rules) -> Vec<Value> {
    let mut joined: BTreeMap<(&str, Vec<&str>), Vec<&str>> = BTreeMap::new();
    for ((group, resource), verbs) in rules {
        let verbs = VERBS
            .into_iter()
            .filter(|verb| verbs.contains(verb))
            .collect();
        joined.entry((group, verbs)).or_default().push(resource);
    }
    let rule = |((group, verbs), resources)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    joined.into_iter().map(rule).collect()
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
            .map(|(namespace, rules)| (namespace.clone(), written(rules).into()))
            .collect();
        (
            written(&needs.everywhere).into(),
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
    fn what_is_asked_for_is_what_is_needed() {
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
    fn what_the_policy_leaves_out_is_left_out_and_told() {
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
            "to delete v1/ConfigMap",
            "to update apps/v1/Deployment/status",
            "to watch example.com/v1/Gateway",
        ] {
            assert!(notes.contains(missing), "{notes}");
        }
    }

    #[test]
    fn asking_for_all_kinds_it_gets_those_that_the_policy_names() {
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
    fn kinds_without_namespaces_need_no_role_in_one() {
        let policy = "[[plugins.a.allow]]\nkinds = [\"v1/Namespace\"]\nverbs = [\"watch\"]\nnamespaces = [\"one\"]";
        let (_, within, notes) = needs(DOCUMENT, Some(policy));
        assert_eq!(within, json!({}));
        assert!(
            notes
                .iter()
                .any(|note| note.contains("in which no such object lies")),
            "{notes:?}"
        );
    }
}
