//! The cluster that a project runs on: the one of a kubeconfig, or a control plane on this machine.

use std::path::{Path, PathBuf};

use anyhow::Context;
use flyball_devcluster::{Assets, ControlPlane, Options};
use kube::Client;
use sha2::{Digest, Sha256};

use super::console::say;
use crate::tools::served::ClusterFlags;

pub(super) enum Cluster {
    Given {
        kubeconfig: PathBuf,
        context: Option<String>,
    },
    Local(Box<ControlPlane>),
}

impl Cluster {
    /// The cluster of a kubeconfig.
    pub(super) fn given(kubeconfig: PathBuf, context: Option<String>) -> Self {
        Self::Given {
            kubeconfig,
            context,
        }
    }

    /// Starts a control plane for a project, with the binaries of this folder; by default, it looks for them.
    pub(super) async fn start(binaries: Option<&Path>, project: &Path) -> anyhow::Result<Self> {
        let assets = Assets::installed(binaries).context(
            "no cluster to run on: name one with --kubeconfig, or the folder of etcd and kube-apiserver with --control-plane \
             (`setup-envtest use` downloads them)",
        )?;
        say("starting a control plane (etcd and kube-apiserver)");
        let options = Options {
            scheduler: false,
            seed: Some(seed(project)),
            ..Options::default()
        };
        let plane = ControlPlane::start(assets, options).await?;
        say(&format!(
            "a control plane runs, without nodes: export KUBECONFIG={}",
            plane.kubeconfig_path().display()
        ));
        // kubectl keeps the kinds of an address for hours, and the project's next control plane has this one.
        let folder = plane.kubeconfig_path().with_file_name("kubectl-cache");
        say(&format!(
            "so that kubectl forgets its kinds afterwards: export KUBECACHEDIR={}",
            folder.display()
        ));
        Ok(Self::Local(Box::new(plane)))
    }

    pub(super) fn kubeconfig(&self) -> &Path {
        match self {
            Self::Given { kubeconfig, .. } => kubeconfig,
            Self::Local(plane) => plane.kubeconfig_path(),
        }
    }

    /// Flags that name this cluster.
    pub(super) fn flags(&self) -> ClusterFlags {
        ClusterFlags {
            kubeconfig: Some(self.kubeconfig().to_owned()),
            context: match self {
                Self::Given { context, .. } => context.clone(),
                Self::Local(_) => None,
            },
        }
    }

    pub(super) async fn client(&self) -> anyhow::Result<Client> {
        let config = self.flags().config().await?;
        let url = config.cluster_url.clone();
        Client::try_from(config).with_context(|| format!("can't create a client for {url}"))
    }

    pub(super) async fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Given { .. } => Ok(()),
            Self::Local(plane) => plane.shutdown().await,
        }
    }
}

/// A number for the ports of a project's control planes: the same for the same folder.
fn seed(project: &Path) -> u16 {
    let path = project.canonicalize();
    let path = path.unwrap_or_else(|_| project.to_owned());
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    u16::from_be_bytes([digest[0], digest[1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_one_number_by_whatever_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let project = folder.path().join("hello");
        std::fs::create_dir(&project).expect("it is created");
        assert_eq!(seed(&project), seed(&project.join("../hello/.")));
        assert_ne!(seed(&project), seed(folder.path()));
    }
}
