//! Pulls from a registry whose answers the input defines:
//!
//! ```text
//! pull [pinned] [signed] [cached]         what the host demands
//! body NAME TEXT
//! answer PATH STATUS NAME                 the body NAME for requests whose path contains PATH
//! header NAME VALUE                       of the last answer
//! ```
//!
//! In texts and values, `{NAME}` is the digest of an earlier body, `{NAME.size}` its size, `{NAME.signature}` its
//! signature by the key that the host trusts, and `{server}` the registry's address. Three properties hold of a package
//! that is accepted: its manifest is the pinned one, its component is the manifest's one layer, and the trusted key has
//! signed a document that names the manifest. Whatever comes, the pull ends, and its error names the package.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flyball_registry::{Options, PackageReference, PublicKey, Pulled, pull};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{Target, Verdict};

pub(super) const REGISTRY: Target = Target {
    name: "registry",
    tokens: || TOKENS.to_vec(),
    feed: registry,
};

const TOKENS: &[&str] = &[
    "\npull pinned signed cached\n",
    "\npull signed\n",
    "\nbody wasm component\n",
    "\nbody other another component\n",
    "\nanswer manifests/1 200 manifest\n",
    "\nanswer manifests/sha256 200 manifest\n",
    "\nanswer .sig 200 signatures\n",
    "\nanswer blobs/{wasm} 200 wasm\n",
    "\nanswer blobs/ 307 wasm\n",
    "\nanswer token 200 token\n",
    "\nheader location http://{server}/blobs\n",
    "\nheader location /v2/\n",
    "\nheader www-authenticate Bearer realm=\"http://{server}/token\",service=\"s\"\n",
    "\nheader www-authenticate Basic realm=\"a\"\n",
    "\nheader content-length 99999999999\n",
    "\nheader content-encoding gzip\n",
    "\nheader transfer-encoding chunked\n",
    "\nbody token {\"token\":\"t\"}\n",
    "\nbody error {\"errors\":[{\"code\":\"DENIED\",\"message\":\"no\"}]}\n",
    "\"mediaType\":\"application/wasm\"",
    "\"size\":-1",
    "{wasm.size}",
    "{manifest}",
    "{document.signature}",
    "401",
    "404",
    "429",
    "500",
];

/// The most bodies and answers of an input.
const MAX_LINES: usize = 16;
/// The longest error message in bytes.
const MAX_MESSAGE: usize = 8 * 1024;
/// The maximum duration of a pull without delays.
const PATIENCE: Duration = Duration::from_secs(20);

static KEY: LazyLock<EcdsaKeyPair> = LazyLock::new(|| {
    let (algorithm, random) = (&ECDSA_P256_SHA256_ASN1_SIGNING, SystemRandom::new());
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key is generated");
    EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).expect("it is a key")
});

/// The DER encoding of a P-256 public key up to its point.
const PUBLIC_KEY: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

#[derive(Default)]
struct Script {
    is_pinned: bool,
    is_signed: bool,
    is_cached: bool,
    bodies: BTreeMap<String, String>,
    answers: Vec<Answer>,
    /// Texts that the trusted key has signed.
    signed: Vec<String>,
}

struct Answer {
    path: String,
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Script {
    fn parse(text: &str, server: &str) -> Self {
        let mut script = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words.as_slice() {
                ["pull", ..] => {
                    script.is_pinned = line.contains("pinned");
                    script.is_signed = line.contains("signed");
                    script.is_cached = line.contains("cached");
                }
                ["body", name, ..] if script.bodies.len() < MAX_LINES => {
                    let text = line.splitn(3, ' ').nth(2).unwrap_or_default();
                    let text = script.filled_in(text, server);
                    script.bodies.insert((*name).to_owned(), text);
                }
                ["answer", path, status, name] if script.answers.len() < MAX_LINES => {
                    let path = script.filled_in(path, server);
                    script.answers.push(Answer {
                        path,
                        status: status.parse().unwrap_or(200),
                        headers: Vec::new(),
                        body: script.bodies.get(*name).cloned().unwrap_or_default(),
                    });
                }
                ["header", name, ..] => {
                    let value = line.splitn(3, ' ').nth(2).unwrap_or_default();
                    let value = script.filled_in(value, server);
                    if let Some(answer) = script.answers.last_mut()
                        && stays_here(&value, server)
                    {
                        answer.headers.push(((*name).to_owned(), value));
                    }
                }
                _ => {}
            }
        }
        script
    }

    /// Replaces `{…}`.
    fn filled_in(&mut self, text: &str, server: &str) -> String {
        let mut filled = text.replace("{server}", server);
        for (name, body) in &self.bodies {
            filled = filled
                .replace(&format!("{{{name}}}"), &digest(body.as_bytes()))
                .replace(&format!("{{{name}.size}}"), &body.len().to_string());
            let signature = format!("{{{name}.signature}}");
            if filled.contains(&signature) {
                let signed = KEY.sign(&SystemRandom::new(), body.as_bytes());
                let signed = signed.expect("the key signs");
                filled = filled.replace(&signature, &STANDARD.encode(signed));
                self.signed.push(body.clone());
            }
        }
        filled
    }

