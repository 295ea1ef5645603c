//! `/flagz` and `/statusz`: the flags and the state of the process, as text for people and as objects of the group
//! `config.k8s.io` for tools that ask for them (KEP-4828, KEP-4827).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{ACCEPT, HeaderName, HeaderValue, USER_AGENT};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::metrics::process_start_time;
use crate::response::{FullResponse, response, status, text};

/// The group of the objects.
const GROUP: &str = "config.k8s.io";
/// Versions of the objects, and whether they are deprecated.
const VERSIONS: [(&str, bool); 2] = [("v1alpha1", true), ("v1beta1", false)];
/// The media types in the order of preference.
const MEDIA_TYPES: [&str; 4] = ["application/json", "application/yaml", "text/plain", CBOR];
/// Served behind the gate `CBORServingAndStorage`.
const CBOR: &str = "application/cbor";

/// The versions that `/statusz` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildVersions {
    /// The compiler's version.
    pub compiler: String,
    /// The version of Kubernetes that the component belongs to, with its patch.
    pub binary: String,
    /// The version of Kubernetes that is emulated, without its patch.
    pub emulation: String,
}

/// The two pages. A page that is `None` is not served.
#[derive(Clone, Debug, Default)]
pub struct ZPages {
    /// The component's name, as in `kube-controller-manager`.
    pub component: String,
    /// The flags with their values.
    pub flags: Option<BTreeMap<String, String>>,
    /// Whether objects are also served in CBOR.
    pub speaks_cbor: bool,
    pub versions: Option<BuildVersions>,
    /// The paths that `/statusz` names.
    pub paths: Vec<String>,
}

/// A page as an object without its type, and as text.
struct Page {
    kind: &'static str,
    object: Value,
    text: String,
}

impl ZPages {
    /// Responds to a request for `flagz`; none if it is not served.
    pub(crate) fn flagz(&self, query: &str, headers: &HeaderMap) -> Option<FullResponse> {
        let flags = self.flags.as_ref()?;
        let mut text = self.header("flagz");
        for (name, value) in flags {
            let _ = writeln!(text, "{name}={value}");
        }
        let page = Page {
            kind: "Flagz",
            object: json!({"metadata": {"name": self.component}, "flags": flags}),
            text,
        };
        Some(page.respond("flagz", self.media_types(), query, headers))
    }

    /// Responds to a request for `statusz`; none if it is not served.
    pub(crate) fn statusz(&self, query: &str, headers: &HeaderMap) -> Option<FullResponse> {
        let versions = self.versions.as_ref()?;
        let start = UNIX_EPOCH
            + Duration::from_secs_f64(process_start_time().unwrap_or_default().max(0.0).trunc());
        let up = SystemTime::now().duration_since(start).unwrap_or_default();
        let page = self.status_page(versions, start, up.as_secs());
        Some(page.respond("statusz", self.media_types(), query, headers))
    }

    fn media_types(&self) -> &'static [&'static str] {
        match self.speaks_cbor {
            true => &MEDIA_TYPES,
            false => &MEDIA_TYPES[..3],
        }
    }

    fn status_page(&self, versions: &BuildVersions, start: SystemTime, up: u64) -> Page {
        let BuildVersions {
            compiler,
            binary,
            emulation,
        } = versions;
        let start = Timestamp::try_from(start).unwrap_or_default();
        // The format of Go's `time.UnixDate`.
        let started = start.strftime("%a %b %e %H:%M:%S UTC %Y");
        let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
        let mut text = self.header("statusz");
        let _ = write!(
            text,
            "\nStarted: {started}\nUp: {hours} hr {minutes:02} min {seconds:02} sec\nGo version: {compiler}\n\
             Binary version: {binary}\nEmulation version: {emulation}\nPaths: {}\n",
            self.paths.join(" ")
        );
        let object = json!({
            "metadata": {"name": self.component},
            "startTime": start.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "uptimeSeconds": up,
            "goVersion": compiler,
            "binaryVersion": binary,
            "emulationVersion": emulation,
            "paths": self.paths,
        });
        Page {
            kind: "Statusz",
            object,
            text,
        }
    }

    fn header(&self, page: &str) -> String {
        format!(
            "\n{} {page}\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
             guarantees and is for debugging purposes only.\n",
            self.component
        )
    }
}

