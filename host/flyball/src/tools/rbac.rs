//! `flyball rbac`: the RBAC roles that let a plugin's service account do what the policy allows.
//!
//! Each permission that the plugin asks for is combined with each rule of the policy that allows
//! it (`rbac/needs.rs`). A rule without namespaces becomes a rule of the ClusterRole; a rule with
//! namespaces becomes a rule of a Role in each of them.
//!
//! `flyball rbac --host` prints the roles of the host itself (`rbac/host.rs`).

mod host;
mod needs;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use flyball_manager::PluginDescription;
use flyball_policy::grant::ACCOUNTS_NAMESPACE;
use flyball_policy::{PluginPolicy, Policy};
use flyball_types::description::{Description, VERBS};
use flyball_types::{Kind, KindPattern, printable};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::Value;

use self::needs::{Needs, Rules, SIGNER_VERBS};
use super::output::{Done, Manifests};
use super::plural::{PluralFlags, Plurals};
use crate::admin::RunningHost;

pub(super) use host::run as of_host;

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// The roles, with what is said about them.
pub(super) struct Printed {
    /// Sentences that describe the roles.
    about: Vec<String>,
    /// Sentences about what the roles lack.
    notes: Vec<String>,
    /// Sentences about mistakes that the roles may have.
    warnings: Vec<String>,
    objects: Vec<Value>,
}

impl Printed {
    /// Returns the objects and the warnings.
    pub(super) fn into_parts(self) -> (Vec<Value>, Vec<String>) {
        (self.objects, self.warnings)
    }

    /// Returns the objects with comments on standard output, and the warnings on standard error. If the output
    /// `is_seen` by nobody, because it is piped to kubectl, the notes are on standard error, too.
    pub(super) fn in_format(self, format: Manifests, is_seen: bool) -> anyhow::Result<Done> {
        let comment = self.about.iter().chain(&self.notes);
        let comment: String = comment
            .map(|line| format!("# {}\n", printable(line)))
            .collect();
        let warnings = self.warnings.iter();
        let warnings =
            warnings.map(|warning| format!("flyball: warning: {}\n", printable(warning)));
        let notes = self.notes.iter().filter(|_| !is_seen);
        let notes = notes.map(|note| format!("flyball: {}\n", printable(note)));
        Ok(Done {
            out: format.print(&comment, &self.objects)?,
            err: warnings.chain(notes).collect(),
            code: ExitCode::SUCCESS,
        })
    }
}

