//! Reads keys from PEM files, in the forms that kube-controller-manager and kube-apiserver read: private keys in
//! PKCS#1, SEC 1 and PKCS#8, public keys in PKIX. ring signs with them. It reads EC keys only in PKCS#8, and doesn't
//! support P-521, which `p521` signs with.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use p521::ecdsa::signature::{Signer as _, Verifier as _};
use pkcs8::der::asn1::{AnyRef, BitStringRef, OctetStringRef, UintRef};
use pkcs8::der::{self, Decode, Encode};
use pkcs8::spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};
use pkcs8::{ObjectIdentifier, PrivateKeyInfoRef};
use ring::digest::{SHA256, digest};
use ring::error::{KeyRejected, Unspecified};
use ring::rand::SystemRandom;
use ring::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair, RsaKeyPair, VerificationAlgorithm,
};
use sec1::EcPrivateKey;

/// Why a file holds no key that can sign. A retry helps only after the file has changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("it is no PEM")]
    Pem(#[from] pem::PemError),
    #[error("it holds no RSA or EC private key")]
    Missing,
    /// The host has no way to ask for a passphrase.
    #[error("its private key is encrypted: give it without a passphrase")]
    Encrypted,
    #[error("its private key is not valid DER: {0}")]
    Malformed(der::Error),
    /// The key is inconsistent, or too weak.
    #[error(
        "its private key can't be used ({0}): RSA needs 2048 to 4096 bits and an exponent of at least 65537, EC the curve \
         P-256, P-384 or P-521 and the public key beside the private one"
    )]
    Rejected(KeyRejected),
    /// A key of P-521 is inconsistent.
    #[error(
        "its private key of the curve P-521 is not valid, or does not fit the public key beside it"
    )]
    Inconsistent,
}

/// The one algorithm that a key signs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Rs256,
    Es256,
    Es384,
    Es512,
}

const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::Rs256,
    Algorithm::Es256,
    Algorithm::Es384,
    Algorithm::Es512,
];

const RSA_ENCRYPTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");

/// The length of a private key of P-521 in bytes.
const P521_BYTES: usize = 66;

/// A key that signs.
pub(super) struct PrivateKey {
    pair: Pair,
    public: PublicKey,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ec(Box<EcdsaKeyPair>),
    P521(Box<p521::ecdsa::SigningKey>),
}

/// A key that verifies signatures of its private half.
pub(super) struct PublicKey {
    algorithm: Algorithm,
    /// A token's `kid`: the SHA-256 of the key's PKIX form, in base64url.
    id: String,
    /// RSA: an `RSAPublicKey` of PKCS#1 in DER. EC: an uncompressed point of the curve.
    bytes: Vec<u8>,
}

static RANDOM: LazyLock<SystemRandom> = LazyLock::new(SystemRandom::new);

/// Returns the first private key of a file, and the public halves of all its other keys. Blocks that don't hold keys,
/// such as `EC PARAMETERS`, are ignored.
pub(super) fn read(pem: &[u8]) -> Result<(PrivateKey, Vec<PublicKey>), KeyError> {
    let mut signing: Option<PrivateKey> = None;
    let (mut others, mut rejected) = (Vec::new(), None);
    for block in pem::parse_many(pem)? {
        let read = match block.tag() {
            "PUBLIC KEY" => {
                others.extend(PublicKey::from_pkix(block.contents()));
                continue;
            }
            _ if block.headers().get("DEK-Info").is_some() => Err(KeyError::Encrypted),
            "ENCRYPTED PRIVATE KEY" => Err(KeyError::Encrypted),
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(block.contents())
                .map(PrivateKey::rsa)
                .map_err(KeyError::Rejected),
            "EC PRIVATE KEY" => PrivateKey::from_sec1(block.contents()),
            "PRIVATE KEY" => PrivateKey::from_pkcs8(block.contents()),
            _ => continue,
        };
        match read {
            Ok(key) if signing.is_none() => signing = Some(key),
            Ok(key) => others.push(key.public),
            Err(error) => rejected = rejected.or(Some(error)),
        }
    }
    let key = signing.ok_or_else(|| rejected.unwrap_or(KeyError::Missing))?;
    Ok((key, others))
}

