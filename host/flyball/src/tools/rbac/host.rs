//! `flyball rbac --host`: the roles of the host itself, beside a kube-controller-manager. A host that replaces
//! kube-controller-manager has its role, which Kubernetes creates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use flyball_api::host_rights;
use flyball_api::rights::HostScope;
use flyball_cache::source::VERBS as WATCH_VERBS;
use flyball_policy::grant::ACCOUNTS_NAMESPACE;
use flyball_policy::{Policy, Rule};
use flyball_serving::review;
use flyball_types::KindPattern;

use super::Printed;
use super::needs::{self, Needs, Resources};
use crate::admin::RunningHost;
use crate::controllers::OWN_LEASE;
use crate::tools::load;
use crate::tools::plural::{PluralFlags, Plurals};

/// The name of the roles. No plugin's roles have it: theirs begin with `flyball:`.
const ROLE: &str = "flyball-host";
/// The service account that the roles are bound to.
const ACCOUNT: (&str, &str) = (ACCOUNTS_NAMESPACE, "flyball");
/// The namespace of the lease, unless a flag names another one.
const LEASE_NAMESPACE: &str = "kube-system";

/// Returns the roles of a host that runs the plugins of the policy at `path`.
pub(in crate::tools) async fn run(
    path: Option<&Path>,
    flags: &PluralFlags,
    host: &RunningHost,
) -> anyhow::Result<Printed> {
    let policy = load::policy(path)?;
    let watched = watched(&policy);
    let plurals = Plurals::find(&needs::kinds_of(watched), flags, host).await?;
    let mut needs = Needs::of_host(&policy, &plurals);
    if path.is_none() {
        needs.note(
            "No policy was given: what plugins watch is missing, as are the names of their accounts. Name it with --policy.",
        );
    }
    let (namespace, account) = ACCOUNT;
    let about = vec![
        format!("The roles of a host as {namespace}/{account}: change the bindings if its kubeconfig is another user's."),
        format!(
            "They are for a host beside kube-controller-manager (--controllers=), with the lease {LEASE_NAMESPACE}/{OWN_LEASE}."
        ),
        "In place of kube-controller-manager, bind the ClusterRole system:kube-controller-manager instead.".into(),
    ];
    let objects = needs.objects(ROLE, ACCOUNT);
    Ok(Printed {
        about,
        notes: needs.notes,
        warnings: plurals.warnings,
        objects,
    })
}

/// The kinds and patterns that the policy lets plugins watch.
fn watched(policy: &Policy) -> impl Iterator<Item = &String> {
    let rules = policy.plugins.values().flat_map(|plugin| &plugin.allow);
    let watches = rules.filter(|rule| is_watch(rule));
    watches.flat_map(|rule| &rule.kinds)
}

impl Needs {
    /// Returns the needs of the host's own requests.
    fn of_host(policy: &Policy, plurals: &Plurals) -> Self {
        let mut needs = Self::default();
        let accounts = accounts(policy);
        let everything = |_: &str| Vec::new();
        for right in host_rights() {
            let names = |namespace: &str| match right.scope {
                HostScope::Lease => vec![OWN_LEASE.to_owned()],
                HostScope::Accounts => accounts[namespace].iter().cloned().collect(),
                _ => everything(namespace),
            };
            let namespaces = match right.scope {
                HostScope::Cluster => Vec::new(),
                HostScope::Lease | HostScope::LeaseNamespace => vec![LEASE_NAMESPACE],
                HostScope::Accounts | HostScope::AccountNamespaces => {
                    accounts.keys().map(String::as_str).collect()
                }
                HostScope::LeaseAndAccountNamespaces => {
                    let of_accounts = accounts.keys().map(String::as_str);
                    of_accounts.chain([LEASE_NAMESPACE]).collect()
                }
            };
            let of = (right.group, right.resource);
            if right.scope == HostScope::Cluster {
                needs.add_own(None, of, Vec::new(), right.verb.name());
            }
            for namespace in namespaces {
                needs.add_own(Some(namespace), of, names(namespace), right.verb.name());
            }
        }
        for right in review::RIGHTS {
            let namespace = right.object.map(|(namespace, _)| namespace);
            let name = right.object.map(|(_, name)| name.to_owned());
            let of = (right.group, right.resource);
            needs.add_own(namespace, of, name.into_iter().collect(), right.verb);
        }
        for kind in watched(policy) {
            needs.add_watched(kind, plurals);
        }
        needs
    }

    /// Adds a verb on a resource in a namespace, or on a cluster-scoped one.
    fn add_own(
        &mut self,
        namespace: Option<&str>,
        (group, resource): (&str, &str),
        names: Vec<String>,
        verb: &'static str,
    ) {
        let rules = match namespace {
            Some(namespace) => self.within.entry(namespace.to_owned()).or_default(),
            None => &mut self.everywhere,
        };
        let resources = Resources {
            group: group.to_owned(),
            resource: resource.to_owned(),
            names,
        };
        rules.entry(resources).or_default().insert(verb);
    }

