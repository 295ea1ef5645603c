//! The kinds that the server of a test serves: the built-in ones, those of CustomResourceDefinitions, and whatever else
//! the plugin or an object names.

use std::collections::BTreeMap;

use flyball_testserver::api::{ApiServer, Served};
use flyball_types::description::Description;
use flyball_types::{Kind, KindPattern};
use serde_json::Value;

use crate::tools::kinds::of_definition;
use crate::tools::plural::{self, Plurals};

/// Returns the kinds. One that no definition describes is namespaced, and its plural is the usual one.
pub(in crate::tools) fn served<'a>(
    objects: impl Iterator<Item = &'a Value> + Clone,
    description: &Description,
) -> Vec<Served> {
    let mut kinds = Kinds::default();
    for object in objects.clone() {
        for defined in of_definition(object) {
            kinds.add(defined.kind, defined.plural, defined.namespaced);
        }
    }
    for (kind, plural, namespaced) in plural::built_in() {
        kinds.add(kind, plural.to_owned(), namespaced);
    }
    let named = objects.filter_map(kind_of);
    let watched = description.watches.iter();
    let watched = watched.filter_map(|watch| watch.kind.clone());
    let permitted = description.permissions.iter();
    let permitted = permitted.filter_map(|permission| match &permission.kind {
        KindPattern::One(kind) => Some(kind.clone()),
        _ => None,
    });
    for kind in named.chain(watched).chain(permitted) {
        let known = Plurals::default().of(&kind);
        kinds.add(kind, known.resource, known.namespaced.unwrap_or(true));
    }
    kinds.0
}

/// The objects of a server, by kind, namespace and name.
pub(super) type Objects = BTreeMap<[String; 3], Value>;

/// Returns all objects of a server.
pub(super) fn objects(server: &ApiServer) -> Objects {
    let kinds = server.kinds().into_iter();
    let objects = kinds.flat_map(|served| {
        let kind = served.kind.to_string();
        let objects = server.objects(&kind).into_iter();
        objects.map(move |object| {
            let text = |name: &str| {
                object["metadata"][name]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            ([kind.clone(), text("namespace"), text("name")], object)
        })
    });
    objects.collect()
}

/// The kind of an object; none if it has no valid one.
pub(super) fn kind_of(object: &Value) -> Option<Kind> {
    let text = |name: &str| object[name].as_str().filter(|text| !text.is_empty());
    let kind = Kind::of_object(text("apiVersion")?, text("kind")?);
    // Only what a path can name.
    kind.to_string().parse().ok()
}

/// Each kind once: the first definition counts.
#[derive(Default)]
struct Kinds(Vec<Served>);

impl Kinds {
    fn add(&mut self, kind: Kind, plural: String, namespaced: bool) {
        if !self.0.iter().any(|served| served.kind == kind) {
            self.0.push(Served {
                kind,
                plural,
                namespaced,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_tells_the_plural_and_the_scope_and_others_are_guessed() {
        let names = json!({"kind": "Mouse", "plural": "mice"});
        let versions =
            json!([{"name": "v1", "served": true}, {"name": "v1alpha1", "served": false}]);
        let spec =
            json!({"group": "a.b", "scope": "Cluster", "names": names, "versions": versions});
        let objects = [
            json!({"apiVersion": "a.b/v1", "kind": "Mouse"}),
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}),
            json!({"apiVersion": "a.b/v1", "kind": "Cat"}),
            json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler"}),
            json!({"kind": "None"}),
        ];
        let queue = json!([{"name": "a"}]);
        let description = json!({"format": 1, "name": "a", "queues": queue}).to_string();
        let description = Description::read(&description).expect("it is valid");
        let kinds = served(objects.iter(), &description);
        let found = |kind: &str| {
            let mut all = kinds
                .iter()
                .filter(|served| served.kind.to_string() == kind);
            let found = all
                .next()
                .map(|served| (&*served.plural, served.namespaced));
            assert!(all.next().is_none(), "{kind} is served twice");
            found
        };
        assert_eq!(found("a.b/v1/Mouse"), Some(("mice", false)));
        assert_eq!(found("a.b/v1alpha1/Mouse"), None);
        assert_eq!(found("a.b/v1/Cat"), Some(("cats", true)));
        assert_eq!(found("v1/Node"), Some(("nodes", false)));
        let old = "autoscaling/v1/HorizontalPodAutoscaler";
        assert_eq!(found(old), Some(("horizontalpodautoscalers", true)));
    }
}
