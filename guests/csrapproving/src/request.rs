//! The view of a CertificateSigningRequest, and what its PKCS#10 document requests.

use std::collections::BTreeMap;
use std::fmt;

use flyball_sdk::base64;
use flyball_sdk::prelude::*;
use x509_cert::der::asn1::{Any, BmpString, ObjectIdentifier};
use x509_cert::der::{Decode, Tag, Tagged};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::request::{CertReq, ExtensionReq};

/// The label of the PEM of a request.
const LABEL: &str = "CERTIFICATE REQUEST";
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
/// The attribute that holds the requested extensions.
const EXTENSIONS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.14");
const ALTERNATIVE_NAMES: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");

/// A CertificateSigningRequest.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "certificates.k8s.io/v1/CertificateSigningRequest")]
pub struct Csr {
    #[view(path = "metadata", fields())]
    pub meta: Meta,
    /// PEM, in base64.
    #[view(path = "spec.request")]
    pub request: String,
    #[view(path = "spec.signerName")]
    pub signer: String,
    #[view(path = "spec.usages")]
    pub usages: Vec<String>,
    /// The user who created it.
    #[view(path = "spec.username")]
    pub username: String,
    #[view(path = "spec.uid")]
    pub uid: String,
    #[view(path = "spec.groups")]
    pub groups: Vec<String>,
    #[view(path = "spec.extra")]
    pub extra: BTreeMap<String, Vec<String>>,
    /// PEM, in base64; empty until it is signed.
    #[view(path = "status.certificate")]
    pub certificate: String,
    #[view(path = "status.conditions")]
    pub conditions: Vec<Value>,
}

impl Csr {
    /// Whether it is signed, approved or denied.
    pub fn is_decided(&self) -> bool {
        let decides = |condition: &Value| {
            ["Approved", "Denied"]
                .iter()
                .any(|one| condition["type"] == *one)
        };
        !self.certificate.is_empty() || self.conditions.iter().any(decides)
    }
}

/// What a request asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requested {
    /// The last common name of the subject.
    pub common_name: String,
    /// All organizations of the subject.
    pub organizations: Vec<String>,
    /// Whether it names a DNS name, an e-mail address, an IP address or a URI.
    pub has_alternative_names: bool,
}

/// Why a request can't be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// It is not base64 of PEM with the label of requests.
    NotPem,
    /// It is not a PKCS#10 document.
    NotPkcs10(x509_cert::der::Error),
}

impl From<x509_cert::der::Error> for RequestError {
    fn from(error: x509_cert::der::Error) -> Self {
        Self::NotPkcs10(error)
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPem => write!(f, "it is not PEM of a {LABEL}"),
            Self::NotPkcs10(error) => write!(f, "it is not a PKCS#10 document: {error}"),
        }
    }
}

impl std::error::Error for RequestError {}

impl Requested {
    /// Parses base64 of PEM.
    ///
    /// # Errors
    /// It is not a PKCS#10 document in PEM.
    pub fn parse(request: &str) -> Result<Self, RequestError> {
        let text = base64::decode(request).ok_or(RequestError::NotPem)?;
        let pem = pem::parse(text).map_err(|_| RequestError::NotPem)?;
        if pem.tag() != LABEL {
            return Err(RequestError::NotPem);
        }
        let CertReq { info, .. } = CertReq::from_der(pem.contents())?;
        let mut requested = Self::default();
        for part in info.subject.iter() {
            let Some(text) = text_of(&part.value) else {
                continue;
            };
            match part.oid {
                COMMON_NAME => requested.common_name = text,
                ORGANIZATION => requested.organizations.push(text),
                _ => {}
            }
        }
        for attribute in info.attributes.iter().filter(|one| one.oid == EXTENSIONS) {
            let Some(first) = attribute.values.iter().next() else {
                continue;
            };
            for extension in first.decode_as::<ExtensionReq>()?.0 {
                if extension.extn_id == ALTERNATIVE_NAMES {
                    let names = SubjectAltName::from_der(extension.extn_value.as_bytes())?;
                    requested.has_alternative_names |= names.0.iter().any(is_usual);
                }
            }
        }
        Ok(requested)
    }
}

/// Whether a kubelet's client certificate may not have such a name. As in Kubernetes, unusual names don't count.
fn is_usual(name: &GeneralName) -> bool {
    matches!(
        name,
        GeneralName::Rfc822Name(_)
            | GeneralName::DnsName(_)
            | GeneralName::UniformResourceIdentifier(_)
            | GeneralName::IpAddress(_)
    )
}

/// The text of a part of a subject; none if it is of a type without text.
fn text_of(value: &Any) -> Option<String> {
    match value.tag() {
        Tag::Utf8String
        | Tag::PrintableString
        | Tag::Ia5String
        | Tag::NumericString
        | Tag::TeletexString => Some(String::from_utf8_lossy(value.value()).into_owned()),
        Tag::BmpString => Some(value.decode_as::<BmpString>().ok()?.to_string()),
        _ => None,
    }
}
