//! The image: the binary, the C library and the authorities of registries, without a shell, for a user without rights.
//! It is written without a container engine, and is the same byte for byte for the same files. Its layer is not
//! compressed: tools compress it when they push it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use xtask::machine::Architecture;

use super::digest;

/// The user of the container, by number, so that Kubernetes can see that it is not root.
const USER: &str = "65532:65532";
/// The version in the name of the image.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Writes the image as an OCI layout: for one architecture a manifest, for several an index of their manifests. The
/// files of an architecture are given by their paths in the image.
pub(super) fn write(
    contents: &[(Architecture, BTreeMap<String, PathBuf>)],
    layout: &Path,
) -> Result<()> {
    if layout.exists() {
        fs::remove_dir_all(layout)?;
    }
    fs::create_dir_all(layout.join("blobs/sha256"))
        .with_context(|| format!("can't create {}", layout.display()))?;
    let manifests = contents
        .iter()
        .map(|(architecture, files)| manifest(layout, *architecture, files))
        .collect::<Result<Vec<Value>>>()?;
    let mut image = match manifests.as_slice() {
        [manifest] => manifest.clone(),
        manifests => blob(layout, &media("index.v1+json"), &index(manifests))?,
    };
    // The second name is containerd's.
    image["annotations"] = json!({
        "org.opencontainers.image.ref.name": VERSION,
        "io.containerd.image.name": format!("docker.io/library/flyball:{VERSION}"),
    });
    fs::write(layout.join("index.json"), index(&[image]))?;
    let version = json!({"imageLayoutVersion": "1.0.0"});
    fs::write(layout.join("oci-layout"), version.to_string())?;
    Ok(())
}

fn media(kind: &str) -> String {
    format!("application/vnd.oci.image.{kind}")
}

fn index(manifests: &[Value]) -> Vec<u8> {
    let index =
        json!({"schemaVersion": 2, "mediaType": media("index.v1+json"), "manifests": manifests});
    index.to_string().into_bytes()
}

/// Writes the image for one architecture, and returns the descriptor of its manifest.
fn manifest(
    layout: &Path,
    architecture: Architecture,
    files: &BTreeMap<String, PathBuf>,
) -> Result<Value> {
    let layer = layer(files)?;
    let config = json!({
        "architecture": architecture.of_images(),
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {
            "User": USER,
            "Entrypoint": ["/flyball"],
            "WorkingDir": "/",
            "Labels": {
                "org.opencontainers.image.title": "flyball",
                "org.opencontainers.image.version": VERSION,
                "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", digest(&layer))]},
    });
    let config = blob(
        layout,
        &media("config.v1+json"),
        config.to_string().as_bytes(),
    )?;
    let layer = blob(layout, &media("layer.v1.tar"), &layer)?;
    let manifest = json!({
        "schemaVersion": 2, "mediaType": media("manifest.v1+json"), "config": config, "layers": [layer],
    });
    let mut manifest = blob(
        layout,
        &media("manifest.v1+json"),
        manifest.to_string().as_bytes(),
    )?;
    manifest["platform"] = json!({"architecture": architecture.of_images(), "os": "linux"});
    Ok(manifest)
}

/// Writes a layout as one file, which `kind load image-archive` and `ctr images import` read.
pub(super) fn archive(layout: &Path, file: &Path) -> Result<()> {
    let mut names = vec!["index.json".to_owned(), "oci-layout".to_owned()];
    for blob in fs::read_dir(layout.join("blobs/sha256"))? {
        let name = blob?.file_name();
        names.push(format!("blobs/sha256/{}", name.display()));
    }
    names.sort();
    let mut archive = tar::Builder::new(File::create(file)?);
    for name in names {
        append(&mut archive, &name, 0o644, &fs::read(layout.join(&name))?)?;
    }
    archive.into_inner()?;
    Ok(())
}

/// The archive of the files and of the folders that they are in.
fn layer(files: &BTreeMap<String, PathBuf>) -> Result<Vec<u8>> {
    let mut entries = BTreeMap::new();
    for (to, from) in files {
        let path = to.trim_start_matches('/');
        for (at, _) in path.match_indices('/') {
            entries.insert(format!("{}/", &path[..at]), None);
        }
        entries.insert(path.to_owned(), Some(from));
    }
    let mut archive = tar::Builder::new(Vec::new());
    for (path, file) in entries {
        let content = match file {
            Some(file) => {
                fs::read(file).with_context(|| format!("can't read {}", file.display()))?
            }
            None => Vec::new(),
        };
        let is_text = path.ends_with(".crt");
        append(
            &mut archive,
            &path,
            if is_text { 0o644 } else { 0o755 },
            &content,
        )?;
    }
    Ok(archive.into_inner()?)
}

/// Adds a file of root's, or a folder if the path ends with a slash. It has no time.
pub(super) fn append<W: std::io::Write>(
    archive: &mut tar::Builder<W>,
    path: &str,
    mode: u32,
    content: &[u8],
) -> Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(match path.ends_with('/') {
        true => tar::EntryType::Directory,
        false => tar::EntryType::Regular,
    });
    header.set_mode(mode);
    header.set_size(content.len().try_into()?);
    Ok(archive.append_data(&mut header, path, content)?)
}

/// Writes a blob, and returns its descriptor.
fn blob(layout: &Path, media_type: &str, content: &[u8]) -> Result<Value> {
    let digest = digest(content);
    fs::write(layout.join("blobs/sha256").join(&digest), content)?;
    Ok(
        json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": content.len()}),
    )
}

