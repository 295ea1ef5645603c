//! The exports of a component: those of a controller, which each has, and those of a cloud, which only a provider has.

use wasmtime::Store;
use wasmtime::component::InstancePre;

use crate::bindings::cloud::exports::flyball::cloud::provider::Guest as Provider;
use crate::bindings::cloud::{Sdk, SdkIndices};
use crate::bindings::exports::flyball::controller::guest::Guest;
use crate::bindings::{Controller, ControllerIndices};
use crate::cloud::PROVIDER;
use crate::world::InstanceState;

/// A component that is linked with the host's functions, and the places of its exports.
pub(crate) struct Linked {
    component: InstancePre<InstanceState>,
    controller: ControllerIndices,
    /// None if the component is not a provider.
    cloud: Option<SdkIndices>,
}

/// The exports of an instance.
pub(crate) struct Exports {
    controller: Controller,
    cloud: Option<Sdk>,
}

impl Linked {
    /// Fails if the types of an export differ from the world's.
    pub(crate) fn new(component: InstancePre<InstanceState>) -> wasmtime::Result<Self> {
        let controller = ControllerIndices::new(&component)?;
        let exported = component.component().get_export_index(None, PROVIDER);
        let cloud = exported.map(|_| SdkIndices::new(&component)).transpose()?;
        Ok(Self {
            component,
            controller,
            cloud,
        })
    }

    pub(crate) fn component(&self) -> &wasmtime::component::Component {
        self.component.component()
    }

    pub(crate) fn engine(&self) -> &wasmtime::Engine {
        self.component.engine()
    }

    /// Whether the component exports a cloud.
    pub(crate) fn is_provider(&self) -> bool {
        self.cloud.is_some()
    }

    pub(crate) async fn instantiate(
        &self,
        store: &mut Store<InstanceState>,
    ) -> wasmtime::Result<Exports> {
        let instance = self.component.instantiate_async(&mut *store).await?;
        let controller = self.controller.load(&mut *store, &instance)?;
        let cloud = self.cloud.as_ref();
        let cloud = cloud.map(|cloud| cloud.load(&mut *store, &instance));
        Ok(Exports {
            controller,
            cloud: cloud.transpose()?,
        })
    }
}

impl Exports {
    pub(crate) fn controller(&self) -> &Guest {
        self.controller.flyball_controller_guest()
    }

    /// Fails if the component is not a provider.
    pub(crate) fn cloud(&self) -> wasmtime::Result<&Provider> {
        let cloud = self.cloud.as_ref();
        let cloud = cloud.ok_or_else(|| wasmtime::Error::msg("the component exports no cloud"))?;
        Ok(cloud.flyball_cloud_provider())
    }
}
