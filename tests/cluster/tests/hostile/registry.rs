//! Attacks by a registry that a policy pulls a plugin from.

use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::arena::{Arena, Class};

/// A registry's responses, and the host's expected error about the package.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    /// The manifest that the policy pins.
    manifest: fn() -> String,
    /// The status and the body for the path of a request.
    respond: fn(&str) -> (&'static str, Vec<u8>),
    is_signed: bool,
    expects: &'static str,
}

const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
const MANIFEST: &str = "/manifests/";

const CASES: &[Case] = &[
    Case {
        name: "endless-manifest",
        manifest: || manifest("endless-manifest", COMPONENT.len()),
        respond: |_| ("200 OK", vec![b' '; 64 << 20]),
        is_signed: false,
        expects: "is larger than the limit of 4194304 bytes",
    },
    Case {
        name: "other-manifest",
        manifest: || manifest("other-manifest", COMPONENT.len()),
        respond: |_| ("200 OK", manifest("another", 1).into()),
        is_signed: false,
        expects: "does not match its digest",
    },
    Case {
        name: "deep-manifest",
        manifest: || "[".repeat(1_000_000),
        respond: |_| ("200 OK", "[".repeat(1_000_000).into()),
        is_signed: false,
        expects: "its manifest can't be read",
    },
    Case {
        name: "huge-layer",
        manifest: || manifest("huge-layer", 10 << 30),
        respond: |path| pinned(path, manifest("huge-layer", 10 << 30), vec![0; 1 << 20]),
        is_signed: false,
        expects: "is larger than the limit of 67108864 bytes",
    },
    Case {
        name: "other-layer",
        manifest: || manifest("other-layer", COMPONENT.len()),
        respond: |path| {
            pinned(
                path,
                manifest("other-layer", COMPONENT.len()),
                b"\0asm\x0d\0\x01\x01".into(),
            )
        },
        is_signed: false,
        expects: "does not match its digest",
    },
    Case {
        name: "longer-layer",
        manifest: || manifest("longer-layer", COMPONENT.len()),
        respond: |path| {
            pinned(
                path,
                manifest("longer-layer", COMPONENT.len()),
                vec![0; 64 << 20],
            )
        },
        is_signed: false,
        expects: "does not match its digest",
    },
    Case {
        name: "empty-component",
        manifest: || manifest("empty-component", COMPONENT.len()),
        respond: |path| {
            pinned(
                path,
                manifest("empty-component", COMPONENT.len()),
                COMPONENT.into(),
            )
        },
        is_signed: false,
        expects: "is not a Flyball controller",
    },
    Case {
        name: "redirects-for-ever",
        manifest: || manifest("redirects-for-ever", COMPONENT.len()),
        respond: |_| ("302 Found\r\nlocation: /again", Vec::new()),
        is_signed: false,
        expects: "can't pull",
    },
    Case {
        name: "endless-token",
        manifest: || manifest("endless-token", COMPONENT.len()),
        respond: |path| match path.contains("/token") {
            true => ("200 OK", vec![b' '; 64 << 20]),
            false => (
                "401 Unauthorized\r\nwww-authenticate: Bearer realm=\"http://{server}/token\"",
                Vec::new(),
            ),
        },
        is_signed: false,
        expects: "is larger than the limit of 1048576 bytes",
    },
    Case {
        name: "unsigned-package",
        manifest: || manifest("unsigned-package", COMPONENT.len()),
        respond: |path| match path.contains(".sig") {
            true => ("404 Not Found", Vec::new()),
            false => pinned(
                path,
                manifest("unsigned-package", COMPONENT.len()),
                COMPONENT.into(),
            ),
        },
        is_signed: true,
        expects: "is not signed, and a signature is required",
    },
];

/// A manifest with a layer that claims this size. Each case has its own, because the host keeps packages that it has
/// pulled.
fn manifest(case: &str, size: usize) -> String {
    let digest = digest(COMPONENT);
    format!(
        r#"{{"schemaVersion": 2, "layers": [{{"mediaType": "application/wasm", "digest": "{digest}", "size": {size}}}],
            "config": {{"mediaType": "application/vnd.wasm.config.v0+json", "digest": "{digest}", "size": 2}},
            "annotations": {{"case": "{case}"}}}}"#
    )
}

fn pinned(path: &str, manifest: String, layer: Vec<u8>) -> (&'static str, Vec<u8>) {
    match path.contains(MANIFEST) {
        true => ("200 OK", manifest.into()),
        false => ("200 OK", layer),
    }
}

fn digest(bytes: &[u8]) -> String {
    let hex = Sha256::digest(bytes);
    let hex: String = hex.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// The cases that run each time.
const QUICK: [&str; 2] = ["huge-layer", "unsigned-package"];

pub(crate) async fn all(arena: &mut Arena) -> Result<()> {
    attack(arena, CASES.iter()).await
}

/// Runs a few cases.
pub(crate) async fn some(arena: &mut Arena) -> Result<()> {
    let is_quick = |case: &&Case| QUICK.contains(&case.name);
    attack(arena, CASES.iter().filter(is_quick)).await
}

async fn attack<'a>(arena: &mut Arena, cases: impl Iterator<Item = &'a Case>) -> Result<()> {
    let registry = Registry::start().await?;
    let key = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../host/registry/testdata/cosign.pub");
    let key = key.canonicalize().context("the public key is there")?;
    for case in cases {
        registry.answer(case);
        let from = arena.log()?.len();
        arena.reset_peak()?;
        let signed_by = match case.is_signed {
            true => format!("signed-by = {:?}", key.display().to_string()),
            false => String::new(),
        };
        let pin = digest((case.manifest)().as_bytes());
        arena.write_policy(&format!(
            "[plugins.packaged]\nsource = \"oci://{}/{}@{pin}\"\n{signed_by}\n",
            registry.address, case.name
        ))?;
        arena
            // The package has the case's name.
            .says_of(case.name, from, case.name, case.expects)
            .await?;
        arena
            .passed(case.name, Class::Registry, from, case.expects)
            .await?;
    }
    arena.write_policy("")
}

/// A registry on a port of this machine.
struct Registry {
    address: String,
    case: Arc<Mutex<Case>>,
    serving: AbortHandle,
}

impl Registry {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let case = Arc::new(Mutex::new(CASES[0]));
        let (server, current) = (address.clone(), case.clone());
        let serve = async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = stream.read_u8().await else {
                        break;
                    };
                    head.push(byte);
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let path = head.split(' ').nth(1).unwrap_or_default();
                let respond = current.lock().expect("no holder panics").respond;
                let (status, body) = respond(path);
                let status = status.replace("{server}", &server);
                let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n\r\n");
                // A client closes the connection once a response is too large.
                let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
            }
        };
        Ok(Self {
            address,
            case,
            serving: tokio::spawn(serve).abort_handle(),
        })
    }

    fn answer(&self, case: &Case) {
        *self.case.lock().expect("no holder panics") = *case;
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
