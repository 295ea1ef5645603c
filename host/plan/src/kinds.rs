//! The kinds that a plan serves: those of the base, and those of CustomResourceDefinitions that the plan creates.

use flyball_testserver::api::discovery::{self, Served, VERBS};
use flyball_types::Kind;
use serde_json::{Value, json};

/// The API groups with a dot in their names that the API server serves by itself, without `.k8s.io`.
const BUILT_IN: [&str; 17] = [
    "admissionregistration",
    "apiextensions",
    "apiregistration",
    "authentication",
    "authorization",
    "certificates",
    "coordination",
    "discovery",
    "events",
    "flowcontrol.apiserver",
    "internal.apiserver",
    "networking",
    "node",
    "rbac.authorization",
    "resource",
    "scheduling",
    "storage",
];

/// Whether the API server serves a group by itself. Others are of custom resources, or of aggregated API servers.
pub(crate) fn is_built_in(group: &str) -> bool {
    let name = group.strip_suffix(".k8s.io");
    !group.contains('.') || name.is_some_and(|name| BUILT_IN.contains(&name))
}

/// The kinds, and the documents of aggregated discovery that describe them.
pub(crate) struct Kinds {
    served: Vec<Served>,
    /// How many of `served` the base serves. The others are defined by the plan.
    of_base: usize,
    /// The document at `/api`.
    pub(crate) core: Value,
    /// The document at `/apis`.
    pub(crate) groups: Value,
}

impl Kinds {
    /// Reads the documents of a cluster.
    pub(crate) fn of_documents(core: Value, groups: Value) -> Self {
        let served: Vec<Served> = [&core, &groups].into_iter().flat_map(kinds_of).collect();
        Self {
            of_base: served.len(),
            served,
            core,
            groups,
        }
    }

    /// Describes these kinds.
    pub(crate) fn of_served(served: Vec<Served>) -> Self {
        let (core, groups) = (
            discovery::groups(&served, true),
            discovery::groups(&served, false),
        );
        let mut kinds = Self {
            of_base: served.len(),
            served,
            core,
            groups,
        };
        for (group, version, plural) in [
            ("apps", "v1", "deployments"),
            ("apps", "v1", "replicasets"),
            ("apps", "v1", "statefulsets"),
        ] {
            let scale = json!({
                "subresource": "scale",
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                "verbs": ["get", "patch", "update"],
            });
            if let Some(resource) = kinds.resource(group, version, plural)
                && let Some(subresources) = resource["subresources"].as_array_mut()
            {
                subresources.push(scale);
            }
        }
        kinds
    }

    pub(crate) fn served(&self) -> &[Served] {
        &self.served
    }

    /// Finds a kind, as in `apps/v1/Deployment`.
    pub(crate) fn find(&self, kind: &str) -> Option<&Served> {
        self.served
            .iter()
            .find(|served| served.kind.to_string() == kind)
    }

    /// Whether the plan has defined a kind that the base lacks.
    pub(crate) fn is_new(&self, kind: &str) -> bool {
        let new = &self.served[self.of_base..];
        new.iter().any(|served| served.kind.to_string() == kind)
    }

    /// Serves the versions of a CustomResourceDefinition that are not served yet. Other objects change nothing.
    pub(crate) fn define(&mut self, definition: &Value) {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
        let kind = text(&spec["names"]["kind"]);
        if definition["kind"] != "CustomResourceDefinition" || group.is_empty() {
            return;
        }
        let namespaced = spec["scope"] != "Cluster";
        for version in spec["versions"].as_array().into_iter().flatten() {
            let name = text(&version["name"]);
            if version["served"] != true || self.resource(&group, &name, &plural).is_some() {
                continue;
            }
            let response_kind = json!({"group": group, "version": name, "kind": kind});
            let subresources = version["subresources"].as_object().into_iter().flatten();
            let subresources = subresources.map(|(name, _)| {
                json!({"subresource": name, "responseKind": response_kind, "verbs": ["get", "patch", "update"]})
            });
            let resource = json!({
                "resource": plural,
                "responseKind": response_kind,
                "scope": if namespaced { "Namespaced" } else { "Cluster" },
                "verbs": VERBS,
                "subresources": subresources.collect::<Value>(),
            });
            self.add(&group, &name, resource);
            self.served.push(Served {
                kind: Kind::new(&group, &name, &kind),
                plural: plural.clone(),
                namespaced,
            });
        }
    }

