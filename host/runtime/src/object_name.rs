//! The object that an operator asks about (`flyball why`), in any spelling that Flyball or kubectl prints.

use flyball_cache::{ApiResource, Catalogue};
use flyball_types::nearest::nearest;
use flyball_types::{Kind, printable, usual_plural};

/// Words of the outputs that may stand before a kind or after a name, as in `update Pod/status demo/web` and
/// `Pod demo/web added`.
const VERBS: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];
const CHANGES: [&str; 3] = ["added", "modified", "deleted"];

/// The object that a request names: `name`, `namespace/name`, or either behind a kind and a blank or a slash. The kind
/// is spelled `Deployment`, `deployments`, `apps/v1/Deployment` or `deployments.apps`, with or without `/subresource`.
pub struct ObjectName<'a> {
    /// The possible meanings of the text. `pod/web` is a Pod, or an object in the namespace `pod`.
    meanings: Vec<Meaning<'a>>,
    /// The kinds that the API server serves, with their plurals; empty if they are not known.
    served: &'a Catalogue,
}

struct Meaning<'a> {
    /// The kind as it is spelled; none if the text has no kind.
    kind: Option<&'a str>,
    /// `namespace/name`, or the name alone.
    key: &'a str,
}

impl<'a> ObjectName<'a> {
    /// Parses a text. The plurals are those of `served`, and usual ones for other kinds.
    pub fn parse(text: &'a str, served: &'a Catalogue) -> Self {
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
                kind: Some(kind),
                key,
            }],
            [word] => {
                let slashes = word.rmatch_indices('/').map(|(at, _)| at);
                // The key is the text after the last slash but one or two.
                let behind_kind = slashes.take(2).map(|at| Meaning {
                    kind: Some(&word[..at]),
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
        Self { meanings, served }
    }

    /// Returns a sentence about the kind that the text names, if the API server does not serve it and the text has no
    /// other meaning.
    pub fn unknown_kind(&self) -> Option<String> {
        if self.served.resources.is_empty() {
            return None;
        }
        let mut unknown = Vec::new();
        for meaning in &self.meanings {
            match meaning.kind {
                None if may_have_no_kind(meaning.key) => return None,
                None => {}
                Some(kind) if self.is_served(kind) => return None,
                Some(kind) => unknown.push(kind),
            }
        }
        let mut candidates = unknown.iter().copied();
        let with_meant = candidates.find_map(|kind| Some((kind, self.meant(kind)?)));
        let (kind, meant) = match with_meant {
            Some((kind, meant)) => (kind, format!(": did you mean `{meant}`?")),
            None => (
                *unknown.last()?,
                "; `kubectl api-resources` lists the kinds".into(),
            ),
        };
        Some(format!(
            "the API server serves no kind `{}`{meant}",
            printable(kind)
        ))
    }

    fn is_served(&self, text: &str) -> bool {
        let text = text.to_ascii_lowercase();
        self.served.resources.iter().any(|served| {
            let subresources = served.subresources.iter().map(|own| own.name.as_str());
            let mut subresources = subresources.chain([""]);
            subresources.any(|sub| is_spelling(&text, &served.kind, sub, &served.plural))
        })
    }

    /// Returns the spelling of a served kind that is most similar to a text.
    fn meant(&self, text: &str) -> Option<String> {
        let spelling = |served: &ApiResource| match (text.contains('/'), text.contains('.')) {
            (true, _) => served.kind.to_string(),
            (false, true) => format!("{}.{}", served.plural, served.kind.group),
            (false, false) => served.kind.kind.clone(),
        };
        let spellings: Vec<String> = (self.served.resources.iter())
            .map(|served| spelling(served))
            .collect();
        nearest(text, spellings.iter().map(String::as_str)).map(str::to_owned)
    }

    /// Whether a text names the kind, or the kind with this subresource.
    fn is_kind(&self, text: &str, kind: &Kind, subresource: &str) -> bool {
        let served = self.served.get(kind);
        let plural = served.map_or_else(|| usual_plural(&kind.kind), |one| one.plural.clone());
        is_spelling(&text.to_ascii_lowercase(), kind, subresource, &plural)
    }

    /// Whether this is the object `key` of a kind, or its subresource.
    pub(crate) fn is(&self, kind: &Kind, subresource: &str, key: &str) -> bool {
        self.meanings.iter().any(|asked| {
            asked.is_key(key)
                && (asked.kind).is_none_or(|asked| self.is_kind(asked, kind, subresource))
        })
    }

    /// Whether this is the object `key`, whose kind is one that `is_of` knows.
    pub(crate) fn is_key(&self, key: &str, is_of: impl Fn(&dyn Fn(&Kind) -> bool) -> bool) -> bool {
        self.meanings.iter().any(|asked| {
            asked.is_key(key)
                && match asked.kind {
                    None => true,
                    Some(asked) => is_of(&|kind| self.is_kind(asked, kind, "")),
                }
        })
    }
}

impl Meaning<'_> {
    fn is_key(&self, key: &str) -> bool {
        key == self.key || key.rsplit('/').next() == Some(self.key)
    }
}

