//! Stands in for the crate [kube](https://docs.rs/kube), so that a reconciler that is written for kube-rs becomes a
//! plugin.
//!
//! A plugin renames this crate in its `Cargo.toml`:
//!
//! ```toml
//! kube = { package = "flyball-kube", version = "0.2.0" }
//! ```
//!
//! The paths are the same as in kube: `kube::Api`, `kube::runtime::Controller`, `kube::runtime::finalizer`. Resources,
//! parameters of calls and errors of the API are kube's own types, from `kube-core`. The function that replaces `main`
//! is new: it returns a [`Plugin`], which [`export!`] exports. `docs/kube-rs.md` has the whole recipe and the
//! differences.
//!
//! ```
//! # extern crate flyball_kube as kube;
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
//! use kube::api::{ObjectMeta, Patch, PatchParams};
//! use kube::runtime::controller::{Action, Controller};
//! use kube::runtime::watcher;
//! use kube::{Api, Client, Plugin, Resource, ResourceExt};
//!
//! struct Data {
//!     client: Client,
//! }
//!
//! /// Keeps a ConfigMap in each namespace.
//! async fn reconcile(namespace: Arc<Namespace>, ctx: Arc<Data>) -> Result<Action, kube::Error> {
//!     let map = ConfigMap {
//!         metadata: ObjectMeta {
//!             name: Some("about".into()),
//!             owner_references: namespace.controller_owner_ref(&()).map(|owner| vec![owner]),
//!             ..ObjectMeta::default()
//!         },
//!         ..ConfigMap::default()
//!     };
//!     let maps = Api::<ConfigMap>::namespaced(ctx.client.clone(), &namespace.name_any());
//!     maps.patch("about", &PatchParams::apply("about"), &Patch::Apply(&map)).await?;
//!     Ok(Action::requeue(Duration::from_secs(300)))
//! }
//!
//! fn error_policy(_: Arc<Namespace>, _: &kube::Error, _: Arc<Data>) -> Action {
//!     Action::requeue(Duration::from_secs(1))
//! }
//!
//! fn plugin() -> Plugin {
//!     let client = Client::default();
//!     let namespaces = Api::<Namespace>::all(client.clone());
//!     let maps = Api::<ConfigMap>::all(client.clone());
//!     let controller = Controller::new(namespaces, watcher::Config::default())
//!         .owns(maps, watcher::Config::default())
//!         .run(reconcile, error_policy, Arc::new(Data { client }));
//!     Plugin::new("about", "1.0.0")
//!         .controller(controller)
//!         .permission::<ConfigMap>(["create", "patch"])
//! }
//!
//! kube::export!(plugin);
//!
//! // A test, natively.
//! use kube::sdk::testing::Cluster;
//! let cluster = Cluster::with([serde_json::json!({
//!     "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"},
//! })]);
//! cluster.reconcile::<Exported>("team").unwrap();
//! assert_eq!(cluster.written(), ["patch v1/ConfigMap team/about"]);
//! ```

// Macros of kube-derive refer to the crate as `kube`.
extern crate self as kube;

pub mod api;
pub mod client;
mod current;
pub mod error;
mod executor;
mod logging;
pub mod plugin;
pub mod runtime;
#[cfg(test)]
mod tests;

pub use kube_core as core;
pub use kube_core::{CustomResourceExt, Resource, ResourceExt};
pub use kube_derive::{CustomResource, KubeSchema, Resource};

pub use api::Api;
pub use client::Client;
pub use error::{Error, Result};
pub use flyball_sdk as sdk;
pub use plugin::Plugin;

/// Exports the plugin that a function returns, as the type `Exported`: `export!(plugin);`. Tests reconcile that type.
#[macro_export]
macro_rules! export {
    ($plugin:path) => {
        /// The plugin.
        pub struct Exported;

        impl Exported {
            fn with<T>(call: impl FnOnce(&$crate::Plugin) -> T) -> T {
                ::std::thread_local! {
                    static PLUGIN: $crate::Plugin = $plugin();
                }
                PLUGIN.with(call)
            }
        }

        impl $crate::sdk::Controller for Exported {
            fn describe() -> $crate::sdk::describe::Description {
                Self::with(|plugin| plugin.description().clone())
            }

            fn reconcile(
                host: &$crate::sdk::Host<'_>,
                request: &$crate::sdk::Request,
            ) -> ::std::result::Result<$crate::sdk::Outcome, $crate::sdk::Error> {
                Self::with(|plugin| plugin.reconcile(host, request))
            }

            fn route(
                host: &$crate::sdk::Host<'_>,
                deltas: &[$crate::sdk::Delta],
            ) -> ::std::result::Result<::std::vec::Vec<$crate::sdk::RoutedKey>, $crate::sdk::Error>
            {
                Self::with(|plugin| plugin.route(host, deltas))
            }
        }

        $crate::sdk::export!(Exported);
    };
}