    fn answer(&self, path: &str) -> Vec<u8> {
        let found = self.answers.iter().find(|own| path.contains(&own.path));
        let Some(answer) = found else {
            return b"HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n".to_vec();
        };
        let mut head = format!("HTTP/1.1 {} Some\r\nconnection: close\r\n", answer.status);
        for (name, value) in &answer.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        [head.as_bytes(), b"\r\n", answer.body.as_bytes()].concat()
    }

    /// The digest of the manifest that the registry shows under the tag. An operator would pin it.
    fn pin(&self) -> String {
        let shown = self
            .answers
            .iter()
            .find(|own| own.path.contains("manifests"));
        digest(shown.map_or("", |answer| &answer.body).as_bytes())
    }
}

/// Whether a header can't lead to another server than this one.
fn stays_here(value: &str, server: &str) -> bool {
    let own = format!("://{server}/");
    let is_own = |(at, _): (usize, &str)| value[at..].starts_with(&own);
    let is_relative = value.starts_with("//") || value.contains(['\\', '\t', '\r', '\n']);
    value.match_indices("://").all(is_own) && !is_relative
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{hex}")
}

fn registry(input: &[u8]) -> Verdict {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(run(&String::from_utf8_lossy(input)))
}

async fn run(input: &str) -> Verdict {
    let broken = |error: std::io::Error| format!("the registry can't serve: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(broken)?;
    let server = listener.local_addr().map_err(broken)?.to_string();
    let script = Script::parse(input, &server);
    let folder = tempfile::tempdir().map_err(broken)?;
    let options = Options {
        cache: script.is_cached.then(|| folder.path().join("cache")),
        plain_http: false,
        docker_config: Some(folder.path().to_owned()),
    };
    let address = match script.is_pinned {
        true => format!("oci://{server}/team/a@{}", script.pin()),
        false => format!("oci://{server}/team/a:1"),
    };
    let package: PackageReference = address.parse().map_err(|error| format!("{error}"))?;
    let key = [PUBLIC_KEY, KEY.public_key().as_ref()].concat();
    let key = format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        STANDARD.encode(key)
    );
    let key = PublicKey::from_pem(&key).map_err(|error| format!("{error}"))?;
    let pulling = pull(&package, script.is_signed.then_some(&key), &options);
    let serving = async {
        loop {
            if let Ok((stream, _)) = listener.accept().await {
                // A client that has had enough closes the connection.
                let _ = serve(stream, &script).await;
            }
        }
    };
    let pulled = tokio::select! {
        pulled = tokio::time::timeout(PATIENCE, pulling) => pulled,
        () = serving => unreachable!("the registry serves for ever"),
    };
    drop(listener);
    let pulled = pulled.map_err(|_| "the pull does not end".to_owned())?;
    match pulled {
        Ok(pulled) => {
            check(&script, &pulled)?;
            if script.is_cached {
                let pinned = package.pinned(&pulled.digest);
                let again = pull(&pinned, script.is_signed.then_some(&key), &options).await;
                if again.as_ref().ok() != Some(&pulled) {
                    return Err(format!("the cache returns {again:?}, not {pulled:?}"));
                }
            }
            Ok("pulled".into())
        }
        Err(error) => {
            let message = error.to_string();
            if !message.contains(&server) || message.len() > MAX_MESSAGE {
                return Err(format!("the error is `{message}`"));
            }
            Ok(message.replace(&server, ""))
        }
    }
}

async fn serve(mut stream: TcpStream, script: &Script) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default();
    stream.write_all(&script.answer(path)).await
}

/// Checks the properties of an accepted package, with parsers of its own.
fn check(script: &Script, pulled: &Pulled) -> Result<(), String> {
    if script.is_pinned && pulled.digest != script.pin() {
        return Err(format!("{} is accepted for another pin", pulled.digest));
    }
    let manifest = script.answers.iter().map(|answer| &answer.body);
    let manifest = manifest
        .into_iter()
        .find(|body| digest(body.as_bytes()) == pulled.digest);
    let manifest: Value = manifest
        .and_then(|body| serde_json::from_str(body).ok())
        .ok_or("the manifest is not one that the registry has")?;
    let layers = manifest["layers"].as_array().map(Vec::as_slice);
    let Some([layer]) = layers else {
        return Err("a manifest that has not one layer is accepted".into());
    };
    if layer["digest"] != digest(&pulled.wasm) || layer["mediaType"] != "application/wasm" {
        return Err(format!("the component is not the layer {layer}"));
    }
    let names_it = |document: &String| {
        let document: Value = serde_json::from_str(document).unwrap_or_default();
        document["critical"]["image"]["docker-manifest-digest"] == *pulled.digest
    };
    if script.is_signed && !script.signed.iter().any(names_it) {
        return Err("the package is accepted without a signature".into());
    }
    Ok(())
}
