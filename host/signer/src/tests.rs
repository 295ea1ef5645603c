//! Compares the signer with OpenSSL: its keys, its tokens, its hashes.

use flyball_policy::PluginPolicy;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, UnparsedPublicKey, VerificationAlgorithm,
};

use super::*;

macro_rules! file {
    ($name:literal) => {
        include_bytes!(concat!("../testdata/keys/", $name))
    };
}

const CLAIMS: &[u8] =
    br#"{"iss":"kubernetes/serviceaccount","sub":"system:serviceaccount:team:builder"}"#;

/// The output of `openssl pkey -pubout -outform DER | openssl dgst -sha256`, in base64url.
const RSA_ID: &str = "vkkPi48BYhTQ7mL-C-6dDJcUH_gmT9Zq5cg4z3hYU2Y";
const P256_ID: &str = "Thp6gYakTyVEiVA_xII8wrbBIhD-PeBQYQLlCnIZ7_M";
const P384_ID: &str = "5HsezhN2y4y78YzRBNcUhNsW7Us2R8TLbRXgEIuSdmw";
const P521_ID: &str = "kllUgqDsp57cEC9Be9i36wFZj-9Ono-PvfUXYWfCOCw";

fn keys(pem: &[u8]) -> Signer {
    let mut keys = Signer::default();
    keys.add("a", pem).expect("it is a key");
    keys
}

/// The keys of the host for one plugin, with its policy.
struct Plugin {
    keys: SigningKeys,
    policy: PluginPolicy,
}

impl Plugin {
    fn sign_jwt(&self, name: &str, claims: &[u8]) -> Result<String, ApiError> {
        let granted = self.policy.may_use_key(name)?;
        self.keys.sign_jwt(&granted, claims)
    }

    fn verify_jwt(&self, name: &str, token: &str) -> Result<Vec<u8>, ApiError> {
        let granted = self.policy.may_use_key(name)?;
        self.keys.verify_jwt(&granted, token)
    }
}

/// The key as `a`, for a plugin that may use `a` and `b`.
fn signer(pem: &[u8]) -> Plugin {
    let policy = PluginPolicy {
        imports: ["signer".to_owned()].into(),
        signer_keys: ["a".to_owned(), "b".to_owned()].into(),
        ..PluginPolicy::default()
    };
    let keys = SigningKeys::new(keys(pem).into());
    Plugin { keys, policy }
}

fn refused(pem: &[u8]) -> String {
    Signer::default()
        .add("a", pem)
        .expect_err("the key can't sign")
        .to_string()
}

fn decoded(part: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).expect("it is base64url"))
        .expect("it is JSON")
}

/// A token of the claims with this header, signed by nobody.
fn forged(header: &str, signature: &str) -> String {
    format!(
        "{}.{}.{signature}",
        URL_SAFE_NO_PAD.encode(header),
        URL_SAFE_NO_PAD.encode(CLAIMS)
    )
}

#[test]
fn an_rsa_key_in_either_wrapping_signs_as_openssl_does() {
    let expected = std::str::from_utf8(file!("rsa.jwt")).unwrap().trim();
    for pem in [&file!("rsa.pem")[..], file!("rsa-pkcs8.pem")] {
        assert_eq!(signer(pem).sign_jwt("a", CLAIMS).unwrap(), expected);
    }
}

#[test]
fn a_token_of_openssl_is_verified() {
    for (pem, token) in [
        (&file!("rsa.pem")[..], &file!("rsa.jwt")[..]),
        (file!("p384.pem"), file!("p384.jwt")),
        (file!("p521.pem"), file!("p521.jwt")),
    ] {
        let token = std::str::from_utf8(token).unwrap().trim();
        assert_eq!(signer(pem).verify_jwt("a", token).unwrap(), CLAIMS);
    }
}

#[test]
fn claims_and_tokens_are_refused_before_they_are_parsed_if_no_token_has_so_many_bytes() {
    let (signer, large) = (signer(file!("rsa.pem")), " ".repeat(MAX_TOKEN + 1));
    let refused = [
        signer.sign_jwt("a", large.as_bytes()).map(drop),
        signer.verify_jwt("a", &large).map(drop),
    ];
    for result in refused {
        assert_eq!(result.unwrap_err().reason, "Full");
    }
}