#[cfg(test)]
mod tests {
    use flyball_cluster_tests::{bundle_command, unable};
    use flyball_controlplane::skip;

    use super::super::files::of_image;
    use super::*;

    /// Writes an image of this test's own binary, and returns the folder with it and the layout.
    fn image() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("flyball");
        crate::release::separate("objcopy", &std::env::current_exe().unwrap(), &binary).unwrap();
        let layout = folder.path().join("image");
        write_own(&binary, &layout);
        (folder, layout)
    }

    fn write_own(binary: &Path, layout: &Path) {
        let own = Architecture::own().expect("a release is built for this machine");
        write(&[(own, of_image(own, binary).unwrap())], layout).unwrap();
    }

    fn blob_of(layout: &Path, descriptor: &Value) -> Vec<u8> {
        let digest = descriptor["digest"].as_str().unwrap();
        let content = fs::read(layout.join("blobs").join(digest.replace(':', "/"))).unwrap();
        assert_eq!(format!("sha256:{}", super::digest(&content)), digest);
        assert_eq!(descriptor["size"], content.len());
        content
    }

    /// The configuration of the image, and its only layer.
    fn parts(layout: &Path) -> (Value, Vec<u8>) {
        let index = fs::read(layout.join("index.json")).unwrap();
        let index: Value = serde_json::from_slice(&index).unwrap();
        let manifest = blob_of(layout, &index["manifests"][0]);
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        let config = blob_of(layout, &manifest["config"]);
        (
            serde_json::from_slice(&config).unwrap(),
            blob_of(layout, &manifest["layers"][0]),
        )
    }

    #[test]
    fn two_images_of_one_binary_are_the_same_byte_for_byte() {
        let (folder, first) = image();
        let second = folder.path().join("second");
        write_own(&folder.path().join("flyball"), &second);
        let archives = [("first.tar", &first), ("second.tar", &second)].map(|(name, layout)| {
            let file = folder.path().join(name);
            archive(layout, &file).unwrap();
            fs::read(file).unwrap()
        });
        assert!(archives[0].len() > 1_000_000);
        assert!(archives[0] == archives[1], "the archives differ");
    }

    #[test]
    fn an_image_for_several_architectures_has_a_manifest_for_each() {
        let folder = tempfile::tempdir().unwrap();
        let contents = Architecture::ALL.map(|architecture| {
            let file = folder.path().join(architecture.name());
            fs::write(&file, architecture.name()).unwrap();
            (
                architecture,
                BTreeMap::from([("/flyball".to_owned(), file)]),
            )
        });
        let layout = folder.path().join("image");
        write(&contents, &layout).unwrap();
        let parse = |content: &[u8]| -> Value { serde_json::from_slice(content).unwrap() };
        let outer = parse(&fs::read(layout.join("index.json")).unwrap());
        assert_eq!(outer["manifests"].as_array().unwrap().len(), 1);
        let image = parse(&blob_of(&layout, &outer["manifests"][0]));
        let found = image["manifests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|descriptor| {
                let manifest = parse(&blob_of(&layout, descriptor));
                let config = parse(&blob_of(&layout, &manifest["config"]));
                assert_eq!(
                    config["architecture"],
                    descriptor["platform"]["architecture"]
                );
                let layer = blob_of(&layout, &manifest["layers"][0]);
                let mut archive = tar::Archive::new(layer.as_slice());
                let mut file = archive.entries().unwrap().next().unwrap().unwrap();
                let content = std::io::read_to_string(&mut file).unwrap();
                (config["architecture"].as_str().unwrap().to_owned(), content)
            });
        let expected = [("amd64", "x86_64"), ("arm64", "aarch64")];
        assert!(found.eq(expected.map(|(name, content)| (name.to_owned(), content.to_owned()))));
    }

    #[test]
    fn the_image_runs_as_a_user_without_rights_and_has_no_shell() {
        let (folder, layout) = image();
        let (config, layer) = parts(&layout);
        let bundle = folder.path().join("bundle");
        let root = bundle.join("root");
        let unpack = || tar::Archive::new(layer.as_slice());
        let names: Vec<String> = unpack()
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .filter(|name| !name.ends_with('/'))
            .collect();
        let is_expected =
            |name: &String| name == "flyball" || name.ends_with(".crt") || name.contains(".so.");
        assert!(
            names.len() > 3 && names.iter().all(is_expected),
            "{names:?}"
        );
        assert_eq!(config["config"]["User"], "65532:65532");
        if let Some(reason) = unable() {
            let name = "the_image_runs_as_a_user_without_rights_and_has_no_shell";
            return skip(name, reason).unwrap();
        }
        unpack().unpack(&root).unwrap();
        let arguments = [
            &config["config"]["Entrypoint"][0],
            &json!("--list"),
            &json!("dist::"),
        ];
        let runtime = json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 65532, "gid": 65532}, "args": arguments, "cwd": "/", "capabilities": {}, "noNewPrivileges": true,
            },
            "root": {"path": "root", "readonly": true},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            ],
            "linux": {"namespaces": [{"type": "mount"}]},
        });
        fs::write(bundle.join("config.json"), runtime.to_string()).unwrap();
        let ran = bundle_command(&bundle).output().unwrap();
        let printed = String::from_utf8_lossy(&ran.stdout);
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{printed}{said}");
        assert!(printed.contains("dist::image::tests::"), "{printed}{said}");
    }
}