    /// Adds the verbs that the caches of a kind need. A policy may grant a kind in some namespaces only, but the kind's
    /// cache covers all of them.
    fn add_watched(&mut self, kind: &str, plurals: &Plurals) {
        let (group, resource) = match kind.parse::<KindPattern>() {
            Ok(KindPattern::One(kind)) => {
                let known = plurals.of(&kind);
                (kind.group, known.resource)
            }
            Ok(KindPattern::Group(group)) => (group, "*".to_owned()),
            Ok(KindPattern::All) | Err(_) => ("*".to_owned(), "*".to_owned()),
        };
        for verb in WATCH_VERBS {
            self.add_own(None, (&group, &resource), Vec::new(), verb);
        }
    }
}

/// The accounts of the policy's plugins, by namespace. Without a policy, all of the default namespace.
fn accounts(policy: &Policy) -> BTreeMap<String, BTreeSet<String>> {
    let mut accounts = BTreeMap::<String, BTreeSet<String>>::new();
    for (plugin, rules) in &policy.plugins {
        let account = rules.service_account.as_deref();
        let account = account.and_then(|account| account.split_once('/'));
        let (namespace, name) = account.unwrap_or((ACCOUNTS_NAMESPACE, plugin));
        let names = accounts.entry(namespace.to_owned()).or_default();
        names.insert(name.to_owned());
    }
    if accounts.is_empty() {
        accounts.entry(ACCOUNTS_NAMESPACE.to_owned()).or_default();
    }
    accounts
}

fn is_watch(rule: &Rule) -> bool {
    let is_of_objects = matches!(rule.subresource.as_str(), "" | "*");
    is_of_objects && (rule.verbs.contains("watch") || rule.verbs.contains("*"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::tools::output::Manifests;
    use crate::tools::rbac::{policy_rules, to_value};

    fn rules(policy: &str) -> (Value, BTreeMap<String, Value>) {
        let policy = Policy::parse(Path::new("p"), policy).expect("it is valid");
        let needs = Needs::of_host(&policy, &Plurals::default());
        let within = needs.within.iter();
        (
            to_value(&policy_rules(&needs.everywhere)),
            within
                .map(|(namespace, rules)| (namespace.clone(), to_value(&policy_rules(rules))))
                .collect(),
        )
    }

    fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
        json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
    }

    fn named(names: &[&str], mut rule: Value) -> Value {
        rule["resourceNames"] = json!(names);
        rule
    }

    #[test]
    fn the_host_has_rights_on_its_lease_on_the_accounts_and_on_what_is_watched() {
        let (everywhere, within) = rules(
            r#"
            [[plugins.a.allow]]
            kinds = ["v1/ConfigMap", "apps/v1/Deployment"]
            verbs = ["watch", "get"]
            namespaces = ["one"]
            [[plugins.a.allow]]
            kinds = ["v1/Secret"]
            verbs = ["get", "create"]
            [plugins.b]
            service-account = "team/builder"
            [[plugins.b.allow]]
            kinds = ["example.com/*"]
            verbs = ["*"]
            "#,
        );
        let watch = ["list", "watch"];
        assert_eq!(
            everywhere,
            json!([
                rule("", &["configmaps"], &watch),
                rule("apps", &["deployments"], &watch),
                rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
                rule(
                    "authorization.k8s.io",
                    &["subjectaccessreviews"],
                    &["create"]
                ),
                rule("example.com", &["*"], &watch),
            ])
        );
        let of_account = |name| {
            json!([
                rule("", &["serviceaccounts"], &["create"]),
                named(&[name], rule("", &["serviceaccounts/token"], &["create"])),
                rule("", &["events"], &["create", "patch"]),
            ])
        };
        assert_eq!(within["flyball-system"], of_account("a"));
        assert_eq!(within["team"], of_account("builder"));
        let leases = "coordination.k8s.io";
        assert_eq!(
            within["kube-system"],
            json!([
                rule("", &["events"], &["create", "patch"]),
                named(
                    &["extension-apiserver-authentication"],
                    rule("", &["configmaps"], &["get"])
                ),
                rule(leases, &["leases"], &["create"]),
                named(&["flyball"], rule(leases, &["leases"], &["get", "update"])),
            ])
        );
    }

    #[tokio::test]
    async fn without_a_policy_what_is_missing_is_said() {
        let printed = run(None, &PluralFlags::default(), &RunningHost::default()).await;
        let printed = printed.and_then(|printed| printed.in_format(Manifests::Yaml, true));
        let printed = printed.expect("it is printed").out;
        assert!(printed.contains("# No policy was given"), "{printed}");
        assert!(printed.contains("\n  name: flyball-host\n"), "{printed}");
        let (everywhere, _) = rules("");
        assert_eq!(everywhere.as_array().map(Vec::len), Some(2));
    }
}
