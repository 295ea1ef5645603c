//! The address of a package: `oci://registry.example.com/team/greeter:1.0.0@sha256:…`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use oci_client::Reference;

use crate::{Options, RegistryError};

/// The scheme of a package's address.
const SCHEME: &str = "oci://";

/// The address of a package: a registry, a repository, and a tag, a digest or both. A digest
/// identifies the package's bytes; a tag may be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageReference {
    /// Boxed, since errors contain it.
    reference: Box<Reference>,
}

impl PackageReference {
    /// As in `registry.example.com:5000`.
    pub fn registry(&self) -> &str {
        self.reference.registry()
    }

    /// As in `team/greeter`.
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

    pub(crate) fn tampered(&self, what: &'static str, expected: &str) -> RegistryError {
        RegistryError::Digest {
            package: self.clone(),
            what,
            expected: expected.into(),
        }
    }
}

impl fmt::Display for PackageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.reference.whole())
    }
}

impl FromStr for PackageReference {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, RegistryError> {
        let fail = |problem: &str| RegistryError::Address {
            text: text.into(),
            problem: problem.into(),
        };
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| fail("it does not begin with `oci://`"))?;
        let registry = rest
            .split_once('/')
            .ok_or_else(|| fail("it names no repository"))?
            .0;
        // Otherwise the parser would take the first part for a repository in Docker's registry.
        if registry != "localhost" && !registry.contains(['.', ':']) {
            return Err(fail("its first part is not a registry"));
        }
        let name = &rest[registry.len() + 1..];
        if !name.contains([':', '@']) {
            return Err(fail("it names neither a tag nor a digest"));
        }
        let reference: Reference = rest.parse().map_err(|error| fail(&format!("{error}")))?;
        let is_sha256 = |digest: &str| {
            digest.strip_prefix("sha256:").is_some_and(|hex| {
                hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
            })
        };
        if reference.digest().is_some_and(|digest| !is_sha256(digest)) {
            return Err(fail("its digest is not `sha256:` and 64 hex digits"));
        }
        Ok(Self {
            reference: Box::new(reference),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
