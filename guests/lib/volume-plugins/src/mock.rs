//! A plugin for tests, which replaces all others and handles every volume.
//!
//! Upstream: pkg/volume/testing/testing.go: GetVolumeName, CanSupport, Attach, Provision.

use std::time::Duration;

use flyball_sdk::describe::Description;
use flyball_sdk::{Error, Host};
use serde_json::Value;

use crate::host_path::host_path_volume;
use crate::steps::{Attaching, Operation, ProvisionRequest, Provisioning};
use crate::{Volume, VolumePlugin};

/// Configuration key: the name of the plugin.
const PLUGIN: &str = "volume-plugin";
/// Configuration key: how long it takes to provision.
const PROVISION_DELAY: &str = "volume-plugin-provision-delay";
/// The parameter of classes for which it does not provision.
const EXPECT_FAILURE: &str = "expect-provision-failure";

/// Declares the configuration of the mock.
pub fn declare(description: Description) -> Description {
    description
        .config(
            PLUGIN,
            None,
            "The name of a mock that replaces all volume plugins, for tests.",
        )
        .config(
            PROVISION_DELAY,
            Some("0s"),
            "How long that mock takes to provision a volume.",
        )
}

/// The plugin.
#[derive(Clone, Debug)]
pub struct Mock {
    name: String,
    provision_delay: Duration,
}

impl Mock {
    pub fn new(name: &str, provision_delay: Duration) -> Self {
        Self {
            name: name.into(),
            provision_delay,
        }
    }

    /// Returns the mock if the configuration names one.
    pub(crate) fn read(host: &Host) -> Result<Option<Self>, Error> {
        let Some(name) = host.config(PLUGIN).filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let delay = host.config_duration(PROVISION_DELAY, Duration::ZERO)?;
        Ok(Some(Self::new(&name, delay)))
    }
}

impl VolumePlugin for Mock {
    fn name(&self) -> &str {
        &self.name
    }

    fn supports(&self, _: Volume) -> bool {
        true
    }

    fn volume_name(&self, volume: Volume) -> Option<String> {
        Some(volume.name().into())
    }

    fn operations(&self) -> &'static [Operation] {
        &[
            Operation::Recycle,
            Operation::Delete,
            Operation::Provision,
            Operation::Attach,
        ]
    }

    fn provision(&self, request: &ProvisionRequest) -> Provisioning {
        if request.parameters[EXPECT_FAILURE] != Value::Null {
            return Provisioning::Failed("expected error".into());
        }
        Provisioning::Created {
            volume: host_path_volume(request),
            after: self.provision_delay,
        }
    }

    fn attach(&self, _: Volume, _: &str) -> Attaching {
        Attaching::Attached("/dev/vdb-test".into())
    }
}
