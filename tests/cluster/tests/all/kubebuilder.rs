//! `docs/kubebuilder.md`, word for word: from a project that kubebuilder itself scaffolds to a running plugin.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Book, Cluster, finish, host};
use flyball_controlplane::{kubectl, skip};

use crate::tutorials::Reader;

/// The page's version of kubebuilder.
const KUBEBUILDER: &str = "sigs.k8s.io/kubebuilder/v4@v4.16.0";
const PAGE: &str = "kubebuilder.md";

#[tokio::test]
#[ignore = "builds kubebuilder, and builds and compiles two large plugins, which takes some minutes"]
async fn a_project_that_kubebuilder_scaffolds_becomes_a_plugin() -> Result<()> {
    for tool in ["go", "make"] {
        let version = if tool == "go" { "version" } else { "--version" };
        if Command::new(tool).arg(version).output().is_err() {
            return skip(
                "a_project_that_kubebuilder_scaffolds_becomes_a_plugin",
                &format!("{tool} is missing"),
            );
        }
    }
    let kubectl = kubectl().await?;
    let cluster = Cluster::for_plugins().await?;
    let result = follow(&cluster, &kubectl).await;
    finish(cluster, [], result).await
}

async fn follow(cluster: &Cluster, kubectl: &Path) -> Result<()> {
    let programs = cluster.plane.dir().join("programs");
    fs::create_dir(&programs)?;
    symlink(kubectl, programs.join("kubectl"))?;
    symlink(host()?.canonicalize()?, programs.join("flyball"))?;
    let built = Command::new("go")
        .args(["install", KUBEBUILDER])
        .env("GOBIN", &programs)
        .output()
        .context("can't run `go`")?;
    ensure!(
        built.status.success(),
        "can't build {KUBEBUILDER}: {}",
        String::from_utf8_lossy(&built.stderr)
    );
    let folder = tempfile::tempdir()?;
    // kubebuilder names the project after its folder.
    let project = folder.path().join("web");
    fs::create_dir(&project)?;
    let mut reader = Reader::new(cluster, &programs, &project, PAGE)?;
    let result = reader.follow(&Book::of_checkout().steps(PAGE)?).await;
    result.with_context(|| format!("docs/{PAGE} can't be followed"))
}