impl PrivateKey {
    fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        let info = PrivateKeyInfoRef::from_der(der).map_err(KeyError::Malformed)?;
        match info.algorithm.oid {
            RSA_ENCRYPTION => RsaKeyPair::from_pkcs8(der)
                .map(Self::rsa)
                .map_err(KeyError::Rejected),
            EC_PUBLIC_KEY => {
                let curve = info.algorithm.parameters_oid();
                match Algorithm::of_curve(curve.ok())? {
                    Algorithm::Es512 => EcPrivateKey::from_der(info.private_key.as_bytes())
                        .map_err(KeyError::Malformed)
                        .and_then(|key| Self::p521(&key)),
                    curve => Self::from_ec_pkcs8(curve, der),
                }
            }
            _ => Err(KeyError::Missing),
        }
    }

    fn from_sec1(der: &[u8]) -> Result<Self, KeyError> {
        let key = EcPrivateKey::from_der(der).map_err(KeyError::Malformed)?;
        let curve = key
            .parameters
            .as_ref()
            .and_then(|parameters| parameters.named_curve());
        let curve = Algorithm::of_curve(curve)?;
        if curve == Algorithm::Es512 {
            return Self::p521(&key);
        }
        let pkcs8 = OctetStringRef::new(der)
            .and_then(|key| PrivateKeyInfoRef::new(curve.identifier(), key).to_der())
            .map_err(KeyError::Malformed)?;
        Self::from_ec_pkcs8(curve, &pkcs8)
    }

    fn from_ec_pkcs8(curve: Algorithm, pkcs8: &[u8]) -> Result<Self, KeyError> {
        EcdsaKeyPair::from_pkcs8(curve.signing(), pkcs8, &*RANDOM)
            .map(|pair| Self::ec(curve, pair))
            .map_err(KeyError::Rejected)
    }

    fn rsa(pair: RsaKeyPair) -> Self {
        let public = PublicKey::new(Algorithm::Rs256, pair.public_key().as_ref());
        Self {
            pair: Pair::Rsa(Box::new(pair)),
            public,
        }
    }

    fn ec(curve: Algorithm, pair: EcdsaKeyPair) -> Self {
        let public = PublicKey::new(curve, pair.public_key().as_ref());
        Self {
            pair: Pair::Ec(Box::new(pair)),
            public,
        }
    }

    fn p521(key: &EcPrivateKey<'_>) -> Result<Self, KeyError> {
        // Some encoders leave out leading zeros.
        let missing = P521_BYTES
            .checked_sub(key.private_key.len())
            .ok_or(KeyError::Inconsistent)?;
        let scalar = [&vec![0; missing][..], key.private_key].concat();
        let pair = p521::ecdsa::SigningKey::from_slice(&scalar);
        let pair = pair.map_err(|_| KeyError::Inconsistent)?;
        let point = pair.verifying_key().to_sec1_point(false);
        if key
            .public_key
            .is_some_and(|given| given != point.as_bytes())
        {
            return Err(KeyError::Inconsistent);
        }
        Ok(Self {
            public: PublicKey::new(Algorithm::Es512, point.as_bytes()),
            pair: Pair::P521(Box::new(pair)),
        })
    }

    pub(super) fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Returns the signature of a message in the form of X.509. Its algorithm is [`PublicKey::signature_algorithm`].
    pub(super) fn sign_der(&self, message: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let signature = self.sign(message)?;
        if matches!(self.pair, Pair::Rsa(_)) {
            return Ok(signature);
        }
        let (r, s) = signature.split_at(signature.len() / 2);
        let integers = UintRef::new(r).and_then(|r| Ok(vec![r, UintRef::new(s)?]));
        integers
            .and_then(|pair| pair.to_der())
            .map_err(|_| Unspecified)
    }

    /// Returns the signature of a message in the form of JSON Web Signatures. Fails if the system has no randomness.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Unspecified> {
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(
                    &signature::RSA_PKCS1_SHA256,
                    &*RANDOM,
                    message,
                    &mut signature,
                )?;
                Ok(signature)
            }
            Pair::Ec(pair) => Ok(pair.sign(&*RANDOM, message)?.as_ref().to_vec()),
            Pair::P521(pair) => {
                let signature: p521::ecdsa::Signature =
                    pair.try_sign(message).map_err(|_| Unspecified)?;
                Ok(signature.to_bytes().to_vec())
            }
        }
    }
}

impl PublicKey {
    fn new(algorithm: Algorithm, bytes: &[u8]) -> Self {
        let id = URL_SAFE_NO_PAD.encode(digest(&SHA256, &pkix(algorithm, bytes)));
        Self {
            algorithm,
            id,
            bytes: bytes.to_vec(),
        }
    }

