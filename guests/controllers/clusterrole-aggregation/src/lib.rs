//! clusterrole-aggregation-controller: combines the rules of ClusterRoles.
//!
//! A ClusterRole with an `aggregationRule` has the rules of the roles that its selectors match, in the order of the
//! selectors and of the roles' names, each rule once. Any change of any role may change these rules.
//!
//! Upstream: pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go: NewClusterRoleAggregation,
//! syncClusterRole, applyClusterRoles, toApplyPolicyRules, ruleExists, enqueue.

use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// The owner of the rules among the field managers.
const FIELD_MANAGER: &str = "clusterrole-aggregation-controller";

/// A role that is to be combined.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "rbac.authorization.k8s.io/v1/ClusterRole")]
struct Role {
    #[view(path = "aggregationRule")]
    aggregation: Option<AggregationRule>,
    #[view(path = "rules")]
    rules: Vec<PolicyRule>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AggregationRule {
    #[serde(deserialize_with = "null_is_default")]
    cluster_role_selectors: Vec<Selector>,
}

/// A role that a selector matches.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "rbac.authorization.k8s.io/v1/ClusterRole")]
struct Selected {
    #[view(path = "metadata.name")]
    name: String,
    #[view(path = "rules")]
    rules: Vec<PolicyRule>,
}

/// Whether a role has an aggregation rule.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "rbac.authorization.k8s.io/v1/ClusterRole")]
struct Presence {
    #[view(path = "metadata.name")]
    name: String,
    #[view(path = "aggregationRule")]
    aggregation: Option<IgnoredAny>,
}

/// A rule. An absent list equals an empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PolicyRule {
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    verbs: Vec<String>,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    api_groups: Vec<String>,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    resources: Vec<String>,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    resource_names: Vec<String>,
    #[serde(
        rename = "nonResourceURLs",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    non_resource_urls: Vec<String>,
}

/// The controller. Keys are names of roles.
pub struct RoleAggregation;

export!(RoleAggregation);

impl Controller for RoleAggregation {
    fn describe() -> Description {
        describe(
            "clusterrole-aggregation-controller",
            env!("CARGO_PKG_VERSION"),
        )
        .watch(
            watch::<Role>()
                .and_view::<Selected>()
                .when(Change::Labels)
                .when_at(&["aggregationRule", "rules"])
                .enqueue(Mapping::route()),
        )
        .queue("ClusterRoleAggregator")
        .permission(Role::KIND, ["patch"])
        .concurrency(5)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let name = &request.key.name;
        let Some(role) = host.get::<Role>("", name)? else {
            return Ok(Outcome::Done);
        };
        let Some(aggregation) = &role.aggregation else {
            return Ok(Outcome::Done);
        };
        let mut selected = Vec::new();
        for selector in &aggregation.cluster_role_selectors {
            selected.extend(host.list::<Selected>().labels(&**selector).all()?);
        }
        let rules = combine(name, selected);
        if rules != role.rules {
            host.write(apply(name, &rules))?;
        }
        Ok(Outcome::Done)
    }

    /// Enqueues all roles with an aggregation rule after any change: there are few.
    fn route(host: &Host, _: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        let mut routed = Vec::new();
        host.list::<Presence>().each(|role| {
            if role.aggregation.is_some() {
                routed.push(RoutedKey::now(Key::new("", &role.name)));
            }
            Ok(())
        })?;
        Ok(routed)
    }
}

/// Returns the rules of the selected roles, each once. A role that selects itself adds nothing.
fn combine(own: &str, selected: Vec<Selected>) -> Vec<PolicyRule> {
    let mut rules: Vec<PolicyRule> = Vec::new();
    let others = selected.into_iter().filter(|role| role.name != own);
    for rule in others.flat_map(|role| role.rules) {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules
}

/// The write that sets a role's rules. An empty `rules` gives up the rules that this controller has set, and keeps the
/// rules of other field managers.
fn apply(name: &str, rules: &[PolicyRule]) -> Write {
    let mut role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
    });
    if !rules.is_empty() {
        role["rules"] = json!(rules);
    }
    Write::patch(Role::KIND, "", name, PatchType::Apply, &role)
        .field_manager(FIELD_MANAGER)
        .force()
}
