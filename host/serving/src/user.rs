//! The user of a request.

use std::collections::BTreeMap;

/// An authenticated user, or the anonymous one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    pub name: String,
    /// The unique id, if the authenticator provides one.
    pub uid: Option<String>,
    pub groups: Vec<String>,
    /// Further attributes from the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    pub(crate) fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::default()
        }
    }

    pub(crate) fn authenticated(mut self) -> Self {
        let group = "system:authenticated";
        if self.name != "system:anonymous" && !self.groups.iter().any(|g| g == group) {
            self.groups.push(group.to_owned());
        }
        self
    }
}