impl Page {
    fn respond(
        self,
        name: &str,
        media_types: &'static [&'static str],
        query: &str,
        headers: &HeaderMap,
    ) -> FullResponse {
        let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
        let accept = accept.unwrap_or_default().trim();
        if accept.is_empty() {
            return text(StatusCode::OK, self.text);
        }
        let Some(accepted) = negotiate(accept, self.kind, media_types) else {
            let message = format!(
                "only the following media types are accepted: {}",
                media_types.join(", ")
            );
            return status(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", &message);
        };
        let Some((version, is_deprecated)) = accepted.version else {
            return text(StatusCode::OK, self.text);
        };
        let mut object = self.object;
        object["kind"] = self.kind.into();
        object["apiVersion"] = format!("{GROUP}/{version}").into();
        let body = match accepted.media_type {
            CBOR => cbor(&object),
            "application/yaml" => yaml(&object).into_bytes(),
            _ if accepted.is_pretty || is_pretty(query, headers) => {
                format!("{object:#}").into_bytes()
            }
            _ => format!("{object}\n").into_bytes(),
        };
        let content_type = format!(
            "{};g={GROUP};v={version};as={}",
            accepted.media_type, self.kind
        );
        let mut response = response(StatusCode::OK, &content_type, body);
        if is_deprecated {
            let warning = format!(
                "299 - \"This version of the {name} endpoint is deprecated. Please use a newer version.\""
            );
            if let Ok(warning) = HeaderValue::from_str(&warning) {
                let header = HeaderName::from_static("warning");
                response.headers_mut().insert(header, warning);
            }
        }
        response
    }
}

/// A media type that the client accepts.
#[derive(Debug, PartialEq)]
struct Accepted {
    media_type: &'static str,
    /// The version of the object, and whether it is deprecated; none for text.
    version: Option<(&'static str, bool)>,
    is_pretty: bool,
}

/// Returns the representation that the client prefers among those served, or `None` if it accepts none of them. An
/// object must be requested by its kind and version: `application/json;as=Flagz;v=v1beta1;g=config.k8s.io`.
fn negotiate(accept: &str, kind: &str, media_types: &'static [&'static str]) -> Option<Accepted> {
    let mut clauses: Vec<Clause> = accept.split(',').filter_map(Clause::parse).collect();
    // A stable sort: of equally preferred types, the first counts.
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    clauses.iter().find_map(|clause| {
        let of_type = media_types.iter().filter(|media| clause.matches(media));
        of_type.copied().find_map(|media_type| {
            let version = match media_type {
                "text/plain" if clause.target.is_none() => None,
                "text/plain" => return None,
                _ => Some(clause.version(kind)?),
            };
            Some(Accepted {
                media_type,
                version,
                is_pretty: clause.is_pretty,
            })
        })
    })
}

/// One media range of an `Accept` header.
struct Clause<'a> {
    media_type: &'a str,
    quality: f64,
    /// Group, version and kind, if any of them is asked for.
    target: Option<[&'a str; 3]>,
    is_pretty: bool,
    /// Whether the client asks for a stream or a version of the server, which these pages don't have.
    is_impossible: bool,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let mut clause = Self {
            media_type: parts.next().filter(|media| media.contains('/'))?,
            quality: 1.0,
            target: None,
            is_pretty: false,
            is_impossible: false,
        };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            let mut target = |at: usize| clause.target.get_or_insert_default()[at] = value;
            match key {
                "q" => clause.quality = value.parse().unwrap_or(1.0),
                "g" => target(0),
                "v" => target(1),
                "as" => target(2),
                "pretty" => clause.is_pretty = value == "1",
                "stream" | "sv" if !value.is_empty() => clause.is_impossible = true,
                _ => {}
            }
        }
        Some(clause)
    }

    fn matches(&self, media_type: &str) -> bool {
        let kind = media_type
            .split_once('/')
            .map_or(media_type, |(kind, _)| kind);
        let any = self.media_type.strip_suffix("/*");
        !self.is_impossible
            && (self.media_type == media_type || any.is_some_and(|own| own == "*" || own == kind))
    }

    fn version(&self, kind: &str) -> Option<(&'static str, bool)> {
        let [group, version, own_kind] = self.target?;
        let is_known = group == GROUP && own_kind == kind;
        VERSIONS
            .into_iter()
            .find(|(known, _)| is_known && *known == version)
    }
}

