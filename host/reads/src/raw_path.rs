//! Parses the path of a raw GET, so that a read of an object or of a list of objects passes the same check as any
//! other.

use flyball_types::ApiError;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

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
    pub group: String,
    pub version: String,
    /// Empty for a cluster-scoped object and for all namespaces.
    pub namespace: String,
    pub plural: String,
    /// Empty for a list.
    pub name: String,
    /// Empty for the object itself.
    pub subresource: String,
}

/// The characters of a path that need no escape.
const PLAIN: &str = "-._~:*";
/// The characters that are escaped in a path.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':')
    .remove(b'*');

impl RawPath {
    /// Parses a path. Also returns the path to request. It is built from the parsed segments, escaped anew, so that the
    /// server reads it as it was checked.
    ///
    /// # Errors
    /// `Invalid` if it is not an absolute path with one meaning. Names of metrics have characters that need escapes, so
    /// a segment may hold escapes, except for `/`, `%` or other characters that servers treat differently. Also refused
    /// are paths with an empty segment, `.` or `..`, and paths that open a watch or a proxy.
    pub(crate) fn parse(path: &str) -> Result<(Self, String), ApiError> {
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
        let slash = if relative.ends_with('/') { "/" } else { "" };
        let segments: Option<Vec<String>> = relative
            .strip_suffix('/')
            .unwrap_or(relative)
            .split('/')
            .map(segment)
            .collect();
        let segments = segments
            .ok_or_else(|| invalid("a segment holds a special character, or an escape of one"))?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        if segments.len() > 1
            && segments
                .iter()
                .any(|segment| matches!(*segment, "" | "." | ".."))
        {
            return Err(invalid("it has an empty segment, `.` or `..`"));
        }
        let target = Self::of_segments(&segments).map_err(invalid)?;
        let mut request = String::new();
        for segment in segments {
            request.push('/');
            request.extend(utf8_percent_encode(segment, ESCAPED));
        }
        request.push_str(slash);
        Ok((target, request))
    }

    /// Fails with the mistake.
    fn of_segments(segments: &[&str]) -> Result<Self, &'static str> {
        let (group, version, rest) = match *segments {
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
            ["watch" | "proxy", ..] => Err("it opens a watch or a proxy"),
            [_, _, "proxy" | "exec" | "attach" | "portforward", ..] => {
                Err("it opens a connection to another server")
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

/// Returns a segment without its escapes; none if it holds a character that a path must not.
fn segment(text: &str) -> Option<String> {
    let is_literal = |c: char| c.is_ascii_alphanumeric() || PLAIN.contains(c) || "|%".contains(c);
    let is_allowed = |c: char| !c.is_control() && !"/%?#\\;".contains(c);
    let is_escape = |after: &str| {
        let digits = after.get(..2).unwrap_or_default();
        digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    if !text.chars().all(is_literal) || !text.split('%').skip(1).all(is_escape) {
        return None;
    }
    let decoded = percent_decode_str(text).decode_utf8().ok()?;
    decoded
        .chars()
        .all(is_allowed)
        .then(|| decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> [String; 6] {
        match RawPath::parse(path).expect(path).0 {
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
    fn a_segment_is_checked_without_its_escapes_and_sent_with_them() {
        let metric = "/apis/external.metrics.k8s.io/v1beta1/namespaces/a/";
        for (path, plural, request) in [
            ("sqs|depth", "sqs|depth", "sqs%7Cdepth"),
            ("%73ecrets", "secrets", "secrets"),
            ("m%40a:b", "m@a:b", "m%40a:b"),
            ("%2A", "*", "*"),
            ("%c3%a4%20b", "ä b", "%C3%A4%20b"),
        ] {
            let found = RawPath::parse(&format!("{metric}{path}"));
            let (found, sent) = found.expect(path);
            let RawPath::Resource(found) = found else {
                panic!("{path} is not of a resource");
            };
            assert_eq!(
                (found.plural.as_str(), sent),
                (plural, format!("{metric}{request}"))
            );
        }
        let (found, request) = RawPath::parse("/api/v1/%6eamespaces/%61/secrets/").unwrap();
        assert_eq!(request, "/api/v1/namespaces/a/secrets/");
        assert!(matches!(found, RawPath::Resource(found) if found.namespace == "a"));
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
            let found = RawPath::parse(path);
            assert_eq!(found, Ok((RawPath::Other, path.to_owned())), "{path}");
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
            "/api/v1/pods%2Fa",
            "/api/v1/pods%3Fwatch=1",
            "/api/v1/pods%23a",
            "/api/v1/pods%3Ba",
            "/api/v1/%5Cpods",
            "/api/v1/pods%0A",
            "/api/v1/pods%00",
            "/api/v1/%252e%252e",
            "/api/v1/%2e%2e/secrets",
            "/api/v1/%2E",
            "/api/v1/%",
            "/api/v1/%7",
            "/api/v1/%zz",
            "/api/v1/%+1",
            "/api/v1/%ff",
            "/api/v1/p%",
            "/api/v1/%77atch/secrets",
            "/api/v1/nodes/a/prox%79",
            "/api/v1/pods@a",
            "/api/v1/ä",
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
                RawPath::parse(path).map(drop).map_err(|error| error.reason),
                Err("Invalid".into()),
                "{path}"
            );
        }
    }
}
