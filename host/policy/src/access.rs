//! The one check of a guest's reads: cached, live and raw, the deltas for its `route`, and the answers to its writes.
//! All data of an object that a guest receives is reduced to the result of [`access`]. The grant of a mutation is
//! checked here, too. here, too.
//!
//! The decisions are types that nothing else makes, [`Access`] and [`MayWrite`]: no request for a guest and no delta
//! for its `route` can be built without one.

use flyball_types::{ApiError, FieldPath, Kind, Mask};

use crate::{PluginPolicy, Visible, deny_hidden};

/// The decision that a plugin may read something, with the part that it may see. Only [`access`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access(Visible);

/// The decision that a plugin may write something, with the part of the answer that it may see. Only [`may_write`]
/// makes one.
#[derive(Clone, Debug)]
pub struct MayWrite(Access);

/// A mutation that a guest asks for.
#[derive(Clone, Copy, Debug)]
pub struct Mutation<'a> {
    pub verb: &'a str,
    pub kind: &'a Kind,
    pub subresource: &'a str,
    pub namespace: &'a str,
}

impl Access {
    pub fn visible(&self) -> &Visible {
        &self.0
    }

    /// The mask that the object is reduced to; none if it is not reduced.
    pub fn mask(self) -> Option<Mask> {
        self.0.mask()
    }
}

impl MayWrite {
    /// The part of the server's answer that the plugin may see.
    pub fn visible(&self) -> &Visible {
        self.0.visible()
    }
}

/// Decides whether a plugin may write something.
///
/// # Errors
/// `Denied` if it may not.
pub fn may_write(policy: &PluginPolicy, mutation: Mutation<'_>) -> Result<MayWrite, ApiError> {
    let Mutation {
        verb,
        kind,
        subresource,
        namespace,
    } = mutation;
    policy.check(verb, kind, subresource, namespace)?;
    let answer = Read::Answer {
        verb,
        kind,
        subresource,
        namespace,
    };
    access(policy, answer).map(MayWrite)
}

/// A read that a guest asks for.
#[derive(Clone, Copy, Debug)]
pub enum Read<'a> {
    /// From the cache. The plugin's caches hold only fields that its policy grants its watches: this was checked when
    /// the plugin was loaded. `uses` are the fields that the read's conditions compare.
    Cached {
        kind: &'a Kind,
        is_watched: bool,
        uses: &'a [FieldPath],
    },
    /// From the API server, with conditions on the fields `uses`.
    Live {
        verb: &'a str,
        kind: &'a Kind,
        subresource: &'a str,
        namespace: &'a str,
        uses: &'a [FieldPath],
    },
    /// The server's answer to a write.
    Answer {
        /// The write's verb.
        verb: &'a str,
        kind: &'a Kind,
        subresource: &'a str,
        namespace: &'a str,
    },
    /// A GET of a path of an object or a list of objects of a kind that the API server does not list, or may not list
    /// yet.
    Unlisted {
        verb: &'a str,
        group: &'a str,
        version: &'a str,
        subresource: &'a str,
        namespace: &'a str,
    },
    /// A GET of a path of the API server that is not an object or a list of objects.
    Raw,
}

/// The verbs that read an object.
const READS: [&str; 3] = ["get", "list", "watch"];
/// The subresources that are other kinds. All others, such as `status`, are the whole object.
const OTHER_KINDS: [&str; 4] = ["binding", "eviction", "scale", "token"];

/// Returns the part of the objects that a plugin may see when it reads them.
///
/// # Errors
/// `Denied` if it may not read them.
pub fn access(policy: &PluginPolicy, read: Read<'_>) -> Result<Access, ApiError> {
    visible(policy, read).map(Access)
}

fn visible(policy: &PluginPolicy, read: Read<'_>) -> Result<Visible, ApiError> {
    match read {
        Read::Cached {
            kind,
            is_watched,
            uses,
        } => {
            if !is_watched {
                return Err(ApiError::denied(format!(
                    "this plugin does not watch {kind}: add a watch to its description"
                )));
            }
            if !uses.is_empty() && policy.limits_fields(kind) {
                let hidden = policy.ungranted_fields(kind, "", &mask(uses)?);
                deny_hidden(kind, &hidden)?;
            }
            Ok(Visible::All)
        }
        Read::Live {
            verb,
            kind,
            subresource,
            namespace,
            uses,
        } => {
            policy.check(verb, kind, subresource, namespace)?;
            let visible = policy.visible(&[verb], kind, subresource, namespace);
            let visible = within_object(policy, visible, kind, subresource, namespace);
            if !uses.is_empty() {
                visible.check(kind, &mask(uses)?)?;
            }
            Ok(visible)
        }
        Read::Answer {
            verb,
            kind,
            subresource,
            namespace,
        } => {
            let own = policy.visible(&READS, kind, subresource, namespace);
            let visible = match own {
                Visible::Nothing => policy.visible(&READS, kind, "", namespace),
                own => within_object(policy, own, kind, subresource, namespace),
            };
            // A plugin owns what it creates: reviews and tokens are created for their answers.
            Ok(match visible {
                Visible::Nothing if verb == "create" => Visible::All,
                visible => visible,
            })
        }
        Read::Unlisted {
            verb,
            group,
            version,
            subresource,
            namespace,
        } => {
            policy.check_import("raw")?;
            let any = Kind::new(group, version, "*");
            policy.check_unlisted(verb, &any, subresource, namespace)?;
            Ok(Visible::All)
        }
        Read::Raw => {
            policy.check_import("raw")?;
            Ok(Visible::All)
        }
    }
}

