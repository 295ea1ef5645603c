//! The archives that users download: the binary of each architecture, and the chart as `helm package` writes it. They are
//! the same byte for byte for the same files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use xtask::machine::Architecture;
use xtask::run::workspace;

use super::image::append;

/// The version of the release.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The folder of the chart.
const CHART: &str = "deploy/helm/flyball";

/// Writes the archive of a binary, which has the licence beside it. Returns its path.
pub(super) fn of_binary(
    architecture: Architecture,
    binary: &Path,
    folder: &Path,
) -> Result<PathBuf> {
    let file = folder.join(format!(
        "flyball-{VERSION}-linux-{}.tar.gz",
        architecture.name()
    ));
    let licence = workspace().join("LICENSE");
    write(
        &file,
        &[
            ("flyball".into(), 0o755, binary.to_owned()),
            ("LICENSE".into(), 0o644, licence),
        ],
    )?;
    Ok(file)
}

/// Writes the archive of the chart. Returns its path.
pub(super) fn of_chart(folder: &Path) -> Result<PathBuf> {
    let root = workspace().join(CHART);
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(current) = folders.pop() {
        let entries =
            fs::read_dir(&current).with_context(|| format!("can't read {}", current.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&root)?.display().to_string();
            if name != ".helmignore" {
                files.push((format!("flyball/{name}"), 0o644, path));
            }
        }
    }
    // Helm reads the chart's own file first.
    files.sort_by_key(|(name, ..)| (name != "flyball/Chart.yaml", name.clone()));
    let file = folder.join(format!("flyball-{VERSION}.tgz"));
    write(&file, &files)?;
    Ok(file)
}

/// Writes an archive of files: for each its name, its mode and its place.
fn write(archive: &Path, files: &[(String, u32, PathBuf)]) -> Result<()> {
    let to =
        File::create(archive).with_context(|| format!("can't create {}", archive.display()))?;
    let mut builder = tar::Builder::new(GzEncoder::new(to, Compression::best()));
    for (name, mode, from) in files {
        let content = fs::read(from).with_context(|| format!("can't read {}", from.display()))?;
        append(&mut builder, name, *mode, &content)?;
    }
    builder.into_inner()?.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// What tar lists of an archive.
    fn listed(archive: &Path) -> String {
        let output = Command::new("tar")
            .arg("-tzvf")
            .arg(archive)
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn an_archive_has_the_binary_that_can_be_run_and_the_licence() {
        let folder = tempfile::tempdir().unwrap();
        let own = Architecture::own().expect("a release is built for this machine");
        let archive = of_binary(own, Path::new("/proc/self/exe"), folder.path()).unwrap();
        let listed = listed(&archive);
        assert!(
            listed.contains("-rwxr-xr-x") && listed.contains(" flyball\n"),
            "{listed}"
        );
        assert!(listed.contains(" LICENSE\n"), "{listed}");
        let again = tempfile::tempdir().unwrap();
        let second = of_binary(own, Path::new("/proc/self/exe"), again.path()).unwrap();
        assert_eq!(fs::read(archive).unwrap(), fs::read(second).unwrap());
    }

    #[test]
    fn the_chart_is_below_its_name_and_has_the_version_of_the_release() {
        let folder = tempfile::tempdir().unwrap();
        let listed = listed(&of_chart(folder.path()).unwrap());
        for name in [
            "flyball/Chart.yaml",
            "flyball/values.yaml",
            "flyball/templates/deployment.yaml",
        ] {
            assert!(listed.contains(&format!(" {name}\n")), "{listed}");
        }
        let chart = fs::read_to_string(workspace().join(CHART).join("Chart.yaml")).unwrap();
        for field in ["version", "appVersion"] {
            assert!(
                chart.contains(&format!("\n{field}: {VERSION}\n")),
                "{chart}"
            );
        }
    }
}