    /// The description of a resource in a named group.
    fn resource(&mut self, group: &str, version: &str, plural: &str) -> Option<&mut Value> {
        let groups = self.groups["items"].as_array_mut()?;
        let group = groups
            .iter_mut()
            .find(|own| own["metadata"]["name"] == group)?;
        let versions = group["versions"].as_array_mut()?;
        let version = versions.iter_mut().find(|own| own["version"] == version)?;
        let resources = version["resources"].as_array_mut()?;
        resources.iter_mut().find(|own| own["resource"] == plural)
    }

    fn add(&mut self, group: &str, version: &str, resource: Value) {
        let groups = items(&mut self.groups, "items");
        let group = named(
            groups,
            |own| own["metadata"]["name"] == group,
            || json!({"metadata": {"name": group}, "versions": []}),
        );
        let versions = items(group, "versions");
        let version = named(
            versions,
            |own| own["version"] == version,
            || json!({"version": version, "freshness": "Current", "resources": []}),
        );
        items(version, "resources").push(resource);
    }
}

/// The list in a field, which is created if it is absent.
fn items<'a>(value: &'a mut Value, field: &str) -> &'a mut Vec<Value> {
    if !value[field].is_array() {
        value[field] = json!([]);
    }
    value[field].as_array_mut().expect("set to a list above")
}

/// The first element that is meant, which is added if there is none.
fn named(
    list: &mut Vec<Value>,
    is_meant: impl Fn(&Value) -> bool,
    new: impl FnOnce() -> Value,
) -> &mut Value {
    let at = list.iter().position(is_meant).unwrap_or_else(|| {
        list.push(new());
        list.len() - 1
    });
    &mut list[at]
}

/// Reads the kinds of a document of aggregated discovery.
fn kinds_of(document: &Value) -> Vec<Served> {
    let mut kinds = Vec::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for group in list(&document["items"]) {
        let name = group["metadata"]["name"].as_str().unwrap_or_default();
        for version in list(&group["versions"]) {
            let number = version["version"].as_str().unwrap_or_default();
            for resource in list(&version["resources"]) {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                kinds.push(Served {
                    kind: Kind::new(name, number, &text(&resource["responseKind"]["kind"])),
                    plural: text(&resource["resource"]),
                    namespaced: resource["scope"] == "Namespaced",
                });
            }
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(kinds: &Kinds) -> Vec<String> {
        let served = kinds.served().iter();
        let name =
            |served: &Served| format!("{} {} {}", served.kind, served.plural, served.namespaced);
        served.map(name).collect()
    }

    #[test]
    fn the_documents_of_a_cluster_are_read_as_they_were_written() {
        let served = |kind: &str, plural: &str, namespaced| Served {
            kind: kind.parse().expect("a kind"),
            plural: plural.into(),
            namespaced,
        };
        let all = vec![
            served("v1/Pod", "pods", true),
            served("apps/v1/Deployment", "deployments", true),
            served(
                "rbac.authorization.k8s.io/v1/ClusterRole",
                "clusterroles",
                false,
            ),
        ];
        let written = Kinds::of_served(all.clone());
        let read = Kinds::of_documents(written.core, written.groups);
        assert_eq!(read.served(), all);
        assert!(read.groups.to_string().contains("\"Scale\""));
    }

    #[test]
    fn groups_of_custom_resources_and_of_aggregated_servers_are_not_built_in() {
        for group in ["", "apps", "policy", "rbac.authorization.k8s.io"] {
            assert!(is_built_in(group), "{group}");
        }
        for group in [
            "example.com",
            "metrics.k8s.io",
            "gateway.networking.k8s.io",
            "jobset.x-k8s.io",
        ] {
            assert!(!is_built_in(group), "{group}");
        }
    }

    #[test]
    fn a_definition_adds_its_served_versions_once() {
        let names_of = json!({"kind": "Mouse", "plural": "mice"});
        let versions = json!([
            {"name": "v1", "served": true, "subresources": {"status": {}}},
            {"name": "v0", "served": false},
        ]);
        let spec =
            json!({"group": "a.b", "scope": "Cluster", "names": names_of, "versions": versions});
        let definition = json!({"kind": "CustomResourceDefinition", "spec": spec});
        let mut kinds = Kinds::of_documents(json!({}), json!({}));
        kinds.define(&definition);
        kinds.define(&definition);
        kinds.define(&json!({"kind": "ConfigMap"}));
        assert_eq!(names(&kinds), ["a.b/v1/Mouse mice false"]);
        assert!(kinds.is_new("a.b/v1/Mouse") && !kinds.is_new("a.b/v0/Mouse"));
        let resources = &kinds.groups["items"][0]["versions"][0]["resources"];
        assert_eq!(resources.as_array().map(Vec::len), Some(1));
        assert_eq!(resources[0]["subresources"][0]["subresource"], "status");
    }
}