/// Whether the client is a person: the client says so, or it is a browser or a well-known tool.
fn is_pretty(query: &str, headers: &HeaderMap) -> bool {
    let asked = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "pretty");
    if let Some((_, value)) = asked.filter(|(_, value)| !value.is_empty()) {
        return matches!(&*value, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = headers
        .get(USER_AGENT)
        .and_then(|agent| agent.to_str().ok());
    let agent = agent.unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"]
        .iter()
        .any(|known| agent.starts_with(known))
}

/// Writes an object of texts, natural numbers, lists and objects as CBOR (RFC 8949), with the tag of self-described
/// CBOR. Like in Kubernetes (KEP-4222), texts are byte strings.
fn cbor(object: &Value) -> Vec<u8> {
    let mut bytes = vec![0xd9, 0xd9, 0xf7];
    write_cbor(object, &mut bytes);
    bytes
}

fn write_cbor(value: &Value, to: &mut Vec<u8>) {
    // Major types.
    let [number_type, bytes_type, array_type, map_type] = [0, 2, 4, 5];
    let text = |text: &str, to: &mut Vec<u8>| {
        cbor_head(bytes_type, text.len() as u64, to);
        to.extend_from_slice(text.as_bytes());
    };
    match value {
        Value::String(own) => text(own, to),
        Value::Array(items) => {
            cbor_head(array_type, items.len() as u64, to);
            items.iter().for_each(|item| write_cbor(item, to));
        }
        Value::Object(fields) => {
            cbor_head(map_type, fields.len() as u64, to);
            for (name, value) in fields {
                text(name, to);
                write_cbor(value, to);
            }
        }
        Value::Number(number) => cbor_head(number_type, number.as_u64().unwrap_or_default(), to),
        // Null. These pages have neither.
        Value::Null | Value::Bool(_) => to.push(0xf6),
    }
}

/// Writes the major type and the argument of a data item.
fn cbor_head(major: u8, argument: u64, to: &mut Vec<u8>) {
    let bytes = argument.to_be_bytes();
    let (info, length) = match argument {
        0..24 => (bytes[7], 0),
        24..=0xff => (24, 1),
        0x100..=0xffff => (25, 2),
        0x1_0000..=0xffff_ffff => (26, 4),
        _ => (27, 8),
    };
    to.push(major << 5 | info);
    to.extend_from_slice(&bytes[8 - length..]);
}

/// Writes an object of texts, numbers, lists and objects as YAML.
fn yaml(object: &Value) -> String {
    let mut text = String::new();
    write_yaml(object, 0, &mut text);
    text
}

fn write_yaml(value: &Value, depth: usize, to: &mut String) {
    let Value::Object(fields) = value else {
        return;
    };
    let indent = "  ".repeat(depth);
    for (name, value) in fields {
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                let _ = writeln!(to, "{indent}{name}:");
                write_yaml(value, depth + 1, to);
            }
            Value::Array(items) if !items.is_empty() => {
                let _ = writeln!(to, "{indent}{name}:");
                for item in items {
                    let _ = writeln!(to, "{indent}- {item}");
                }
            }
            // A JSON text is a YAML text in double quotes.
            plain => {
                let _ = writeln!(to, "{indent}{name}: {plain}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> ZPages {
        ZPages {
            component: "kube-controller-manager".to_owned(),
            flags: Some(
                [("v", "2"), ("kubeconfig", "/a")]
                    .map(|(a, b)| (a.into(), b.into()))
                    .into(),
            ),
            speaks_cbor: false,
            versions: Some(BuildVersions {
                compiler: "rustc".to_owned(),
                binary: "1.37.2".to_owned(),
                emulation: "1.37".to_owned(),
            }),
            paths: vec!["/healthz".to_owned(), "/metrics".to_owned()],
        }
    }

    fn chosen(accept: &str) -> Option<(&'static str, Option<&'static str>)> {
        let accepted = negotiate(accept, "Flagz", &MEDIA_TYPES)?;
        Some((
            accepted.media_type,
            accepted.version.map(|(version, _)| version),
        ))
    }

    #[test]
    fn text_is_served_unless_an_object_is_asked_for_by_kind_and_version() {
        let text = Some(("text/plain", None));
        assert_eq!(chosen("*/*"), text);
        assert_eq!(chosen("text/html, text/*;q=0.5"), text);
        let object = "application/json;as=Flagz;v=v1beta1;g=config.k8s.io";
        assert_eq!(chosen(object), Some(("application/json", Some("v1beta1"))));
        let yaml = "application/yaml;g=config.k8s.io;v=v1alpha1;as=Flagz";
        assert_eq!(
            chosen(&format!("{object};q=0.1,{yaml}")),
            Some(("application/yaml", Some("v1alpha1")))
        );
        for refused in [
            "application/json",
            "text/html",
            "application/json;as=Statusz;v=v1beta1;g=config.k8s.io",
            "application/json;as=Flagz;v=v2;g=config.k8s.io",
            "text/plain;as=Flagz;v=v1beta1;g=config.k8s.io",
            "application/vnd.kubernetes.protobuf;as=Flagz;v=v1beta1;g=config.k8s.io",
        ] {
            assert_eq!(chosen(refused), None, "{refused}");
        }
    }

    fn accept(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, value.parse().unwrap());
        headers
    }

    #[test]
    fn a_type_that_is_not_served_is_refused_with_those_that_are() {
        let response = pages().flagz("", &accept("image/png")).unwrap();
        assert_eq!(response.status(), StatusCode::NOT_ACCEPTABLE);
    }

    #[test]
    fn a_deprecated_version_comes_with_a_warning() {
        let of = |version: &str| {
            let accept = accept(&format!(
                "application/json;as=Statusz;g=config.k8s.io;v={version}"
            ));
            pages().statusz("", &accept).unwrap()
        };
        assert_eq!(
            of("v1alpha1").headers()["warning"],
            "299 - \"This version of the statusz endpoint is deprecated. Please use a newer version.\""
        );
        let current = of("v1beta1");
        assert!(!current.headers().contains_key("warning"));
        assert_eq!(
            current.headers()["content-type"],
            "application/json;g=config.k8s.io;v=v1beta1;as=Statusz"
        );
    }

    #[test]
    fn cbor_is_spoken_behind_its_gate() {
        let asked = accept("application/cbor;as=Flagz;v=v1beta1;g=config.k8s.io");
        let refused = pages().flagz("", &asked).unwrap();
        assert_eq!(refused.status(), StatusCode::NOT_ACCEPTABLE);
        let pages = ZPages {
            speaks_cbor: true,
            ..pages()
        };
        let served = pages.flagz("", &asked).unwrap();
        assert_eq!(
            served.headers()["content-type"],
            "application/cbor;g=config.k8s.io;v=v1beta1;as=Flagz"
        );
    }

    #[test]
    fn objects_are_written_as_self_described_cbor() {
        let object = json!({"a": [1, 24, 500, 70_000, 5_000_000_000_u64], "b": "x".repeat(30)});
        let mut expected = b"\xd9\xd9\xf7\xa2\x41a\x85\x01\x18\x18\x19\x01\xf4".to_vec();
        expected.extend(b"\x1a\x00\x01\x11\x70\x1b\x00\x00\x00\x01\x2a\x05\xf2\x00");
        expected.extend(b"\x41b\x58\x1e");
        expected.extend([b'x'; 30]);
        assert_eq!(cbor(&object), expected);
    }

    #[test]
    fn a_page_that_is_off_is_not_served() {
        let off = ZPages::default();
        assert!(off.flagz("", &HeaderMap::new()).is_none());
        assert!(off.statusz("", &HeaderMap::new()).is_none());
    }

    #[test]
    fn the_state_is_shown_as_text_and_as_an_object() {
        let pages = pages();
        let start = UNIX_EPOCH + Duration::from_secs(1_767_225_600);
        let page = pages.status_page(pages.versions.as_ref().unwrap(), start, 3_725);
        assert_eq!(
            page.text,
            "\nkube-controller-manager statusz\nWarning: This endpoint is not meant to be machine parseable, has no \
             formatting compatibility guarantees and is for debugging purposes only.\n\nStarted: Thu Jan  1 00:00:00 UTC \
             2026\nUp: 1 hr 02 min 05 sec\nGo version: rustc\nBinary version: 1.37.2\nEmulation version: 1.37\nPaths: \
             /healthz /metrics\n"
        );
        assert_eq!(
            yaml(&page.object),
            "binaryVersion: \"1.37.2\"\nemulationVersion: \"1.37\"\ngoVersion: \"rustc\"\nmetadata:\n  name: \
             \"kube-controller-manager\"\npaths:\n- \"/healthz\"\n- \"/metrics\"\nstartTime: \
             \"2026-01-01T00:00:00Z\"\nuptimeSeconds: 3725\n"
        );
    }
}
