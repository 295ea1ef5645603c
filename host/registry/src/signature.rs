//! Signatures of packages, as `cosign sign --key` lays them beside a package: a manifest whose tag follows from the digest of
//! the package's own, with a layer for each signature. The layer is what was signed, its annotation the signature.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use crate::RegistryError;

/// The media type of a layer that was signed.
pub const SIGNATURE_MEDIA_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The annotation of such a layer that holds the signature, in base64.
pub const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";
/// What a document that was signed calls itself.
const DOCUMENT_TYPE: &str = "cosign container image signature";
/// What comes before the point in the DER form of a public key on P-256 (RFC 5480), and the point's bytes.
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const P256_POINT: usize = 65;

/// The tag under which the signatures of a package lie, from the digest of its manifest.
pub fn signature_tag(digest: &str) -> String {
    format!("{}.sig", digest.replace(':', "-"))
}

/// The key that a package must be signed with: ECDSA on P-256, over SHA-256.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    point: Vec<u8>,
}

impl PublicKey {
    /// Reads what `cosign.pub` holds: a public key in PEM.
    ///
    /// # Errors
    /// It is not PEM, or no key on P-256. No retry helps.
    pub fn from_pem(text: &str) -> Result<Self, RegistryError> {
        let fail = |problem: &str| RegistryError::Key(problem.into());
        let pem = pem::parse(text).map_err(|error| fail(&format!("it is not PEM: {error}")))?;
        if pem.tag() != "PUBLIC KEY" {
            return Err(fail(&format!("it is a {}", pem.tag().to_lowercase())));
        }
        let point = pem
            .contents()
            .strip_prefix(&P256_PREFIX)
            .filter(|point| point.len() == P256_POINT);
        let point = point.ok_or_else(|| fail("it is of another algorithm or curve"))?;
        Ok(Self {
            point: point.into(),
        })
    }

    /// Whether a signature is by this key, and of this package.
    pub(crate) fn accepts(&self, signed: &Signed, digest: &str) -> bool {
        let Ok(signature) = STANDARD.decode(&signed.signature) else {
            return false;
        };
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.point);
        if key.verify(signed.document.as_bytes(), &signature).is_err() {
            return false;
        }
        let document: Result<Document, _> = serde_json::from_str(&signed.document);
        document.is_ok_and(|Document { critical }| {
            critical.document_type == DOCUMENT_TYPE && critical.image.digest == digest
        })
    }
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PublicKey").finish_non_exhaustive()
    }
}

/// A document, and its signature in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Signed {
    pub(crate) document: String,
    pub(crate) signature: String,
}

/// What is signed, as far as it matters.
#[derive(Deserialize)]
struct Document {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    image: Image,
    #[serde(rename = "type")]
    document_type: String,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

    use super::*;

    fn pair() -> (EcdsaKeyPair, PublicKey) {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random)
                .unwrap();
        let der = [&P256_PREFIX[..], pair.public_key().as_ref()].concat();
        let key = PublicKey::from_pem(&pem::encode(&pem::Pem::new("PUBLIC KEY", der))).unwrap();
        (pair, key)
    }

    fn sign(pair: &EcdsaKeyPair, document: &str) -> Signed {
        let signature = pair
            .sign(&SystemRandom::new(), document.as_bytes())
            .unwrap();
        Signed {
            document: document.into(),
            signature: STANDARD.encode(signature),
        }
    }

    fn document(digest: &str) -> String {
        format!(
            r#"{{"critical":{{"identity":{{"docker-reference":"r/a"}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"{DOCUMENT_TYPE}"}},"optional":null}}"#
        )
    }

    #[test]
    fn a_signature_is_of_one_package_and_by_one_key() {
        let ((pair, key), (_, other)) = (self::pair(), self::pair());
        let signed = sign(&pair, &document("sha256:1"));
        assert!(key.accepts(&signed, "sha256:1"));
        assert!(!key.accepts(&signed, "sha256:2"));
        assert!(!other.accepts(&signed, "sha256:1"));
        let changed = Signed {
            document: document("sha256:2"),
            ..signed.clone()
        };
        assert!(!key.accepts(&changed, "sha256:2"));
        let unreadable = Signed {
            signature: "!".into(),
            ..signed
        };
        assert!(!key.accepts(&unreadable, "sha256:1"));
        // Signed, but something else than a package.
        assert!(!key.accepts(&sign(&pair, "{}"), "sha256:1"));
        assert!(!key.accepts(
            &sign(
                &pair,
                &document("sha256:1").replace("container image", "other")
            ),
            "sha256:1"
        ));
    }

    /// Made and signed by OpenSSL, as cosign would.
    #[test]
    fn a_key_and_a_signature_of_another_maker_are_read() {
        let key = PublicKey::from_pem(include_str!("../testdata/cosign.pub")).unwrap();
        let signed = Signed {
            document: include_str!("../testdata/signed.json").into(),
            signature: include_str!("../testdata/signed.sig").trim().into(),
        };
        assert!(key.accepts(&signed, "sha256:aa"));
        assert!(!key.accepts(&signed, "sha256:ab"));
    }

    #[test]
    fn what_is_no_key_on_p256_is_refused_with_the_reason() {
        let rsa = pem::encode(&pem::Pem::new("PUBLIC KEY", vec![0x30; 91]));
        let private = pem::encode(&pem::Pem::new("PRIVATE KEY", vec![0; 9]));
        for (text, problem) in [
            ("x", "not PEM"),
            (rsa.as_str(), "another algorithm"),
            (&private, "a private key"),
        ] {
            let error = PublicKey::from_pem(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
