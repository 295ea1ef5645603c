//! The one check of a guest's reads: cached, live, raw and discovery.

use flyball_types::{ApiError, Kind};

use crate::policy::PluginPolicy;

/// A read that a guest asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Read<'a> {
    /// From the cache. The caches of a plugin hold what its watches were granted when it was loaded, so this asks whether the
    /// plugin watches the kind.
    Cached { kind: &'a str, is_watched: bool },
    /// From the API server.
    Live {
        verb: &'a str,
        kind: &'a Kind,
        namespace: &'a str,
    },
    /// A GET of any path of the API server.
    Raw { path: &'a str },
    /// The kinds that the API server serves.
    Discovery,
}

/// Checks whether a plugin may read this.
pub(crate) fn access(policy: &PluginPolicy, read: Read<'_>) -> Result<(), ApiError> {
    match read {
        Read::Cached {
            is_watched: true, ..
        } => Ok(()),
        Read::Cached { kind, .. } => Err(ApiError::denied(format!(
            "this plugin does not watch {kind}: add a watch to its description"
        ))),
        Read::Live {
            verb,
            kind,
            namespace,
        } => policy.check(verb, kind, "", namespace),
        Read::Raw { path } => {
            policy.check_import("raw")?;
            if path.starts_with('/') && !path.contains("..") {
                return Ok(());
            }
            Err(ApiError::invalid(format!(
                "`{path}` is not a path of the API server"
            )))
        }
        Read::Discovery => policy.check_import("discovery"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::policy::Policy;

    fn policy(text: &str) -> PluginPolicy {
        let text = format!("[plugins.a]\n{text}");
        let policy = Policy::parse(Path::new("policy.toml"), &text).expect("a policy");
        policy.plugins["a"].clone()
    }

    fn reason(policy: &PluginPolicy, read: Read<'_>) -> Option<String> {
        access(policy, read).err().map(|error| error.reason)
    }

    #[test]
    fn a_cached_read_needs_a_watch() {
        let policy = policy("");
        let kind = "v1/Pod";
        let read = |is_watched| Read::Cached { kind, is_watched };
        assert_eq!(reason(&policy, read(true)), None);
        assert_eq!(reason(&policy, read(false)).as_deref(), Some("Denied"));
    }

    #[test]
    fn a_live_read_needs_the_verb_for_the_kind_in_the_namespace() {
        let policy = policy(
            "allow = [{ kinds = [\"v1/Pod\"], verbs = [\"get\"], namespaces = [\"demo\"] }]",
        );
        let (pod, secret) = (Kind::new("", "v1", "Pod"), Kind::new("", "v1", "Secret"));
        let read = |verb, kind, namespace| {
            let read = Read::Live {
                verb,
                kind,
                namespace,
            };
            reason(&policy, read).is_none()
        };
        assert!(read("get", &pod, "demo"));
        assert!(!read("list", &pod, "demo"));
        assert!(!read("get", &secret, "demo"));
        assert!(!read("get", &pod, "other"));
        assert!(!read("get", &pod, ""));
    }

    #[test]
    fn raw_and_discovery_need_their_imports_and_a_path_must_be_one() {
        let (none, both) = (policy(""), policy("imports = [\"raw\", \"discovery\"]"));
        for read in [Read::Raw { path: "/version" }, Read::Discovery] {
            assert_eq!(reason(&none, read).as_deref(), Some("Denied"));
            assert_eq!(reason(&both, read), None);
        }
        for path in ["version", "/api/../version", ""] {
            let read = Read::Raw { path };
            assert_eq!(reason(&both, read).as_deref(), Some("Invalid"), "{path}");
        }
    }
}
