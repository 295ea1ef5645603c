//! Pulls from a registry that demands a login, and from a registry whose responses are too large.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flyball_fakes::registry::{FakeRegistry, Response};
use flyball_registry::{Options, PackageReference, Pulled, RegistryError, pull};
use sha2::{Digest, Sha256};

const MIB: usize = 1024 * 1024;
const WASM: &[u8] = b"\0asm\x0d\0\x01\0 a component, as far as a registry can tell";

async fn pull_from(registry: &FakeRegistry, options: &Options) -> Result<Pulled, RegistryError> {
    let from: PackageReference = format!("oci://{}/team/a:1", registry.address()).parse()?;
    pull(&from, None, options).await
}

async fn error(registry: &FakeRegistry) -> RegistryError {
    let pulled = pull_from(registry, &Options::default()).await;
    pulled.unwrap_err()
}

fn digest(bytes: &[u8]) -> String {
    let hex = Sha256::digest(bytes);
    let hex: String = hex.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// The manifest of a package whose layer claims this size.
fn manifest(size: usize) -> String {
    let config =
        r#"{"mediaType": "application/vnd.wasm.config.v0+json", "digest": "sha256:0", "size": 2}"#;
    let layer = format!(
        r#"{{"mediaType": "application/wasm", "digest": "{}", "size": {size}}}"#,
        digest(WASM)
    );
    format!(r#"{{"schemaVersion": 2, "config": {config}, "layers": [{layer}]}}"#)
}

fn is_too_large(error: &RegistryError, expected: &str) -> bool {
    matches!(error, RegistryError::TooLarge { what, .. } if *what == expected)
}

#[tokio::test]
async fn a_manifest_is_read_up_to_the_limit() {
    let registry = FakeRegistry::start(|_, _| Response::ok(vec![b' '; 5 * MIB])).await;
    let error = error(&registry).await;
    assert!(is_too_large(&error, "manifest"), "{error:?}");
}

#[tokio::test]
async fn a_layer_is_read_up_to_its_size() {
    for (size, is_fetched) in [(usize::MAX / 2, false), (WASM.len(), true)] {
        let registry = FakeRegistry::start(move |_, request| match request {
            request if request.contains("/blobs/") => Response::ok(vec![0; 100 * MIB]),
            _ => Response::ok(manifest(size)),
        })
        .await;
        let error = error(&registry).await;
        assert_eq!(registry.requests().len(), 1 + usize::from(is_fetched));
        if is_fetched {
            assert!(matches!(error, RegistryError::Digest { .. }), "{error:?}");
        } else {
            assert!(is_too_large(&error, "layer"), "{error:?}");
        }
    }
}

#[tokio::test]
async fn the_response_with_a_token_is_read_up_to_the_limit() {
    let registry = FakeRegistry::start(|own, request| match request {
        request if request.starts_with("GET /token") => Response::ok(vec![b' '; 2 * MIB]),
        _ => demand(&format!("Bearer realm=\"http://{own}/token\"")),
    })
    .await;
    let error = error(&registry).await;
    assert!(is_too_large(&error, "token"), "{error:?}");
}

#[tokio::test]
async fn the_text_of_an_error_is_cut_off() {
    let body = vec![b'x'; MIB];
    let registry =
        FakeRegistry::start(move |_, _| Response::new("500 Internal Server Error", body.clone()))
            .await;
    let error = error(&registry).await;
    assert!(error.can_retry());
    assert!(error.to_string().len() < 100_000);
}

#[tokio::test]
async fn redirects_end() {
    let registry = FakeRegistry::start(|own, _| {
        Response::new(format!("307 Moved\r\nlocation: http://{own}/again"), "")
    })
    .await;
    let error = error(&registry).await;
    assert!(!error.can_retry(), "{error:?}");
    assert!(registry.requests().len() < 10);
}

/// A response that demands a login.
fn demand(challenge: &str) -> Response {
    let head = format!("401 Unauthorized\r\nwww-authenticate: {challenge}");
    Response::new(head, "")
}

/// Options with the credentials `me` and `secret` for a registry.
fn logged_in(registry: &str, folder: &tempfile::TempDir) -> Options {
    let auth = STANDARD.encode("me:secret");
    let config = format!(r#"{{"auths": {{"{registry}": {{"auth": "{auth}"}}}}}}"#);
    std::fs::write(folder.path().join("config.json"), config).unwrap();
    Options {
        docker_config: Some(folder.path().into()),
        ..Options::default()
    }
}

#[tokio::test]
async fn a_registry_that_demands_a_login_is_given_a_token_or_the_credentials() {
    let basic = format!("authorization: Basic {}", STANDARD.encode("me:secret"));
    let folder = tempfile::tempdir().unwrap();
    for is_bearer in [true, false] {
        let expected = match is_bearer {
            true => "authorization: Bearer abc".to_owned(),
            false => basic.clone(),
        };
        let own_basic = basic.clone();
        let registry = FakeRegistry::start(move |own, request| {
            let has = |line: &str| request.lines().any(|found| found == line);
            match request {
                _ if request
                    .starts_with("GET /token?service=s&scope=repository%3Ateam%2Fa%3Apull ") =>
                {
                    assert!(has(&own_basic), "{request}");
                    Response::ok(r#"{"token": "abc"}"#)
                }
                _ if has(&expected) && request.contains("/blobs/") => Response::ok(WASM),
                _ if has(&expected) => Response::ok(manifest(WASM.len())),
                _ if is_bearer => demand(&format!(
                    "Bearer realm=\"http://{own}/token\",service=\"s\""
                )),
                _ => demand("Basic realm=\"r\""),
            }
        })
        .await;
        let options = logged_in(registry.address(), &folder);
        assert_eq!(pull_from(&registry, &options).await.unwrap().wasm, WASM);
        let count = registry.requests().len();
        assert_eq!(
            count,
            3 + usize::from(is_bearer),
            "{:?}",
            registry.requests()
        );
    }
}

#[tokio::test]
async fn a_registry_that_refuses_the_login_is_an_error_without_retry() {
    let registry = FakeRegistry::start(|_, _| demand("Basic realm=\"r\"")).await;
    let folder = tempfile::tempdir().unwrap();
    for options in [logged_in(registry.address(), &folder), Options::default()] {
        let error = pull_from(&registry, &options).await.unwrap_err();
        assert!(matches!(error, RegistryError::Refused(_)), "{error:?}");
    }
}

#[tokio::test]
async fn another_server_is_not_given_the_credentials() {
    let other = FakeRegistry::start(|_, _| Response::ok(manifest(WASM.len()))).await;
    let target = other.address().to_owned();
    let registry = FakeRegistry::start(move |_, request| {
        if request.contains("authorization: Basic") {
            let head = format!("307 Moved\r\nlocation: http://{target}/elsewhere");
            return Response::new(head, "");
        }
        demand("Basic realm=\"r\"")
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let options = logged_in(registry.address(), &folder);
    // The other server has no layer.
    pull_from(&registry, &options).await.unwrap_err();
    let requests = other.requests();
    assert!(!requests.is_empty());
    assert!(
        requests
            .iter()
            .all(|request| !request.contains("authorization"))
    );
}
