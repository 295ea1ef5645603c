//! The address of a package: `oci://registry.example.com/team/greeter:1.0.0@sha256:…`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use oci_client::Reference;

use crate::Options;

/// The scheme of a package's address.
const SCHEME: &str = "oci://";
/// The maximum length of a repository's name in bytes.
const MAX_REPOSITORY: usize = 255;
/// The maximum length of a tag in bytes.
const MAX_TAG: usize = 128;

/// The address of a package: a registry, a repository, and a tag, a digest or both. A digest identifies the package's
/// bytes; a tag may be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageReference {
    /// Boxed, since errors contain it.
    reference: Box<Reference>,
}

/// A text is not the address of a package. A retry can't help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not the address of a package: {problem}; write it as `oci://registry.example.com/team/name:tag`"
)]
pub struct AddressError {
    pub text: String,
    pub problem: &'static str,
}

impl PackageReference {
    /// The registry's host and port, for example `registry.example.com:5000`.
    pub fn registry(&self) -> &str {
        self.reference.registry()
    }

    /// The repository's name in the registry, for example `team/greeter`.
    pub fn repository(&self) -> &str {
        self.reference.repository()
    }

    pub fn tag(&self) -> Option<&str> {
        self.reference.tag()
    }

    /// The digest of the manifest, if the address is pinned to one.
    pub fn digest(&self) -> Option<&str> {
        self.reference.digest()
    }

    /// The same package, pinned to this digest.
    pub fn pinned(&self, digest: &str) -> Self {
        Self {
            reference: Box::new(self.reference.clone_with_digest(digest.into())),
        }
    }

    pub(crate) fn reference(&self) -> &Reference {
        &self.reference
    }

    /// The reference of another manifest in the repository, by its tag.
    pub(crate) fn with_tag(&self, tag: String) -> Reference {
        Reference::with_tag(self.registry().into(), self.repository().into(), tag)
    }

    /// Whether the registry is reached without TLS.
    pub(crate) fn is_plain_http(&self, options: &Options) -> bool {
        options.plain_http || self.is_loopback()
    }

    /// Whether the registry is on a loopback address.
    fn is_loopback(&self) -> bool {
        let host = self
            .registry()
            .rsplit_once(':')
            .map_or(self.registry(), |(host, _)| host);
        host == "localhost"
            || host
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for PackageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.reference.whole())
    }
}

/// Parses `oci://REGISTRY/REPOSITORY[:TAG][@DIGEST]` by the grammar of the OCI distribution specification. (The parser
/// of oci-client is a regular expression that takes 20 MiB of memory for as long as the process runs.)
impl FromStr for PackageReference {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        parse(text).map_err(|problem| AddressError {
            text: text.into(),
            problem,
        })
    }
}

fn parse(text: &str) -> Result<PackageReference, &'static str> {
    let rest = text
        .strip_prefix(SCHEME)
        .ok_or("it does not begin with `oci://`")?;
    let (registry, rest) = rest.split_once('/').ok_or("it names no repository")?;
    // Docker takes any other first part for a repository in its own registry.
    if (registry != "localhost" && !registry.contains(['.', ':'])) || !is_registry(registry) {
        return Err("its first part is not a registry");
    }
    let (rest, digest) = match rest.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (rest, None),
    };
    let (repository, tag) = match rest.split_once(':') {
        Some((repository, tag)) => (repository, Some(tag)),
        None => (rest, None),
    };
    if repository.len() > MAX_REPOSITORY || !repository.split('/').all(is_component) {
        return Err(
            "its repository is not lower-case letters and digits, separated by `/`, `.`, `_`, `__` or `-`",
        );
    }
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Err("its tag is not up to 128 letters, digits, `_`, `.` and `-`");
    }
    if digest.is_some_and(|digest| !is_sha256(digest)) {
        return Err("its digest is not `sha256:` and 64 hex digits");
    }
    let (registry, repository) = (registry.to_owned(), repository.to_owned());
    let reference = match (tag.map(str::to_owned), digest.map(str::to_owned)) {
        (Some(tag), Some(digest)) => {
            Reference::with_tag_and_digest(registry, repository, tag, digest)
        }
        (Some(tag), None) => Reference::with_tag(registry, repository, tag),
        (None, Some(digest)) => Reference::with_digest(registry, repository, digest),
        (None, None) => return Err("it names neither a tag nor a digest"),
    };
    Ok(PackageReference {
        reference: Box::new(reference),
    })
}