/// Returns the visible part of a subresource. If the policy limits the fields of the object, the limit also applies to
/// the subresources that represent the whole object.
fn within_object(
    policy: &PluginPolicy,
    visible: Visible,
    kind: &Kind,
    subresource: &str,
    namespace: &str,
) -> Visible {
    if subresource.is_empty() || OTHER_KINDS.contains(&subresource) || !policy.limits_fields(kind) {
        return visible;
    }
    visible.within(policy.visible(&READS, kind, "", namespace))
}

fn mask(paths: &[FieldPath]) -> Result<Mask, ApiError> {
    Mask::of(paths).map_err(|error| ApiError::invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Policy;

    fn policy(text: &str) -> PluginPolicy {
        let text = format!("[plugins.a]\n{text}");
        let policy = Policy::parse(Path::new("policy.toml"), &text).expect("a policy");
        policy.plugins["a"].clone()
    }

    fn reason(policy: &PluginPolicy, read: Read<'_>) -> Option<String> {
        access(policy, read).err().map(|error| error.reason)
    }

    fn path(text: &str) -> FieldPath {
        text.parse().expect("a path")
    }

    const LABELS: &str = "allow = [{ kinds = [\"v1/Secret\"], verbs = [\"watch\", \"list\"], fields = [\"metadata.labels\"] }]";

    #[test]
    fn a_cached_read_needs_a_watch() {
        let policy = policy("");
        let kind = &Kind::new("", "v1", "Pod");
        let read = |is_watched| Read::Cached {
            kind,
            is_watched,
            uses: &[],
        };
        assert_eq!(reason(&policy, read(true)), None);
        assert_eq!(reason(&policy, read(false)).as_deref(), Some("Denied"));
    }

    #[test]
    fn the_conditions_of_a_read_compare_only_fields_that_are_granted() {
        let (policy, kind) = (policy(LABELS), &Kind::new("", "v1", "Secret"));
        for (field, denied) in [
            ("metadata.labels", None),
            ("metadata.name", None),
            ("metadata.ownerReferences", Some("Denied")),
            ("type", Some("Denied")),
        ] {
            let uses = &[path(field)];
            let cached = Read::Cached {
                kind,
                is_watched: true,
                uses,
            };
            let live = Read::Live {
                verb: "list",
                kind,
                subresource: "",
                namespace: "",
                uses,
            };
            for read in [cached, live] {
                assert_eq!(reason(&policy, read).as_deref(), denied, "{read:?}");
            }
        }
    }

    #[test]
    fn a_live_read_needs_the_verb_for_the_kind_in_the_namespace() {
        let policy = policy(
            "allow = [{ kinds = [\"v1/Pod\"], verbs = [\"get\"], namespaces = [\"demo\"] }]",
        );
        let (pod, secret) = (Kind::new("", "v1", "Pod"), Kind::new("", "v1", "Secret"));
        let read = |verb, kind, subresource, namespace| {
            let read = Read::Live {
                verb,
                kind,
                subresource,
                namespace,
                uses: &[],
            };
            reason(&policy, read).is_none()
        };
        assert!(read("get", &pod, "", "demo"));
        assert!(!read("list", &pod, "", "demo"));
        assert!(!read("get", &secret, "", "demo"));
        assert!(!read("get", &pod, "log", "demo"));
        assert!(!read("get", &pod, "", "other"));
        assert!(!read("get", &pod, "", ""));
    }

    #[test]
    fn what_is_read_is_reduced_to_the_fields_that_are_granted() {
        let read = |text: &str| {
            let kind = &Kind::new("", "v1", "Secret");
            let read = Read::Live {
                verb: "list",
                kind,
                subresource: "",
                namespace: "",
                uses: &[],
            };
            let access = access(&policy(text), read).expect("a live read is granted");
            access.mask()
        };
        let labels = Mask::parse(["metadata.labels"]).expect("paths");
        assert_eq!(read(LABELS), Some(labels));
        let all = "allow = [{ kinds = [\"v1/Secret\"], verbs = [\"list\"] }]";
        assert_eq!(read(all), None);
    }

    #[test]
    fn the_answer_to_a_write_shows_what_the_plugin_may_read() {
        let answer = |text: &str, verb, subresource| {
            let kind = &Kind::new("", "v1", "Secret");
            let read = Read::Answer {
                verb,
                kind,
                subresource,
                namespace: "demo",
            };
            visible(&policy(text), read).expect("an answer may be received")
        };
        let labels = Visible::Fields(Mask::parse(["metadata.labels"]).expect("paths"));
        for verb in ["create", "update", "patch", "delete"] {
            assert_eq!(answer(LABELS, verb, ""), labels, "{verb}");
            assert_eq!(answer(LABELS, verb, "status"), labels, "{verb}");
        }
        assert_eq!(answer("", "update", ""), Visible::Nothing);
        assert_eq!(answer("", "create", ""), Visible::All);
        let all = "allow = [{ kinds = [\"*\"], verbs = [\"watch\"] }]";
        assert_eq!(answer(all, "update", "scale"), Visible::All);
    }

    #[test]
    fn a_rule_for_a_subresource_that_is_the_object_shows_no_more_fields_of_it() {
        let text = LABELS.replace(
            "allow = [",
            "allow = [{ kinds = [\"v1/Secret\"], subresource = \"status\", verbs = [\"get\", \"update\"] }, ",
        );
        let (policy, kind) = (policy(&text), &Kind::new("", "v1", "Secret"));
        let labels = Visible::Fields(Mask::parse(["metadata.labels"]).expect("paths"));
        let live = Read::Live {
            verb: "get",
            kind,
            subresource: "status",
            namespace: "demo",
            uses: &[],
        };
        let answer = Read::Answer {
            verb: "update",
            kind,
            subresource: "status",
            namespace: "demo",
        };
        for read in [live, answer] {
            assert_eq!(visible(&policy, read).as_ref(), Ok(&labels), "{read:?}");
        }
    }

    #[test]
    fn fields_limit_neither_other_rules_for_the_object_nor_subresources_of_another_kind() {
        let policy = policy(
            "allow = [{ kinds = [\"v1/Secret\"], verbs = [\"get\"], fields = [\"metadata.labels\"] }, \
             { kinds = [\"v1/Secret\"], verbs = [\"watch\"], fields = [\"data\"] }, \
             { kinds = [\"v1/Secret\"], subresource = \"scale\", verbs = [\"get\"] }]",
        );
        let shown = |subresource| {
            let read = Read::Live {
                verb: "get",
                kind: &Kind::new("", "v1", "Secret"),
                subresource,
                namespace: "demo",
                uses: &[],
            };
            visible(&policy, read)
        };
        let labels = Visible::Fields(Mask::parse(["metadata.labels"]).expect("paths"));
        assert_eq!(shown(""), Ok(labels));
        assert_eq!(shown("scale"), Ok(Visible::All));
    }

    #[test]
    fn an_unlisted_resource_needs_a_rule_for_its_group_that_limits_no_fields() {
        let of = |rules: &str| {
            let policy = policy(&format!("imports = [\"raw\"]\nallow = [{rules}]"));
            let read = |group, subresource, namespace| Read::Unlisted {
                verb: "get",
                group,
                version: "v1",
                subresource,
                namespace,
            };
            [
                read("a.io", "", "demo"),
                read("a.io", "x", "demo"),
                read("a.io", "", ""),
                read("b.io", "", "demo"),
                read("", "", "demo"),
            ]
            .map(|read| reason(&policy, read).is_none())
        };
        let no = [false; 5];
        let group = r#"{ kinds = ["a.io/*"], verbs = ["get"] }"#;
        assert_eq!(of(""), no);
        assert_eq!(of(r#"{ kinds = ["a.io/v1/Foo"], verbs = ["*"] }"#), no);
        assert_eq!(of(&group.replace("get", "list")), no);
        assert_eq!(of(group), [true, false, true, false, false]);
        let all = group.replace("verbs", "subresource = \"*\", verbs");
        assert_eq!(of(&all), [true, true, true, false, false]);
        assert_eq!(of(&all.replace("a.io/*", "*")), [true; 5]);
        let demo = group.replace("verbs", "namespaces = [\"demo\"], verbs");
        assert_eq!(of(&demo), [true, false, false, false, false]);
        for limited in ["a.io/v1/Foo", "a.io/*", "*"] {
            let limit =
                format!(r#"{{ kinds = ["{limited}"], verbs = ["watch"], fields = ["spec"] }}"#);
            assert_eq!(of(&format!("{group}, {limit}")), no, "{limited}");
        }
        let without_raw = policy(&format!("allow = [{group}]"));
        let read = Read::Unlisted {
            verb: "get",
            group: "a.io",
            version: "v1",
            subresource: "",
            namespace: "",
        };
        assert_eq!(reason(&without_raw, read).as_deref(), Some("Denied"));
    }

    #[test]
    fn raw_reads_and_discovery_need_their_imports() {
        let (none, both) = (policy(""), policy("imports = [\"raw\", \"discovery\"]"));
        assert_eq!(reason(&none, Read::Raw).as_deref(), Some("Denied"));
        assert_eq!(reason(&both, Read::Raw), None);
        assert_eq!(none.may_discover().unwrap_err().reason, "Denied");
        assert!(both.may_discover().is_ok());
    }
}
