//! Names of fields as expressions write them.
//!
//! Upstream: staging/src/k8s.io/apiserver/pkg/cel/escaping.go: Escape.

use flyball_cel::RESERVED;

/// Returns the identifier for a field; none if it can't have one.
pub(crate) fn escaped(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
    if !name.chars().all(is_allowed) {
        return None;
    }
    // The two underscores are replaced first: the other replacements contain some.
    let name = name.replace("__", "__underscores__");
    let name = name.replace('.', "__dot__");
    Some(name.replace('-', "__dash__").replace('/', "__slash__"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        for (name, expected) in [
            ("replicas", Some("replicas")),
            ("namespace", Some("__namespace__")),
            ("a.b-c/d", Some("a__dot__b__dash__c__slash__d")),
            ("a__b", Some("a__underscores__b")),
            ("a___b", Some("a__underscores___b")),
            ("$ref", None),
            ("1st", None),
            ("", None),
        ] {
            assert_eq!(escaped(name).as_deref(), expected, "{name}");
        }
    }
}
