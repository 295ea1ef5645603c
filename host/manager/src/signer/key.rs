//! Keys out of PEM files, as kube-controller-manager and kube-apiserver read them: private ones in PKCS#1, SEC 1 and PKCS#8,
//! public ones in PKIX.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::error::{KeyRejected, Unspecified};
use ring::rand::SystemRandom;
use ring::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair, RsaKeyPair, VerificationAlgorithm,
};
use x509_parser::prelude::{FromDer, SubjectPublicKeyInfo};

use super::der::{BIT_STRING, NULL, OCTET_STRING, SEQUENCE, ZERO, wrap};

/// A file that holds no key that can sign. Reading it again helps only after it was changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It is no PEM.
    #[error("it is no PEM")]
    Pem(#[from] pem::PemError),
    /// It holds no private key.
    #[error("it holds no RSA or EC private key")]
    Missing,
    /// A passphrase is needed, and nobody is there to type it.
    #[error("its private key is encrypted: give it without a passphrase")]
    Encrypted,
    /// The key is sound, but of a curve with which the host can't sign.
    #[error(
        "its private key is of the curve P-521, which is not supported: use P-256, P-384 or RSA"
    )]
    Curve,
    /// The key is not sound, or too weak.
    #[error(
        "its private key can't be used ({0}): RSA needs 2048 to 4096 bits and an exponent of at least 65537, EC the curve \
         P-256 or P-384 and the public key beside the private one"
    )]
    Rejected(KeyRejected),
}

/// How a key signs; each signs in one way only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Rs256,
    Es256,
    Es384,
}

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Rs256, Algorithm::Es256, Algorithm::Es384];
/// The object identifier `id-ecPublicKey`, in DER.
const EC_PUBLIC_KEY: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01";
/// The object identifier `secp521r1`, in DER.
const P521: &[u8] = b"\x06\x05\x2b\x81\x04\x00\x23";

/// A key that signs.
pub(super) struct PrivateKey {
    pair: Pair,
    public: PublicKey,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ec(Box<EcdsaKeyPair>),
}

/// A key that tells what its private half has signed.
pub(super) struct PublicKey {
    algorithm: Algorithm,
    /// The hash of its PKIX form in base64url: what a token's `kid` names it by.
    id: String,
    /// An `RSAPublicKey` of PKCS#1 in DER, or a point of the curve, uncompressed.
    bytes: Vec<u8>,
}

static RANDOM: LazyLock<SystemRandom> = LazyLock::new(SystemRandom::new);

/// The first private key of a file, and the public half of all its other keys. What is no key, as `EC PARAMETERS`, is passed
/// over.
pub(super) fn read(pem: &[u8]) -> Result<(PrivateKey, Vec<PublicKey>), KeyError> {
    let mut signing: Option<PrivateKey> = None;
    let (mut others, mut rejected) = (Vec::new(), None);
    for block in pem::parse_many(pem)? {
        let read = match block.tag() {
            "PUBLIC KEY" => {
                others.extend(PublicKey::of_pkix(block.contents()));
                continue;
            }
            _ if block.headers().get("DEK-Info").is_some() => Err(KeyError::Encrypted),
            "ENCRYPTED PRIVATE KEY" => Err(KeyError::Encrypted),
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(block.contents())
                .map(PrivateKey::rsa)
                .map_err(KeyError::Rejected),
            "EC PRIVATE KEY" => {
                private(block.contents(), |curve| wrap_sec1(curve, block.contents()))
            }
            "PRIVATE KEY" => private(block.contents(), |_| block.contents().to_vec()),
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

/// A private key in one of its wrappings, which `in_pkcs8` changes to PKCS#8.
fn private(der: &[u8], in_pkcs8: impl Fn(Algorithm) -> Vec<u8>) -> Result<PrivateKey, KeyError> {
    let names = |identifier: &[u8]| der.windows(identifier.len()).any(|part| part == identifier);
    match ALGORITHMS
        .into_iter()
        .find(|algorithm| names(algorithm.object_identifier()))
    {
        Some(Algorithm::Rs256) => RsaKeyPair::from_pkcs8(der)
            .map(PrivateKey::rsa)
            .map_err(KeyError::Rejected),
        Some(curve) => {
            let pair = EcdsaKeyPair::from_pkcs8(curve.signing(), &in_pkcs8(curve), &*RANDOM);
            pair.map(|pair| PrivateKey::ec(curve, pair))
                .map_err(KeyError::Rejected)
        }
        None if names(P521) => Err(KeyError::Curve),
        None => Err(KeyError::Missing),
    }
}

/// An `ECPrivateKey` of SEC 1 in PKCS#8.
fn wrap_sec1(curve: Algorithm, key: &[u8]) -> Vec<u8> {
    wrap(
        SEQUENCE,
        &[ZERO, &curve.identifier(), &wrap(OCTET_STRING, &[key])],
    )
}

impl PrivateKey {
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

    /// Its public half.
    pub(super) fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The signature of a message, as JSON Web Signatures write it. Fails if there is no randomness.
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

    /// A key in PKIX form; none if it is of no algorithm that is known here.
    fn of_pkix(der: &[u8]) -> Option<Self> {
        let (_, info) = SubjectPublicKeyInfo::from_der(der).ok()?;
        let bytes = &*info.subject_public_key.data;
        let algorithm = ALGORITHMS
            .into_iter()
            .find(|algorithm| pkix(*algorithm, bytes) == der)?;
        Some(Self::new(algorithm, bytes))
    }

    /// What a token's `alg` names it by.
    pub(super) fn algorithm(&self) -> &'static str {
        self.algorithm.name()
    }

    /// What a token's `kid` names it by.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Whether its private half made this signature of the message.
    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        signature::UnparsedPublicKey::new(self.algorithm.verification(), &self.bytes)
            .verify(message, signature)
            .is_ok()
    }
}

/// A public key as a `SubjectPublicKeyInfo`.
fn pkix(algorithm: Algorithm, bytes: &[u8]) -> Vec<u8> {
    wrap(
        SEQUENCE,
        &[&algorithm.identifier(), &wrap(BIT_STRING, &[&[0], bytes])],
    )
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
        }
    }

    /// The object identifier, in DER, of its keys or of their curve.
    fn object_identifier(self) -> &'static [u8] {
        match self {
            Self::Rs256 => b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01",
            Self::Es256 => b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07",
            Self::Es384 => b"\x06\x05\x2b\x81\x04\x00\x22",
        }
    }

    /// The `AlgorithmIdentifier` of its keys, in DER.
    fn identifier(self) -> Vec<u8> {
        match self {
            Self::Rs256 => wrap(SEQUENCE, &[self.object_identifier(), NULL]),
            curve => wrap(SEQUENCE, &[EC_PUBLIC_KEY, curve.object_identifier()]),
        }
    }

    /// How keys of a curve sign.
    fn signing(self) -> &'static EcdsaSigningAlgorithm {
        match self {
            Self::Es384 => &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
            _ => &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
        }
    }

    fn verification(self) -> &'static dyn VerificationAlgorithm {
        match self {
            Self::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Self::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
            Self::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
        }
    }
}
