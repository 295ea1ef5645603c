//! Makes Secrets comparable. Their data is decoded from base64, and tokens are replaced by their
//! header and claims, with the API server's TokenReview.

use anyhow::Result;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine};
use kube::Client;
use serde_json::{Value, json};

use crate::api;

/// Sends a TokenReview for the token of each Secret that has one, and stores its status in the field
/// `tokenReview` of the Secret.
pub(crate) async fn review(client: &Client, objects: &mut [Value]) -> Result<()> {
    for secret in objects
        .iter_mut()
        .filter(|object| object["type"] == "kubernetes.io/service-account-token")
    {
        let Some(token) = text(&secret["data"]["token"]) else {
            continue;
        };
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        secret["tokenReview"] =
            api::send(client, "POST", path, Some(&review)).await?["status"].take();
    }
    Ok(())
}

/// Decodes the data of a Secret. Other objects, and values that are not UTF-8, are not changed.
pub(crate) fn decode(object: &mut Value) {
    if object["kind"] != "Secret" {
        return;
    }
    let data = object.get_mut("data").and_then(Value::as_object_mut);
    for value in data.into_iter().flat_map(|data| data.values_mut()) {
        if let Some(text) = text(value) {
            *value = token(&text).unwrap_or(Value::String(text));
        }
    }
}

/// Decodes a value of a Secret's data; `None` if it is not UTF-8.
fn text(value: &Value) -> Option<String> {
    String::from_utf8(BASE64_STANDARD.decode(value.as_str()?).ok()?).ok()
}

/// The header and claims of a signed token; `None` for other texts. Without the signature and the
/// key's ID, which differ between control planes.
fn token(text: &str) -> Option<Value> {
    let [header, claims, _signature] = text.split('.').collect::<Vec<_>>()[..] else {
        return None;
    };
    let parse = |part: &str| -> Option<Value> {
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).ok()?)
            .ok()
            .filter(Value::is_object)
    };
    let (mut header, claims) = (parse(header)?, parse(claims)?);
    if header["kid"].is_string() {
        header["kid"] = "an id of a key".into();
    }
    Some(json!({"header": header, "claims": claims}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_its_header_and_claims() {
        let part = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let token = |id: &str| {
            format!(
                "{}.{}.x{id}",
                part(json!({"alg": "ES256", "kid": id})),
                part(json!({"sub": "a"}))
            )
        };
        let mut secrets = ["one", "two"].map(|id| {
            let data = json!({"token": BASE64_STANDARD.encode(token(id)), "namespace": BASE64_STANDARD.encode("team")});
            json!({"kind": "Secret", "data": data})
        });
        secrets.iter_mut().for_each(decode);
        assert_eq!(secrets[0], secrets[1]);
        assert_eq!(secrets[0]["data"]["namespace"], "team");
        assert_eq!(secrets[0]["data"]["token"]["claims"], json!({"sub": "a"}));
    }

    #[test]
    fn other_texts_are_not_changed() {
        for text in ["a.b.c", "", "1.2.3"] {
            let mut secret =
                json!({"kind": "Secret", "data": {"token": BASE64_STANDARD.encode(text)}});
            decode(&mut secret);
            assert_eq!(secret["data"]["token"], text);
        }
    }
}
