//! JSON Web Signatures (RFC 7515) without their content, by HMAC with SHA-256.
//!
//! Upstream: staging/src/k8s.io/cluster-bootstrap/token/jws/jws.go: ComputeDetachedSignature, stripContent.

use flyball_sdk::base64::encode_url;
use flyball_sdk::prelude::*;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Returns the detached signature of a content (RFC 7515, appendix F) in compact form, with the id of the key in its
/// header.
pub fn detached(content: &str, key_id: &str, key: &[u8]) -> String {
    let header = encode_url(
        json!({"alg": "HS256", "kid": key_id})
            .to_string()
            .as_bytes(),
    );
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    mac.update(format!("{header}.{}", encode_url(content.as_bytes())).as_bytes());
    format!("{header}..{}", encode_url(&mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_equal_those_of_cluster_bootstrap() {
        let content = "Hello from the other side. I must have called a thousand times.";
        let key: &[u8] = b"my voice is my passcode";
        for (content, key, signature) in [
            (content, key, "VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"),
            ("", key, "7Ui1ALizW4jXphVUB7xUqC9vLYLL9RZeOFfVLoB7Tgk"),
            (content, b"", "UfkqvDGiIFxrMnFseDj9LYJOLNrvjW8aHhF71mvvAs8"),
        ] {
            let expected = format!("eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..{signature}");
            assert_eq!(detached(content, "joshua", key), expected);
        }
    }
}