/// Whether a text without a kind may have this meaning: `name`, or `namespace/name`. No namespace has a dot or an
/// upper-case letter.
fn may_have_no_kind(key: &str) -> bool {
    match key.split_once('/') {
        None => true,
        Some((namespace, name)) => {
            let of_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            namespace.chars().all(of_label) && !name.contains('/')
        }
    }
}

/// Whether a text in lower case names the kind with this plural, or the kind with this subresource.
fn is_spelling(text: &str, kind: &Kind, subresource: &str, plural: &str) -> bool {
    let short = match subresource {
        "" => text,
        _ => text
            .strip_suffix(&subresource.to_ascii_lowercase())
            .and_then(|text| text.strip_suffix('/'))
            .unwrap_or(text),
    };
    let (group, version) = (&kind.group, &kind.version);
    let is_name = |name: &str| name == kind.kind.to_ascii_lowercase() || name == plural;
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
    use std::sync::Arc;

    use super::*;

    /// Parses a text without knowing what is served.
    fn parse(text: &str) -> ObjectName<'_> {
        static NOTHING: std::sync::LazyLock<Catalogue> =
            std::sync::LazyLock::new(Catalogue::default);
        ObjectName::parse(text, &NOTHING)
    }

    #[test]
    fn kinds_have_the_plurals_that_the_server_has_and_others_are_unknown() {
        let leaf = Kind::new("ts.example.com", "v1", "Leaf");
        let served = |kind: &Kind, plural: &str| {
            Arc::new(ApiResource {
                kind: kind.clone(),
                plural: plural.into(),
                namespaced: true,
                verbs: Default::default(),
                subresources: Vec::new(),
                preferred: true,
            })
        };
        let pod = Kind::new("", "v1", "Pod");
        let served = Catalogue::new(vec![served(&leaf, "leaves"), served(&pod, "pods")]);
        for text in ["leaves.ts.example.com/oak", "leaves/oak", "Leaf/demo/oak"] {
            let asked = ObjectName::parse(text, &served);
            assert!(asked.is(&leaf, "", "demo/oak"), "{text}");
            assert_eq!(asked.unknown_kind(), None, "{text}");
        }
        for (text, problem) in [
            (
                "leafs.ts.example.com/oak",
                "the API server serves no kind `leafs.ts.example.com`: did you mean `leaves.ts.example.com`?",
            ),
            ("Leav demo/oak", "no kind `Leav`: did you mean `Leaf`?"),
            (
                "ts.example.com/v1/Leav/oak",
                "no kind `ts.example.com/v1/Leav`: did you mean `ts.example.com/v1/Leaf`?",
            ),
            (
                "Xyz/demo/oak",
                "no kind `Xyz`; `kubectl api-resources` lists the kinds",
            ),
        ] {
            let asked = ObjectName::parse(text, &served);
            assert!(!asked.is(&leaf, "", "demo/oak"), "{text}");
            let unknown = asked.unknown_kind().unwrap_or_default();
            assert!(unknown.ends_with(problem), "{text}: {unknown}");
        }
        // These may be names of objects and of namespaces.
        for text in ["oak", "demo/oak", "leafs/oak"] {
            let asked = ObjectName::parse(text, &served);
            assert_eq!(asked.unknown_kind(), None, "{text}");
        }
        assert_eq!(parse("Leav/demo/oak").unknown_kind(), None);
    }

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
            let asked = parse(text);
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
            assert!(!parse(text).is(&pod, "status", "demo/web"), "{text}");
        }
        // The name of a verb or of a change is also a name.
        for name in ["create", "added"] {
            assert!(parse(name).is(&pod, "", name));
        }
        // A namespace may have the name of a kind.
        assert!(parse("pods/web").is(&Kind::new("", "v1", "Secret"), "", "pods/web"));
    }

    #[test]
    fn a_key_has_the_kinds_of_its_queue() {
        let pod = Kind::new("", "v1", "Pod");
        let is_pod = |is_kind: &dyn Fn(&Kind) -> bool| is_kind(&pod);
        assert!(parse("pods/web").is_key("demo/web", is_pod));
        assert!(!parse("Secret/demo/web").is_key("demo/web", is_pod));
        assert!(parse("demo/web").is_key("demo/web", |_| false));
        assert!(!parse("Pod/demo/web").is_key("demo/web", |_| false));
    }
}