/// Whether a text is a host name or an IPv4 address, with or without a port.
fn is_registry(text: &str) -> bool {
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_port =
        |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok();
    host.split('.').all(is_label) && port.is_none_or(is_port)
}

/// Whether a text may stand between two slashes of a repository's name.
fn is_component(text: &str) -> bool {
    let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    // The texts between two alphanumeric characters: empty, or a separator.
    let mut separators = text.split(is_alphanumeric);
    text.starts_with(is_alphanumeric)
        && text.ends_with(is_alphanumeric)
        && separators.all(|separator| {
            matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|b| b == b'-')
        })
}

fn is_tag(text: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    (1..=MAX_TAG).contains(&text.len())
        && text.bytes().all(is_inner)
        && !text.starts_with(['.', '-'])
}

fn is_sha256(digest: &str) -> bool {
    digest.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Addresses of parts that are mostly valid.
    fn addresses() -> impl Strategy<Value = String> {
        let registry = "(localhost|[a-cA-C0-9.-]{1,6}(\\.[a-c]{1,3})?)(:[0-9]{1,5})?";
        let repository = "[a-c0-9]{1,3}([./_A-]{0,3}[a-c0-9]{1,2}){0,3}";
        let tag = "(:[a-cA-C0-9_.-]{0,130})?";
        let digest = "(@sha256:([0-9a-f]{64}|[0-9a-g]{0,66}))?";
        let pattern = format!("{registry}/{repository}{tag}{digest}");
        prop::string::string_regex(&pattern).expect("it is a regular expression")
    }

    proptest! {
        #[test]
        fn addresses_are_those_that_oci_client_takes(text in addresses()) {
            let own = format!("{SCHEME}{text}").parse::<PackageReference>();
            let has_version = text.split_once('/').is_some_and(|(_, rest)| rest.contains([':', '@']));
            let is_other = own.as_ref().is_err_and(|error| error.to_string().contains("not a registry"));
            match (own, text.parse::<Reference>()) {
                (Ok(own), Ok(theirs)) => prop_assert_eq!(*own.reference, theirs),
                (Ok(_), Err(error)) => prop_assert!(false, "{} is accepted: {}", text, error),
                // Theirs adds the tag `latest`, and Docker's registry.
                (Err(_), Ok(_)) if !has_version || is_other => {}
                (Err(error), Ok(_)) => prop_assert!(false, "{}", error),
                (Err(_), Err(_)) => {}
            }
        }
    }

    #[test]
    fn an_address_is_displayed_as_it_was_parsed() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for text in [
            "oci://r.example.com/a/b:1.0",
            "oci://127.0.0.1:5000/a:x",
            &format!("oci://localhost:1/a@{digest}"),
        ] {
            let source: PackageReference = text.parse().unwrap();
            assert_eq!(source.to_string(), text);
        }
        let both: PackageReference = format!("oci://r.example.com/a:1@{digest}").parse().unwrap();
        assert_eq!(
            (both.tag(), both.digest()),
            (Some("1"), Some(digest.as_str()))
        );
    }

    #[test]
    fn an_invalid_address_is_refused_with_the_reason() {
        for (text, problem) in [
            ("r.example.com/a:1", "does not begin"),
            ("oci://r.example.com", "no repository"),
            ("oci://team/greeter:1", "not a registry"),
            ("oci://r.example.com/a", "neither a tag nor a digest"),
            ("oci://r.example.com:5000/a", "neither a tag nor a digest"),
            ("oci://r.example.com/a@sha256:abc", ""),
            ("oci://r.example.com/A:1", ""),
            ("oci://r.example.com/../a:1", ""),
        ] {
            let error = text.parse::<PackageReference>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains(problem), "{error}");
        }
    }

    #[test]
    fn only_loopback_addresses_are_loopback() {
        for (registry, expected) in [
            ("localhost:5000", true),
            ("127.0.0.1:5000", true),
            ("127.8.8.8:1", true),
            ("localhost.example.com:5000", false),
            ("10.0.0.1:5000", false),
        ] {
            let source: PackageReference = format!("oci://{registry}/a:1").parse().unwrap();
            assert_eq!(source.is_loopback(), expected, "{registry}");
        }
    }
}
