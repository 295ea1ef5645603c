//! Compares the verification with OpenSSL, which made the requests.

use super::*;

macro_rules! request {
    ($name:literal) => {
        include_bytes!(concat!("../../testdata/requests/", $name, ".der"))
    };
}

#[test]
fn the_signature_of_each_algorithm_that_go_accepts_is_verified() {
    for (name, request) in [
        ("rsa-sha1", &request!("rsa-sha1")[..]),
        ("rsa-sha256", request!("rsa-sha256")),
        ("rsa-sha384", request!("rsa-sha384")),
        ("rsa-sha512", request!("rsa-sha512")),
        ("rsa-1024", request!("rsa-1024")),
        ("rsa-pss", request!("rsa-pss")),
        ("p256-sha256", request!("p256-sha256")),
        ("p256-sha512", request!("p256-sha512")),
        ("p384-sha256", request!("p384-sha256")),
        ("p384-sha384", request!("p384-sha384")),
        ("p521-sha256", request!("p521-sha256")),
        ("p521-sha512", request!("p521-sha512")),
        ("ed25519", request!("ed25519")),
    ] {
        let key = public_key(request).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(check_public_key(key).is_ok(), "{name}");
        // The signature is at the end.
        let mut changed = request.to_vec();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(
            public_key(&changed).unwrap_err().reason,
            "Invalid",
            "{name}"
        );
        // The subject is near the beginning: `jane` becomes `kane`.
        let at = request.windows(4).position(|word| word == b"jane").unwrap();
        let mut changed = request.to_vec();
        changed[at] = b'k';
        let error = public_key(&changed).unwrap_err();
        assert!(
            error.message.contains("was not signed by the key"),
            "{name}"
        );
    }
}

#[test]
fn an_unsupported_algorithm_or_key_is_invalid() {
    for (request, expected) in [
        (
            &request!("rsa-md5")[..],
            "1.2.840.113549.1.1.4, which is not supported",
        ),
        (request!("secp256k1"), "public key is not supported"),
        (b"", "not valid PKCS#10"),
        (b"\x30\x03\x02\x01\x00", "not valid PKCS#10"),
        (b"-----BEGIN CERTIFICATE REQUEST-----", "not valid PKCS#10"),
    ] {
        let error = public_key(request).unwrap_err();
        assert_eq!(error.reason, "Invalid");
        assert!(error.message.contains(expected), "{error}");
    }
}

#[test]
fn no_truncated_or_altered_request_panics_or_is_accepted() {
    for request in [
        &request!("rsa-pss")[..],
        request!("p256-sha256"),
        request!("ed25519"),
    ] {
        for end in 0..request.len() {
            assert!(public_key(&request[..end]).is_err());
        }
        let trailing = [request, &[0]].concat();
        assert!(public_key(&trailing).is_err());
    }
    let request = request!("p256-sha256");
    for at in 0..request.len() {
        for bit in 0..8 {
            let mut changed = request.to_vec();
            changed[at] ^= 1 << bit;
            assert!(public_key(&changed).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn a_public_key_that_is_no_point_of_its_curve_is_invalid() {
    let key = public_key(request!("p256-sha256")).unwrap();
    assert!(check_public_key(key).is_ok());
    let mut changed = key.to_vec();
    *changed.last_mut().unwrap() ^= 1;
    assert!(check_public_key(&changed).is_err());
    for spki in [&b""[..], b"\x30\x00", &key[..key.len() - 1]] {
        assert_eq!(check_public_key(spki).unwrap_err().reason, "Invalid");
    }
}
