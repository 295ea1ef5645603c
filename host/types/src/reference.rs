//! Keys that name an object of any kind. Mappings across kinds enqueue them, and guests parse them.

use std::fmt;
use std::str::FromStr;

use crate::Kind;

/// Names one object of any kind. As a key it is written `apps/v1/ReplicaSet/namespace/name/uid`. The core group is
/// omitted, and the namespace of a cluster-scoped object is empty. In the parts, `~1` stands for `/` and `~0` for `~`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    /// The kind, in the version in which the reference was found.
    pub kind: Kind,
    /// Empty if the object is cluster-scoped.
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// A key that is not a reference. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` does not name an object: it would be written `apps/v1/ReplicaSet/namespace/name/uid`"
)]
pub struct ReferenceError(pub String);

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind:
                Kind {
                    group,
                    version,
                    kind,
                },
            namespace,
            name,
            uid,
        } = self;
        let parts = [group, version, kind, namespace, name, uid];
        for (place, part) in parts[usize::from(group.is_empty())..].iter().enumerate() {
            if place > 0 {
                f.write_str("/")?;
            }
            if part.contains(['~', '/']) {
                f.write_str(&part.replace('~', "~0").replace('/', "~1"))?;
            } else {
                f.write_str(part)?;
            }
        }
        Ok(())
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let parts: Vec<String> = text
            .split('/')
            .map(|part| part.replace("~1", "/").replace("~0", "~"))
            .collect();
        let (group, parts) = match parts.as_slice() {
            [group, rest @ ..] if rest.len() == 5 => (group.as_str(), rest),
            rest => ("", rest),
        };
        let [version, kind, namespace, name, uid] = parts else {
            return Err(ReferenceError(text.into()));
        };
        let kind = Kind::new(group, version, kind);
        Ok(Self {
            kind,
            namespace: namespace.clone(),
            name: name.clone(),
            uid: uid.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(kind: &str, namespace: &str, name: &str) -> Reference {
        let kind = kind.parse().unwrap();
        Reference {
            kind,
            namespace: namespace.into(),
            name: name.into(),
            uid: "u-1".into(),
        }
    }

    #[test]
    fn a_reference_reads_back_as_it_was_written() {
        for (reference, text) in [
            (
                reference("apps/v1/ReplicaSet", "demo", "web"),
                "apps/v1/ReplicaSet/demo/web/u-1",
            ),
            (reference("v1/Node", "", "n1"), "v1/Node//n1/u-1"),
            (
                reference("v1/Pod", "demo", "a/~1b"),
                "v1/Pod/demo/a~1~01b/u-1",
            ),
        ] {
            assert_eq!(reference.to_string(), text);
            assert_eq!(text.parse(), Ok(reference));
        }
    }

    #[test]
    fn a_key_with_another_number_of_parts_is_an_error() {
        for text in [
            "",
            "demo/web",
            "v1/Pod/demo/web",
            "apps/v1/ReplicaSet/demo/web/u/x",
        ] {
            assert_eq!(text.parse::<Reference>(), Err(ReferenceError(text.into())));
        }
    }
}
