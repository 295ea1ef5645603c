//! A question to the cache.

use flyball_types::{FieldPath, LabelSelector};

use crate::{Object, Uid};

/// Which objects are wanted: all conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// Only those of this namespace; all if empty.
    pub namespace: String,
    /// Only those whose labels match.
    pub labels: LabelSelector,
    /// Only those with this value at each of these paths. A path that is indexed is looked up, any other one is compared.
    pub fields: Vec<(FieldPath, String)>,
    /// Only the one that has this UID.
    pub uid: Option<Uid>,
    /// Only those that name this UID as an owner.
    pub owner: Option<Uid>,
    /// Only those that name this UID as their controller.
    pub controller: Option<Uid>,
    /// Only those that name no controller.
    pub orphans: bool,
}

impl ListQuery {
    /// All objects of a namespace, or all if it is empty.
    pub fn namespace(namespace: &str) -> Self {
        Self {
            namespace: namespace.into(),
            ..Self::default()
        }
    }

    /// Whether an object is wanted.
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
            && self.labels.matches(object.labels())
            && self
                .fields
                .iter()
                .all(|(path, value)| object.strings(path).iter().any(|own| own == value))
    }
}
