//! The object that an operator asks about (`flyball why`), in any spelling that Flyball or kubectl prints.

use flyball_types::{Kind, usual_plural};

/// Words of the outputs that may stand before a kind or after a name, as in `update Pod/status demo/web` and
/// `Pod demo/web added`.
const VERBS: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];
const CHANGES: [&str; 3] = ["added", "modified", "deleted"];

/// The object that a request names: `name`, `namespace/name`, or either behind a kind and a blank or a slash. The kind
/// is spelled `Deployment`, `deployments`, `apps/v1/Deployment` or `deployments.apps`, with or without `/subresource`.
pub(crate) struct ObjectName<'a> {
    /// The possible meanings of the text. `pod/web` is a Pod, or an object in the namespace `pod`.
    meanings: Vec<Meaning<'a>>,
}

struct Meaning<'a> {
    /// The kind as it is spelled; none if the text has no kind.
    kind: Option<String>,
    /// `namespace/name`, or the name alone.
    key: &'a str,
}

impl<'a> ObjectName<'a> {
    pub(crate) fn parse(text: &'a str) -> Self {
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut words = words.as_slice();
        if let [verb, rest @ ..] = words
            && !rest.is_empty()
            && VERBS.contains(verb)
        {
            words = rest;
        }
        if let [rest @ .., change] = words
            && !rest.is_empty()
            && CHANGES.contains(change)
        {
            words = rest;
        }
        let meanings = match words {
            [kind, key] => vec![Meaning {
                kind: Some(kind.to_ascii_lowercase()),
                key,
            }],
            [word] => {
                let slashes = word.rmatch_indices('/').map(|(at, _)| at);
                // The key is the text after the last slash but one or two.
                let behind_kind = slashes.take(2).map(|at| Meaning {
                    kind: Some(word[..at].to_ascii_lowercase()),
                    key: &word[at + 1..],
                });
                let whole = Meaning {
                    kind: None,
                    key: word,
                };
                behind_kind.chain([whole]).collect()
            }
            _ => Vec::new(),
        };
        Self { meanings }
    }

    /// Whether this is the object `key` of a kind, or its subresource.
    pub(crate) fn is(&self, kind: &Kind, subresource: &str, key: &str) -> bool {
        self.meanings.iter().any(|asked| {
            asked.is_key(key)
                && (asked.kind.as_deref()).is_none_or(|asked| is_spelling(asked, kind, subresource))
        })
    }

    /// Whether this is the object `key`, whose kind is one that `is_of` knows.
    pub(crate) fn is_key(&self, key: &str, is_of: impl Fn(&dyn Fn(&Kind) -> bool) -> bool) -> bool {
        self.meanings.iter().any(|asked| {
            asked.is_key(key)
                && match asked.kind.as_deref() {
                    None => true,
                    Some(asked) => is_of(&|kind| is_spelling(asked, kind, "")),
                }
        })
    }
}

impl Meaning<'_> {
    fn is_key(&self, key: &str) -> bool {
        key == self.key || key.rsplit('/').next() == Some(self.key)
    }
}

/// Whether a text in lower case names the kind, or the kind with this subresource.
fn is_spelling(text: &str, kind: &Kind, subresource: &str) -> bool {
    let short = match subresource {
        "" => text,
        _ => text
            .strip_suffix(&subresource.to_ascii_lowercase())
            .and_then(|text| text.strip_suffix('/'))
            .unwrap_or(text),
    };
    let (group, version) = (&kind.group, &kind.version);
    let is_name =
        |name: &str| name == kind.kind.to_ascii_lowercase() || name == usual_plural(&kind.kind);
    let api_version = match group.as_str() {
        "" => format!("{version}/"),
        group => format!("{group}/{version}/"),
    };
    is_name(short)
        || short.strip_prefix(&api_version).is_some_and(is_name)
        || short.split_once('.').is_some_and(|(name, rest)| {
            let rest = rest.strip_prefix(&format!("{version}.")).unwrap_or(rest);
            is_name(name) && rest == group
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_printed_spelling_names_the_object() {
        let deployment = Kind::new("apps", "v1", "Deployment");
        for text in [
            "web",
            "demo/web",
            "Deployment/demo/web",
            "Deployment/web",
            "Deployment demo/web",
            "deployment/web",
            "deployments demo/web",
            "apps/v1/Deployment/demo/web",
            "apps/v1/Deployment/web",
            "apps/v1/Deployment demo/web",
            "deployment.apps/web",
            "deployments.apps/web",
            "deployments.v1.apps demo/web",
            "Deployment demo/web modified",
            "update Deployment demo/web",
            "update Deployment/status demo/web",
            "Deployment/status/demo/web",
            "apps/v1/Deployment/status demo/web",
            "deployments/status web",
        ] {
            let asked = ObjectName::parse(text);
            assert!(asked.is(&deployment, "status", "demo/web"), "{text}");
            let is_status = text.contains("/status");
            assert_eq!(asked.is(&deployment, "", "demo/web"), !is_status, "{text}");
            assert!(!asked.is(&deployment, "status", "demo/other"), "{text}");
        }
    }

    #[test]
    fn another_kind_group_version_namespace_or_subresource_is_another_object() {
        let pod = Kind::new("", "v1", "Pod");
        for text in [
            "other/web",
            "Secret/demo/web",
            "apps/v1/Pod/demo/web",
            "v2/Pod demo/web",
            "pods.apps/web",
            "Pod/scale demo/web",
            "Pod other/web",
            "a b c",
            "",
            "/",
        ] {
            assert!(
                !ObjectName::parse(text).is(&pod, "status", "demo/web"),
                "{text}"
            );
        }
        // The name of a verb or of a change is also a name.
        for name in ["create", "added"] {
            assert!(ObjectName::parse(name).is(&pod, "", name));
        }
        // A namespace may have the name of a kind.
        assert!(ObjectName::parse("pods/web").is(&Kind::new("", "v1", "Secret"), "", "pods/web"));
    }

    #[test]
    fn a_key_has_the_kinds_of_its_queue() {
        let pod = Kind::new("", "v1", "Pod");
        let is_pod = |is_kind: &dyn Fn(&Kind) -> bool| is_kind(&pod);
        assert!(ObjectName::parse("pods/web").is_key("demo/web", is_pod));
        assert!(!ObjectName::parse("Secret/demo/web").is_key("demo/web", is_pod));
        assert!(ObjectName::parse("demo/web").is_key("demo/web", |_| false));
        assert!(!ObjectName::parse("Pod/demo/web").is_key("demo/web", |_| false));
    }
}