    /// Reads a key in PKIX form. Returns none if its algorithm is unknown here.
    fn from_pkix(der: &[u8]) -> Option<Self> {
        let info = SubjectPublicKeyInfoRef::from_der(der).ok()?;
        let algorithm = ALGORITHMS
            .into_iter()
            .find(|algorithm| algorithm.identifier() == info.algorithm)?;
        Some(Self::new(algorithm, info.subject_public_key.as_bytes()?))
    }

    /// A token's `alg`.
    pub(super) fn algorithm(&self) -> &'static str {
        self.algorithm.name()
    }

    /// A token's `kid`.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The `SubjectPublicKeyInfo` in DER.
    pub(super) fn pkix(&self) -> Vec<u8> {
        pkix(self.algorithm, &self.bytes)
    }

    /// The `subjectPublicKey`, without its algorithm.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The algorithm that X.509 signatures of the private half have.
    pub(super) fn signature_algorithm(&self) -> AlgorithmIdentifierRef<'static> {
        let (oid, parameters) = match self.algorithm {
            Algorithm::Rs256 => ("1.2.840.113549.1.1.11", Some(AnyRef::NULL)),
            Algorithm::Es256 => ("1.2.840.10045.4.3.2", None),
            Algorithm::Es384 => ("1.2.840.10045.4.3.3", None),
            Algorithm::Es512 => ("1.2.840.10045.4.3.4", None),
        };
        AlgorithmIdentifierRef {
            oid: ObjectIdentifier::new_unwrap(oid),
            parameters,
        }
    }

    /// Whether the private half made this signature of the message.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self.algorithm.verification() {
            Some(algorithm) => signature::UnparsedPublicKey::new(algorithm, &self.bytes)
                .verify(message, signature)
                .is_ok(),
            None => {
                let key = p521::ecdsa::VerifyingKey::from_sec1_bytes(&self.bytes);
                let signature = p521::ecdsa::Signature::from_slice(signature);
                matches!((key, signature), (Ok(key), Ok(signature)) if key.verify(message, &signature).is_ok())
            }
        }
    }
}

/// Encodes a public key as a `SubjectPublicKeyInfo`.
fn pkix(algorithm: Algorithm, bytes: &[u8]) -> Vec<u8> {
    BitStringRef::from_bytes(bytes)
        .and_then(|subject_public_key| {
            let algorithm = algorithm.identifier();
            SubjectPublicKeyInfoRef {
                algorithm,
                subject_public_key,
            }
            .to_der()
        })
        .expect("a key is shorter than DER's maximum")
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Es512 => "ES512",
        }
    }

    /// The algorithm of a curve's keys.
    fn of_curve(curve: Option<ObjectIdentifier>) -> Result<Self, KeyError> {
        match curve {
            Some(P256) => Ok(Self::Es256),
            Some(P384) => Ok(Self::Es384),
            Some(P521) => Ok(Self::Es512),
            _ => Err(KeyError::Missing),
        }
    }

    /// The `AlgorithmIdentifier` of its keys.
    fn identifier(self) -> AlgorithmIdentifierRef<'static> {
        let (oid, parameters) = match self {
            Self::Rs256 => (RSA_ENCRYPTION, AnyRef::NULL),
            Self::Es256 => (EC_PUBLIC_KEY, AnyRef::from(&P256)),
            Self::Es384 => (EC_PUBLIC_KEY, AnyRef::from(&P384)),
            Self::Es512 => (EC_PUBLIC_KEY, AnyRef::from(&P521)),
        };
        AlgorithmIdentifierRef {
            oid,
            parameters: Some(parameters),
        }
    }

    /// Ring's algorithm for signing with the keys of a curve.
    fn signing(self) -> &'static EcdsaSigningAlgorithm {
        match self {
            Self::Es384 => &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
            _ => &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
        }
    }

    /// Ring's algorithm for verifying; none for P-521, which it does not implement.
    fn verification(self) -> Option<&'static dyn VerificationAlgorithm> {
        match self {
            Self::Rs256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
            Self::Es256 => Some(&signature::ECDSA_P256_SHA256_FIXED),
            Self::Es384 => Some(&signature::ECDSA_P384_SHA384_FIXED),
            Self::Es512 => None,
        }
    }
}
