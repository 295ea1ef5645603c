//! Certificates that authorities of the host sign: [`Host::sign_certificate`](crate::Host::sign_certificate).

use std::ops::{BitOr, BitOrAssign};

use crate::time::Time;

/// The content of a certificate. The host adds a random serial number, the issuer, and the constraint that the subject
/// isn't an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateTemplate {
    pub key: SubjectKey,
    /// The subject's relative names, in order; each is a set of attributes.
    pub subject: Vec<Vec<Attribute>>,
    pub dns_names: Vec<String>,
    pub email_addresses: Vec<String>,
    /// IP addresses, as in `10.0.0.1` or `fd00::1`.
    pub ip_addresses: Vec<String>,
    pub uris: Vec<String>,
    pub key_usages: KeyUsages,
    /// Object identifiers in dotted form: `1.3.6.1.5.5.7.3.2` is client authentication.
    pub extended_key_usages: Vec<String>,
    /// The start of the validity. The fraction of a second is dropped, and a time before 1970 becomes 1970.
    pub not_before: Time,
    /// The end of the validity, with the same restrictions as `not_before`. The host shortens it to the validity of the
    /// authority.
    pub not_after: Time,
}

/// The key that a certificate is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectKey {
    /// A `SubjectPublicKeyInfo` in DER. The caller has checked that the subject holds the private key.
    PublicKey(Vec<u8>),
    /// A PKCS#10 request in DER. The host checks its signature, and takes nothing from it but the public key.
    Request(Vec<u8>),
}

/// An attribute of a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The object identifier of the attribute's type in dotted form.
    pub oid: String,
    pub value: String,
}

impl Attribute {
    /// The type of common names. Kubernetes takes a client's user name from them.
    pub const COMMON_NAME: &str = "2.5.4.3";
    /// The type of organizations. Kubernetes takes a client's groups from them.
    pub const ORGANIZATION: &str = "2.5.4.10";

    pub fn new(oid: &str, value: impl Into<String>) -> Self {
        Self {
            oid: oid.into(),
            value: value.into(),
        }
    }
}

/// A set of the purposes that X.509 defines for a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyUsages(u16);

impl KeyUsages {
    pub const DIGITAL_SIGNATURE: Self = Self(1);
    pub const CONTENT_COMMITMENT: Self = Self(1 << 1);
    pub const KEY_ENCIPHERMENT: Self = Self(1 << 2);
    pub const DATA_ENCIPHERMENT: Self = Self(1 << 3);
    pub const KEY_AGREEMENT: Self = Self(1 << 4);
    pub const CERT_SIGN: Self = Self(1 << 5);
    pub const CRL_SIGN: Self = Self(1 << 6);
    pub const ENCIPHER_ONLY: Self = Self(1 << 7);
    pub const DECIPHER_ONLY: Self = Self(1 << 8);

    /// The purposes with these bits in X.509's order; `None` if a bit is unknown.
    pub fn of_bits(bits: u16) -> Option<Self> {
        (bits < 1 << 9).then_some(Self(bits))
    }

    /// The bits in X.509's order: `digitalSignature` is bit 0.
    pub fn bits(self) -> u16 {
        self.0
    }
}

impl BitOr for KeyUsages {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for KeyUsages {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}