#[test]
fn a_token_says_its_algorithm_and_the_id_of_its_key() {
    for (pem, algorithm, id) in [
        (&file!("rsa.pem")[..], "RS256", RSA_ID),
        (file!("p256.pem"), "ES256", P256_ID),
        (file!("p256-pkcs8.pem"), "ES256", P256_ID),
        (file!("p384.pem"), "ES384", P384_ID),
        (file!("p521.pem"), "ES512", P521_ID),
        (file!("p521-pkcs8.pem"), "ES512", P521_ID),
    ] {
        let signer = signer(pem);
        let token = signer.sign_jwt("a", CLAIMS).unwrap();
        let header = decoded(token.split('.').next().unwrap());
        assert_eq!(header, serde_json::json!({"alg": algorithm, "kid": id}));
        assert_eq!(signer.verify_jwt("a", &token).unwrap(), CLAIMS);
    }
}

/// Verifies with the point of the curve at the end of the file, instead of the point that the signer read.
#[test]
fn a_signature_of_a_curve_is_valid_by_the_public_key_in_the_file() {
    let check = |pem: &[u8], algorithm: &'static dyn VerificationAlgorithm, length: usize| {
        let token = signer(pem).sign_jwt("a", CLAIMS).unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let blocks = pem::parse_many(pem).unwrap();
        let key = blocks.last().unwrap().contents();
        let public = UnparsedPublicKey::new(algorithm, &key[key.len() - length..]);
        assert!(public.verify(signed.as_bytes(), &signature).is_ok());
        assert!(public.verify(b"something else", &signature).is_err());
    };
    check(file!("p256.pem"), &ECDSA_P256_SHA256_FIXED, 65);
    check(file!("p384.pem"), &ECDSA_P384_SHA384_FIXED, 97);
}

/// The public half of the key is at the end of the file.
#[test]
fn a_key_of_p521_with_another_public_key_beside_it_is_refused() {
    let mut der = pem::parse(file!("p521.pem")).unwrap().contents().to_vec();
    *der.last_mut().unwrap() ^= 1;
    let changed = pem::encode(&pem::Pem::new("EC PRIVATE KEY", der));
    assert!(refused(changed.as_bytes()).contains("does not fit"));
}

