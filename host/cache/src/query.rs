//! The query of a cached list: which objects a lister returns.

use flyball_types::{FieldPath, LabelSelector};

use crate::{Object, Uid};

/// Selects objects of a cache. An object matches if all conditions hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// Only objects in this namespace; in all namespaces if empty.
    pub namespace: String,
    /// Only objects whose labels match.
    pub labels: LabelSelector,
    /// Only objects with these values at these paths. An index is used if the path has one.
    pub fields: Vec<(FieldPath, String)>,
    /// Only the object with this UID.
    pub uid: Option<Uid>,
    /// Only objects that name this UID as an owner.
    pub owner: Option<Uid>,
    /// Only objects that name this UID as their controller.
    pub controller: Option<Uid>,
    /// Only objects without a controller.
    pub orphans: bool,
}

impl ListQuery {
    /// Selects all objects of a namespace, or of all namespaces if it is empty.
    pub fn namespace(namespace: &str) -> Self {
        Self {
            namespace: namespace.into(),
            ..Self::default()
        }
    }

    pub fn matches(&self, object: &Object) -> bool {
        let names = |uid: &Option<Uid>, only_controller: bool| match uid {
            None => true,
            Some(uid) => object
                .owners()
                .iter()
                .any(|owner| owner.uid == *uid && (owner.controller || !only_controller)),
        };
        (self.namespace.is_empty() || self.namespace == object.namespace())
            && self.uid.as_ref().is_none_or(|uid| *uid == object.uid)
            && names(&self.owner, false)
            && names(&self.controller, true)
            && !(self.orphans && object.controller().is_some())
            && object.labels().match_selector(&self.labels)
            && self
                .fields
                .iter()
                .all(|(path, value)| object.strings(path).iter().any(|own| own == value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_matches_if_it_meets_every_condition() {
        let object = Object::parse(
            br#"{"metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1", "labels": {"app": "web"},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "K", "name": "k", "uid": "controller", "controller": true},
                    {"apiVersion": "v1", "kind": "K", "name": "l", "uid": "owner"}]},
                "spec": {"nodeName": "n1"}}"#,
        )
        .unwrap();
        let field = |value: &str| vec![("spec.nodeName".parse().unwrap(), value.to_owned())];
        let query = |change: &dyn Fn(&mut ListQuery)| {
            let mut query = ListQuery::default();
            change(&mut query);
            query
        };
        let uid = |text: &str| Some(Uid::new(text));
        for (query, expected) in [
            (ListQuery::default(), true),
            (ListQuery::namespace("n"), true),
            (ListQuery::namespace("m"), false),
            (query(&|query| query.uid = uid("u")), true),
            (query(&|query| query.uid = uid("v")), false),
            (query(&|query| query.owner = uid("controller")), true),
            (query(&|query| query.owner = uid("owner")), true),
            (query(&|query| query.owner = uid("other")), false),
            (query(&|query| query.controller = uid("controller")), true),
            (query(&|query| query.controller = uid("owner")), false),
            (query(&|query| query.orphans = true), false),
            (
                query(&|query| query.labels = "app=web".parse().unwrap()),
                true,
            ),
            (
                query(&|query| query.labels = "app=db".parse().unwrap()),
                false,
            ),
            (query(&|query| query.fields = field("n1")), true),
            (query(&|query| query.fields = field("n2")), false),
        ] {
            assert_eq!(query.matches(&object), expected, "{query:?}");
        }
    }
}
