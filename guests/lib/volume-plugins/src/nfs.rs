//! `kubernetes.io/nfs`: shares of NFS servers.
//!
//! Upstream: pkg/volume/nfs/nfs.go: GetVolumeName, CanSupport, Recycle.

use flyball_sdk::{Error, Host};
use serde_json::json;

use crate::recycler::{Recycled, Recycler};
use crate::steps::{Operation, Recycling};
use crate::{Volume, VolumePlugin};

pub const NAME: &str = "kubernetes.io/nfs";

/// The plugin.
#[derive(Clone, Debug)]
pub struct Nfs {
    pub recycler: Recycler,
}

impl Default for Nfs {
    fn default() -> Self {
        Self {
            recycler: Recycler::of(Recycled::Nfs),
        }
    }
}

impl Nfs {
    pub(crate) fn read(host: &Host) -> Result<Self, Error> {
        let recycler = Recycler::read(host, Recycled::Nfs)?;
        Ok(Self { recycler })
    }
}

/// The server and the path of a share.
fn share<'a>(volume: Volume<'a>) -> (&'a str, &'a str) {
    let text = |field| {
        let source = volume.source("nfs");
        source
            .and_then(|source| source[field].as_str())
            .unwrap_or_default()
    };
    (text("server"), text("path"))
}

impl VolumePlugin for Nfs {
    fn name(&self) -> &str {
        NAME
    }

    fn supports(&self, volume: Volume) -> bool {
        volume.source("nfs").is_some()
    }

    fn volume_name(&self, volume: Volume) -> Option<String> {
        let (server, path) = share(volume);
        Some(format!("{server}/{path}"))
    }

    fn operations(&self) -> &'static [Operation] {
        &[Operation::Recycle]
    }

    fn recycle(&self, volume: Volume) -> Recycling {
        let (server, path) = share(volume);
        let source = ("nfs", json!({"server": server, "path": path}));
        Recycling::Pod(self.recycler.pod(volume, source))
    }
}
