//! The signatures of packages, in the format of `cosign sign --key`: a manifest in the same repository, whose tag is
//! derived from the digest of the package's manifest. Each layer is a signed document, and an annotation of the layer
//! is the signature.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pkcs8::ObjectIdentifier;
use pkcs8::spki::SubjectPublicKeyInfoRef;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use crate::RegistryError;

/// The media type of a signed document's layer.
pub const SIGNATURE_MEDIA_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The annotation of such a layer with the signature in base64.
pub const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";
/// The type in a signed document.
const DOCUMENT_TYPE: &str = "cosign container image signature";
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
/// The first byte of an uncompressed point (SEC 1), which is the only form that ring verifies with.
const UNCOMPRESSED: u8 = 4;

/// The tag of a package's signatures, from the digest of its manifest.
pub fn signature_tag(digest: &str) -> String {
    format!("{}.sig", digest.replace(':', "-"))
}

/// The public key of a signer: ECDSA on P-256 with SHA-256.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// The uncompressed point of the curve.
    point: Vec<u8>,
}

impl PublicKey {
    /// Parses a public key in PEM, the format of `cosign.pub`.
    ///
    /// # Errors
    /// The text is not PEM, or not a key on P-256. A retry can't help.
    pub fn from_pem(text: &str) -> Result<Self, RegistryError> {
        let fail = |problem: &str| RegistryError::Key(problem.into());
        let pem = pem::parse(text).map_err(|error| fail(&format!("it is not PEM: {error}")))?;
        if pem.tag() != "PUBLIC KEY" {
            return Err(fail(&format!("it is a {}", pem.tag().to_lowercase())));
        }
        let info = SubjectPublicKeyInfoRef::try_from(pem.contents())
            .map_err(|error| fail(&format!("it is not valid DER: {error}")))?;
        info.algorithm
            .assert_oids(EC_PUBLIC_KEY, P256)
            .map_err(|_| fail("it is of another algorithm or curve"))?;
        let point = info.subject_public_key.raw_bytes();
        if point.first() != Some(&UNCOMPRESSED) {
            return Err(fail("its point is compressed"));
        }
        Ok(Self {
            point: point.into(),
        })
    }

    /// Whether a signature is by this key and signs the package with this digest.
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

/// A document and its signature in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Signed {
    pub(crate) document: String,
    pub(crate) signature: String,
}

/// The part of a signed document that is verified.
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
    use pkcs8::der::Encode;
    use pkcs8::der::asn1::{AnyRef, BitStringRef};
    use pkcs8::spki::AlgorithmIdentifierRef;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

    use super::*;

    /// The PKIX form of a point on P-256, in DER.
    fn in_pkix(point: &[u8]) -> Vec<u8> {
        let parameters = AnyRef::from(&P256);
        let info = SubjectPublicKeyInfoRef {
            algorithm: AlgorithmIdentifierRef {
                oid: EC_PUBLIC_KEY,
                parameters: Some(parameters),
            },
            subject_public_key: BitStringRef::from_bytes(point).unwrap(),
        };
        info.to_der().unwrap()
    }

    fn pair() -> (EcdsaKeyPair, PublicKey) {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random)
                .unwrap();
        let der = in_pkix(pair.public_key().as_ref());
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
    fn a_signature_is_valid_for_one_package_and_one_key() {
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
        // Signed, but not a package.
        assert!(!key.accepts(&sign(&pair, "{}"), "sha256:1"));
        assert!(!key.accepts(
            &sign(
                &pair,
                &document("sha256:1").replace("container image", "other")
            ),
            "sha256:1"
        ));
    }

    /// Generated and signed by OpenSSL, in cosign's format.
    #[test]
    fn a_key_and_a_signature_of_openssl_are_accepted() {
        let key = PublicKey::from_pem(include_str!("../testdata/cosign.pub")).unwrap();
        let signed = Signed {
            document: include_str!("../testdata/signed.json").into(),
            signature: include_str!("../testdata/signed.sig").trim().into(),
        };
        assert!(key.accepts(&signed, "sha256:aa"));
        assert!(!key.accepts(&signed, "sha256:ab"));
    }

    /// The PKIX form of an RSA key in DER, with a modulus of one byte.
    const RSA_KEY: [u8; 28] = [
        0x30, 26, 0x30, 13, 0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0,
        0x03, 9, 0, 0x30, 6, 0x02, 1, 3, 0x02, 1, 3,
    ];

    #[test]
    fn a_key_that_is_not_on_p256_is_refused_with_the_reason() {
        let rsa = pem::encode(&pem::Pem::new("PUBLIC KEY", RSA_KEY));
        let invalid = pem::encode(&pem::Pem::new("PUBLIC KEY", vec![0x30; 91]));
        let private = pem::encode(&pem::Pem::new("PRIVATE KEY", vec![0; 9]));
        for (text, problem) in [
            ("x", "not PEM"),
            (rsa.as_str(), "another algorithm"),
            (&invalid, "not valid DER"),
            (&private, "a private key"),
        ] {
            let error = PublicKey::from_pem(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
