//! `flyball push` and `flyball pull`: plugins as packages in OCI registries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flyball_policy::Policy;
use flyball_registry::{Options, Package, PackageReference, PublicKey};

use super::load::load;
use super::producers;

/// Maximum size of a public key's file, in bytes.
const MAX_KEY: usize = 64 * 1024;

/// Pushes a file. Returns the pinned reference of the package.
pub(super) async fn push(file: &Path, to: &str, plain_http: bool) -> anyhow::Result<String> {
    let to: PackageReference = to.parse()?;
    let inspection = load(file, &Policy::default()).await?;
    let interface = producers::read(&inspection.wasm);
    let annotations = [
        ("title", &inspection.description.name),
        ("version", &inspection.description.version),
    ];
    let annotations = annotations
        .map(|(name, value)| (format!("org.opencontainers.image.{name}"), value.clone()));
    let package = Package {
        wasm: inspection.wasm,
        exports: interface.exports,
        imports: interface.imports,
        annotations: BTreeMap::from(annotations),
    };
    let pinned = flyball_registry::push(
        &to,
        package,
        &Options {
            plain_http,
            ..Options::default()
        },
    )
    .await?;
    Ok(format!("{pinned}\n"))
}

/// Pulls a package into a file. Returns the file's path and the pinned reference of the package.
pub(super) async fn pull(
    from: &str,
    output: Option<PathBuf>,
    signed_by: Option<&Path>,
    plain_http: bool,
) -> anyhow::Result<String> {
    let from: PackageReference = from.parse()?;
    let key = signed_by.map(key).transpose()?;
    let options = Options {
        plain_http,
        ..Options::default()
    };
    let pulled = flyball_registry::pull(&from, key.as_ref(), &options).await?;
    let name = from.repository().rsplit('/').next().unwrap_or_default();
    let output = output.unwrap_or_else(|| format!("{name}.wasm").into());
    std::fs::write(&output, &pulled.wasm)
        .with_context(|| format!("can't write {}", output.display()))?;
    let signed = if key.is_some() {
        ", signed with the key"
    } else {
        ""
    };
    Ok(format!(
        "{}: {}{signed}\n",
        output.display(),
        from.pinned(&pulled.digest)
    ))
}

fn key(path: &Path) -> anyhow::Result<PublicKey> {
    let text = flyball_files::read_to_string(path, MAX_KEY)
        .with_context(|| format!("can't read the public key {}", path.display()))?;
    PublicKey::from_pem(&text).with_context(|| format!("--signed-by {}", path.display()))
}