#[test]
fn what_the_key_did_not_sign_is_not_verified() {
    for pem in [&file!("rsa.pem")[..], file!("p521.pem")] {
        let signer = signer(pem);
        let token = signer.sign_jwt("a", CLAIMS).unwrap();
        let (signed, _) = token.rsplit_once('.').unwrap();
        let other = signer.sign_jwt("a", b"{}").unwrap();
        let (_, signature) = other.rsplit_once('.').unwrap();
        assert!(
            signer
                .verify_jwt("a", &format!("{signed}.{signature}"))
                .is_err()
        );
    }
    let signer = signer(file!("rsa.pem"));
    let token = signer.sign_jwt("a", CLAIMS).unwrap();
    let (header, rest) = token.split_once('.').unwrap();
    let (claims, signature) = rest.split_once('.').unwrap();
    let other_claims =
        URL_SAFE_NO_PAD.encode(r#"{"sub":"system:serviceaccount:kube-system:admin"}"#);
    let other_key = self::signer(file!("p256.pem"))
        .sign_jwt("a", CLAIMS)
        .unwrap();
    let unsigned = r#"{"alg":"none"}"#;
    let as_mac = format!(r#"{{"alg":"HS256","kid":"{RSA_ID}"}}"#);
    for wrong in [
        "",
        "a.b",
        "a.b.c",
        &format!("{header}.{other_claims}.{signature}"),
        &format!("{header}.{claims}."),
        &format!("{header}.{claims}.{signature}.{signature}"),
        &format!("{header}.{claims}.{signature}="),
        &forged(unsigned, ""),
        &forged(&as_mac, signature),
        &other_key,
    ] {
        let error = signer.verify_jwt("a", wrong).unwrap_err();
        assert_eq!(
            (error.status, error.reason.as_str()),
            (401, "Unauthorized"),
            "{wrong}"
        );
    }
    assert!(signer.verify_jwt("a", &token).is_ok());
}

/// The tokens are signed by the key, but refused because of their headers.
#[test]
fn a_header_that_names_another_key_or_wants_more_than_is_known_is_refused() {
    let signer = signer(file!("rsa.pem"));
    let verified = |header: &str| {
        let signed = forged(header, "");
        let signed = signed.trim_end_matches('.');
        let signature = signer.keys.signer.keys["a"]
            .private
            .sign(signed.as_bytes())
            .unwrap();
        signer
            .verify_jwt(
                "a",
                &format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)),
            )
            .is_ok()
    };
    assert!(verified(r#"{"alg":"RS256"}"#));
    assert!(verified(&format!(
        r#"{{"alg":"RS256","kid":"{RSA_ID}","typ":"JWT"}}"#
    )));
    assert!(!verified(&format!(
        r#"{{"alg":"RS256","kid":"{P256_ID}"}}"#
    )));
    assert!(!verified(r#"{"alg":"ES256"}"#));
    assert!(!verified(r#"{"alg":"RS256","crit":["b64"],"b64":false}"#));
}

#[test]
fn the_first_private_key_signs_and_all_keys_of_the_file_verify() {
    let all = [
        &file!("p256.pem")[..],
        file!("rsa-public.pem"),
        file!("p384.pem"),
    ]
    .concat();
    let signer = signer(&all);
    for pem in [&file!("rsa.pem")[..], file!("p256.pem"), file!("p384.pem")] {
        let token = self::signer(pem).sign_jwt("a", CLAIMS).unwrap();
        assert_eq!(signer.verify_jwt("a", &token).unwrap(), CLAIMS);
    }
    let header = decoded(
        signer
            .sign_jwt("a", CLAIMS)
            .unwrap()
            .split('.')
            .next()
            .unwrap(),
    );
    assert_eq!(header["kid"], P256_ID);
}

#[test]
fn a_bad_key_before_a_good_one_is_passed_over() {
    let all = [&file!("rsa-1024.pem")[..], file!("rsa.pem")].concat();
    assert!(signer(&all).sign_jwt("a", CLAIMS).is_ok());
}

#[test]
fn a_file_without_a_key_that_can_sign_is_refused_with_the_reason() {
    let broken = b"-----BEGIN RSA PRIVATE KEY-----\nAQID\n-----END RSA PRIVATE KEY-----\n";
    for (pem, expected) in [
        (&b""[..], "holds no RSA or EC private key"),
        (b"no PEM", "holds no RSA or EC private key"),
        (
            b"-----BEGIN RSA PRIVATE KEY-----\n!\n-----END RSA PRIVATE KEY-----\n",
            "is no PEM",
        ),
        (file!("rsa-public.pem"), "holds no RSA or EC private key"),
        (file!("ed25519.pem"), "holds no RSA or EC private key"),
        (file!("encrypted.pem"), "is encrypted"),
        (file!("rsa-encrypted.pem"), "is encrypted"),
        (file!("rsa-1024.pem"), "(TooSmall)"),
        (broken, "(InvalidEncoding)"),
        (
            b"-----BEGIN PRIVATE KEY-----\nAQID\n-----END PRIVATE KEY-----\n",
            "not valid DER",
        ),
    ] {
        let said = refused(pem);
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_key_that_the_host_does_not_hold_is_not_found() {
    let signer = signer(file!("p256.pem"));
    assert!(signer.sign_jwt("b", CLAIMS).unwrap_err().is_not_found());
    assert!(signer.verify_jwt("b", "a.b.c").unwrap_err().is_not_found());
}

#[test]
fn a_key_that_the_plugin_may_not_use_is_denied_whether_it_is_there_or_not() {
    let mut keys = keys(file!("p256.pem"));
    keys.add("c", file!("rsa.pem")).unwrap();
    let signer = Plugin {
        keys: SigningKeys::new(keys.into()),
        ..signer(file!("p256.pem"))
    };
    for name in ["c", "d"] {
        for refusal in [
            signer.sign_jwt(name, CLAIMS).unwrap_err(),
            signer.verify_jwt(name, "a.b.c").unwrap_err(),
        ] {
            let message = format!("the policy does not let this plugin use the key `{name}`");
            assert_eq!(
                (refusal.reason.as_str(), refusal.message),
                ("Denied", message)
            );
        }
    }
    assert!(signer.sign_jwt("a", CLAIMS).is_ok());
}

#[test]
fn claims_that_are_no_object_are_not_signed() {
    let signer = signer(file!("p256.pem"));
    for claims in [&b""[..], b"[]", b"\"a\"", b"{} {}", b"null"] {
        assert_eq!(signer.sign_jwt("a", claims).unwrap_err().reason, "Invalid");
    }
}

#[test]
fn what_is_shown_of_a_signer_is_its_names() {
    assert_eq!(format!("{:?}", keys(file!("p256.pem"))), r#"{"a"}"#);
}