/// Returns the roles of a plugin under the policy at `path`, else under the policy that the running host has for it,
/// else under a policy that grants all that it asks for. A plugin that asks for all kinds needs a policy, because the
/// output is mostly applied unread.
pub(super) async fn run(
    known: PluginDescription,
    path: Option<&Path>,
    flags: &PluralFlags,
    host: &RunningHost,
) -> anyhow::Result<Printed> {
    let PluginDescription {
        description,
        policy,
    } = known;
    let name = &description.name;
    let has_policy = path.is_some() || policy.is_some();
    if !has_policy && asks_for_all_kinds(&description) {
        bail!(
            "the plugin `{name}` asks for rights on all kinds, and no policy says what it gets: write a policy, and name it with \
             --policy"
        );
    }
    let granted = match (path, policy) {
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
    let plurals = Plurals::find(&kinds(&description, &granted), flags, host).await?;
    let mut notes = Vec::new();
    if !has_policy {
        notes.push("No policy was given: these roles grant all that the plugin asks for.".into());
    }
    let mut printed = of_plugin(&description, granted, &plurals, notes)?;
    printed.warnings = plurals.warnings;
    Ok(printed)
}

/// Returns the roles of a plugin under its policy.
fn of_plugin(
    description: &Description,
    mut granted: PluginPolicy,
    plurals: &Plurals,
    more_notes: Vec<String>,
) -> anyhow::Result<Printed> {
    let name = &description.name;
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
    let needs = Needs::of(description, &granted, plurals);
    let objects = needs.objects(&format!("flyball:{name}"), account);
    let mut notes = needs.notes;
    notes.extend(more_notes);
    let (namespace, account) = account;
    let about = vec![
        format!("The roles of the plugin {name} as {namespace}/{account}."),
        "The host itself needs roles too: `flyball rbac --host --policy PATH` prints them.".into(),
    ];
    Ok(Printed {
        about,
        notes,
        warnings: Vec::new(),
        objects,
    })
}

/// The kinds whose plurals the roles may need: those that the plugin asks for, and those of its policy if it asks for
/// all.
fn kinds(description: &Description, policy: &PluginPolicy) -> BTreeSet<Kind> {
    let watched = description.watches.iter();
    let watched = watched.filter_map(|watch| watch.kind.clone());
    let asked = description.permissions.iter();
    let asked = asked.filter_map(|permission| match &permission.kind {
        KindPattern::One(kind) => Some(kind.clone()),
        KindPattern::All | KindPattern::Group(_) => None,
    });
    let mut kinds: BTreeSet<Kind> = watched.chain(asked).collect();
    if asks_for_all_kinds(description) {
        let rules = policy.allow.iter().flat_map(|rule| &rule.kinds);
        kinds.extend(needs::kinds_of(rules));
    }
    kinds
}

fn asks_for_all_kinds(description: &Description) -> bool {
    let mut watches = description.watches.iter();
    let mut permissions = description.permissions.iter();
    watches.any(|watch| watch.kind.is_none())
        || permissions.any(|permission| permission.kind == KindPattern::All)
}

impl Needs {
    /// The namespace of accounts if it is Flyball's own, the account, its roles and their bindings.
    fn objects(&self, role: &str, (namespace, account): (&str, &str)) -> Vec<Value> {
        let subjects = Some(vec![Subject {
            kind: "ServiceAccount".into(),
            name: account.into(),
            namespace: Some(namespace.into()),
            ..Subject::default()
        }]);
        let role_ref = |kind: &str| RoleRef {
            api_group: Some(RBAC_GROUP.into()),
            kind: kind.into(),
            name: role.into(),
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
            metadata: metadata(role, None),
            rules: Some(policy_rules(&self.everywhere)),
            ..ClusterRole::default()
        }));
        objects.push(to_value(&ClusterRoleBinding {
            metadata: metadata(role, None),
            role_ref: role_ref("ClusterRole"),
            subjects: subjects.clone(),
        }));
        for (place, rules) in &self.within {
            objects.push(to_value(&Role {
                metadata: metadata(role, Some(place)),
                rules: Some(policy_rules(rules)),
            }));
            objects.push(to_value(&RoleBinding {
                metadata: metadata(role, Some(place)),
                role_ref: role_ref("Role"),
                subjects: subjects.clone(),
            }));
        }
        objects
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

/// The rules of a role. Resources of a group with the same verbs share a rule.
fn policy_rules(rules: &Rules) -> Vec<PolicyRule> {
    /// A group, verbs and names of objects.
    type Joint<'a> = (&'a str, Vec<&'a str>, &'a [String]);
    let mut joined: BTreeMap<Joint<'_>, Vec<&str>> = BTreeMap::new();
    for (of, verbs) in rules {
        let verbs = VERBS
            .into_iter()
            .chain(SIGNER_VERBS)
            .filter(|verb| verbs.contains(verb))
            .collect();
        let rule = (of.group.as_str(), verbs, of.names.as_slice());
        joined.entry(rule).or_default().push(&of.resource);
    }
    let strings = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect();
    joined
        .into_iter()
        .map(|((group, verbs, names), resources)| PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(strings(resources)),
            resource_names: (!names.is_empty()).then(|| names.to_vec()),
            verbs: strings(verbs),
            ..PolicyRule::default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        let needs = Needs::of(&description, &policy, &Plurals::default());
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
        assert_eq!(notes, [] as [&str; 0]);
    }

    #[tokio::test]
    async fn roles_name_the_plural_of_a_flag_and_a_guess_is_a_warning() {
        let description = Description::read(DOCUMENT).expect("it is valid");
        let printed = async |flags: PluralFlags| {
            let known = PluginDescription {
                description: description.clone(),
                policy: None,
            };
            let printed = run(known, None, &flags, &RunningHost::default()).await;
            printed.and_then(|printed| printed.in_format(Manifests::Yaml, false))
        };
        let definition = "kind: CustomResourceDefinition\nspec: {group: example.com, scope: Namespaced, \
                          names: {kind: Gateway, plural: gatewayen}, versions: [{name: v1, served: true}]}\n";
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), definition).expect("it is written");
        let flags = PluralFlags::of_file(file.path().to_owned());
        let done = printed(flags).await.expect("it is printed");
        assert!(
            done.out.contains("gatewayen") && !done.out.contains("gateways"),
            "{}",
            done.out
        );
        // What is piped to kubectl is not read.
        let note =
            "flyball: No policy was given: these roles grant all that the plugin asks for.\n";
        assert_eq!(done.err, note);
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
        // Without the first rule, its events are in the namespaces too.
        let policy = policy.split_once("[\"*\"]").expect("two rules").1;
        let (everywhere, within, _) = needs(DOCUMENT, Some(policy));
        let [core_events, events] = self::events();
        let maps = json!([core_events, maps[0], events]);
        assert_eq!(everywhere, json!([]));
        assert_eq!(within, json!({"one": maps, "two": maps}));
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
    fn the_account_of_a_provider_may_get_the_secret_with_its_credentials() {
        let document = r#"{"format": 1, "name": "a", "queues": [{"name": "q"}]}"#;
        let policy = "[plugins.a.credentials]\nsecret = \"vault/cloud\"";
        let (_, within, _) = needs(document, Some(policy));
        let rule = json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["cloud"], "verbs": ["get"]});
        assert_eq!(within, json!({"vault": [rule]}));
    }

    #[test]
    fn writes_of_certificates_need_verbs_on_signers() {
        let document = r#"{
            "format": 1, "name": "a", "queues": [{"name": "q"}], "permissions": [
                {"kind": "certificates.k8s.io/v1/CertificateSigningRequest", "subresource": "status", "verbs": ["update"]},
                {"kind": "certificates.k8s.io/v1/CertificateSigningRequest", "subresource": "approval", "verbs": ["update"]},
                {"kind": "certificates.k8s.io/v1beta1/ClusterTrustBundle", "verbs": ["create"]}
            ]
        }"#;
        let on_signers = |policy: Option<&str>| {
            let (everywhere, _, notes) = needs(document, policy);
            let rules = everywhere.as_array().expect("rules").clone();
            let is_on_signers = |rule: &Value| rule["resources"] == json!(["signers"]);
            (
                rules.into_iter().filter(is_on_signers).collect::<Vec<_>>(),
                notes,
            )
        };
        let group = "certificates.k8s.io";
        let (rules, notes) = on_signers(None);
        assert_eq!(
            rules,
            [rule(group, &["signers"], &["approve", "attest", "sign"])]
        );
        assert!(
            notes.iter().any(|note| note.contains("`resourceNames`")),
            "{notes:?}"
        );
        let policy = r#"
            [plugins.a]
            imports = ["signer"]
            certificates = [{ signers = ["example.com/b", "example.com/a"] }]
            [[plugins.a.allow]]
            kinds = ["certificates.k8s.io/v1/CertificateSigningRequest"]
            subresource = "status"
            verbs = ["update"]
        "#;
        let mut named = rule(group, &["signers"], &["sign"]);
        named["resourceNames"] = json!(["example.com/a", "example.com/b"]);
        assert_eq!(on_signers(Some(policy)).0, [named]);
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
    fn a_permission_in_namespaces_becomes_a_role_in_each_that_is_granted() {
        let document = r#"{
            "format": 1, "name": "a", "queues": [{"name": "q"}],
            "permissions": [{"kind": "v1/ConfigMap", "verbs": ["create"], "namespaces": ["one", "two"]}]
        }"#;
        let (everywhere, within, _) = needs(document, None);
        assert!(
            !everywhere.to_string().contains("configmaps"),
            "{everywhere}"
        );
        let [core_events, events] = self::events();
        let creates = rule("", &["configmaps"], &["create"]);
        let creates_and_events = json!([creates, core_events, events]);
        assert_eq!(
            within,
            json!({"one": creates_and_events, "two": creates_and_events})
        );
        let policy = "[[plugins.a.allow]]\nkinds = [\"v1/ConfigMap\"]\nverbs = [\"create\"]\nnamespaces = [\"two\", \"three\"]";
        let (_, within, notes) = needs(document, Some(policy));
        let namespaces: Vec<&String> = within.as_object().expect("roles").keys().collect();
        assert_eq!(namespaces, ["two"]);
        let missing =
            "The policy does not grant what the plugin asks for: create v1/ConfigMap in one.";
        assert_eq!(notes, [missing]);
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

    #[tokio::test]
    async fn a_plugin_that_asks_for_all_kinds_needs_a_policy() {
        let document = r#"{
            "format": 1, "name": "a", "queues": [{"name": "q"}],
            "permissions": [{"kind": "*", "verbs": ["*"]}]
        }"#;
        let printed = async |policy| {
            let description = Description::read(document).expect("it is valid");
            let known = PluginDescription {
                description,
                policy,
            };
            let (plurals, host) = (PluralFlags::default(), RunningHost::default());
            let printed = run(known, None, &plurals, &host);
            let printed = printed.await.map_err(|error| error.to_string())?;
            let done = printed
                .in_format(Manifests::Yaml, true)
                .expect("it is written");
            Ok::<_, String>(done.out)
        };
        let refused = printed(None).await.expect_err("there is no policy");
        assert!(refused.contains("--policy"), "{refused}");
        let granted = printed(Some(PluginPolicy::default())).await;
        let granted = granted.expect("there is a policy");
        assert!(
            !granted.contains("'*'") && !granted.contains("\"*\""),
            "{granted}"
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
        let mut policy = policy.plugins["a"].clone();
        policy.service_account = Some(format!("{namespace}/flyball"));
        let printed = of_plugin(&description, policy, &Plurals::default(), Vec::new());
        let printed = printed.expect("it has an account");
        let objects = printed.objects.clone();
        let text = printed
            .in_format(Manifests::Yaml, true)
            .expect("it is written")
            .out;
        let read: Vec<Value> = serde_saphyr::from_multiple(&text).expect("it is YAML");
        assert_eq!(read, objects, "{text}");
        assert_eq!(read[0]["metadata"]["namespace"], namespace);
    }
}
