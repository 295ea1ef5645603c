//! Parses the path of a raw GET, so that a read of an object or of a list of objects passes the same check as any other.

use flyball_types::ApiError;

/// The path of a GET, without its query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RawPath {
    /// A path of an object or of a list of objects.
    Resource(ResourcePath),
    /// Any other path, such as `/metrics` or `/openapi/v3`.
    Other,
}

/// A path below `/api/v1` or `/apis/GROUP/VERSION`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty for a cluster-scoped object and for all namespaces.
    pub(crate) namespace: String,
    pub(crate) plural: String,
    /// Empty for a list.
    pub(crate) name: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
}

impl RawPath {
    /// Parses a path.
    ///
    /// # Errors
    /// `Invalid` if it is not a plain absolute path: one with an empty segment, `.`, `..` or an escape is refused, because
    /// the server may read it as another path. A path that opens a watch or a proxy is refused, too.
    pub(crate) fn parse(path: &str) -> Result<Self, ApiError> {
        let invalid = |problem: &str| {
            let path: String = path.chars().take(256).collect();
            ApiError::invalid(format!(
                "`{}` is not a path of the API server that a plugin may read: {problem}",
                path.escape_debug()
            ))
        };
        let relative = path
            .strip_prefix('/')
            .ok_or_else(|| invalid("it does not begin with a slash"))?;
        let segments: Vec<&str> = relative
            .strip_suffix('/')
            .unwrap_or(relative)
            .split('/')
            .collect();
        if segments.len() > 1
            && segments
                .iter()
                .any(|segment| matches!(*segment, "" | "." | ".."))
        {
            return Err(invalid("it has an empty segment, `.` or `..`"));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~:*".contains(c);
        if !segments.iter().all(|segment| segment.chars().all(is_plain)) {
            return Err(invalid(
                "a segment holds an escape or another special character",
            ));
        }
        let (group, version, rest) = match segments[..] {
            ["api", version, ref rest @ ..] if !rest.is_empty() => ("", version, rest),
            ["apis", group, version, ref rest @ ..] if !rest.is_empty() => (group, version, rest),
            _ => return Ok(Self::Other),
        };
        // The server's own rule: `namespaces/NAME/status` is a subresource of the Namespace.
        let (namespace, rest) = match rest {
            ["namespaces", namespace, inner @ ..]
                if !matches!(inner, [] | ["status" | "finalize", ..]) =>
            {
                (*namespace, inner)
            }
            rest => ("", rest),
        };
        match rest {
            ["watch" | "proxy", ..] => Err(invalid("it opens a watch or a proxy")),
            [_, _, "proxy" | "exec" | "attach" | "portforward", ..] => {
                Err(invalid("it opens a connection to another server"))
            }
            [plural, more @ ..] => Ok(Self::Resource(ResourcePath {
                group: group.into(),
                version: version.into(),
                namespace: namespace.into(),
                plural: (*plural).into(),
                name: more.first().copied().unwrap_or_default().into(),
                subresource: more.get(1..).unwrap_or_default().join("/"),
            })),
            [] => Ok(Self::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> [String; 6] {
        match RawPath::parse(path).expect(path) {
            RawPath::Resource(path) => {
                let ResourcePath {
                    group,
                    version,
                    namespace,
                    plural,
                    name,
                    subresource,
                } = path;
                [group, version, namespace, plural, name, subresource]
            }
            RawPath::Other => panic!("{path} is not of a resource"),
        }
    }

    #[test]
    fn a_path_of_objects_is_taken_apart_as_the_server_does() {
        for (path, expected) in [
            ("/api/v1/pods", ["", "v1", "", "pods", "", ""]),
            ("/api/v1/pods/", ["", "v1", "", "pods", "", ""]),
            ("/api/v1/nodes/a", ["", "v1", "", "nodes", "a", ""]),
            ("/api/v1/namespaces", ["", "v1", "", "namespaces", "", ""]),
            (
                "/api/v1/namespaces/a",
                ["", "v1", "", "namespaces", "a", ""],
            ),
            (
                "/api/v1/namespaces/a/status",
                ["", "v1", "", "namespaces", "a", "status"],
            ),
            (
                "/api/v1/namespaces/a/secrets/b",
                ["", "v1", "a", "secrets", "b", ""],
            ),
            (
                "/api/v1/namespaces/a/pods/b/log",
                ["", "v1", "a", "pods", "b", "log"],
            ),
            (
                "/apis/apps/v1/deployments",
                ["apps", "v1", "", "deployments", "", ""],
            ),
            (
                "/apis/custom.metrics.k8s.io/v1beta2/namespaces/a/pods/*/rate",
                ["custom.metrics.k8s.io", "v1beta2", "a", "pods", "*", "rate"],
            ),
        ] {
            assert_eq!(resource(path), expected, "{path}");
        }
    }

    #[test]
    fn other_paths_are_not_of_objects() {
        for path in [
            "/",
            "/version",
            "/metrics",
            "/api",
            "/api/v1",
            "/apis",
            "/apis/apps/v1",
            "/openapi/v3/apis/apps/v1",
        ] {
            assert_eq!(RawPath::parse(path), Ok(RawPath::Other), "{path}");
        }
    }

    #[test]
    fn a_path_that_could_be_read_in_two_ways_or_opens_a_connection_is_refused() {
        for path in [
            "",
            "version",
            "//version",
            "/api/../version",
            "/api/./v1",
            "/api/v1/%73ecrets",
            "/api/v1/secrets\n",
            "/api//v1",
            "/api/v1/pods;a=b",
            "/api/v1/po ds",
            "/api/v1\\pods",
            "/api/v1/watch/secrets",
            "/api/v1/proxy/nodes/a",
            "/api/v1/namespaces/a/pods/b/proxy/x",
            "/api/v1/namespaces/a/pods/b/exec",
            "/api/v1/nodes/a/proxy",
            "/apis/apps/v1/watch/namespaces/a/deployments",
            "/api/v1/namespaces/a/pods/b/portforward",
            "/api/v1/pods#a",
        ] {
            assert_eq!(
                RawPath::parse(path).map_err(|error| error.reason),
                Err("Invalid".into()),
                "{path}"
            );
        }
    }
}
