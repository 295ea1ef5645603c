//! Reads a Secret that the operator's policy names, as the plugin's service account: the host itself needs no right for
//! it.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use flyball_types::{ApiError, Effect};
use serde::Deserialize;

use crate::client::{ApiClient, ApiRequest};

#[derive(Deserialize)]
struct Secret {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

/// Returns the decoded values of a Secret. `client` has the credentials of the plugin's account.
///
/// # Errors
/// The server's, if the account may not get the Secret or there is none; or the answer is malformed.
pub async fn read_secret(
    client: &ApiClient,
    namespace: &str,
    name: &str,
) -> Result<BTreeMap<String, Bytes>, ApiError> {
    let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
    let answer = client.send(ApiRequest::of_operator(path)).await?;
    parse(&answer).map_err(|problem| {
        // Without the parser's message, which may quote the Secret.
        let message = format!(
            "the server's answer with the Secret {namespace}/{name} can't be read: {problem}"
        );
        ApiError::internal(Effect::None, message)
    })
}

fn parse(answer: &[u8]) -> Result<BTreeMap<String, Bytes>, &'static str> {
    let secret: Secret = serde_json::from_slice(answer).map_err(|_| "it is no Secret")?;
    let decode = |(name, value): (String, String)| {
        let value = BASE64_STANDARD.decode(value);
        let value = value.map_err(|_| "a value is not in base64")?;
        Ok((name, value.into()))
    };
    secret.data.into_iter().map(decode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_and_an_error_quotes_none() {
        let values = parse(br#"{"kind": "Secret", "data": {"token": "YWJj"}}"#).unwrap();
        assert_eq!(values["token"], Bytes::from("abc"));
        assert!(parse(br#"{"kind": "Secret"}"#).unwrap().is_empty());
        let error = parse(br#"{"data": {"token": "s3cr3t!"}}"#).unwrap_err();
        assert_eq!(error, "a value is not in base64");
    }
}
