//! The SDK for controllers written in Rust.
//!
//! A controller is a type with two functions. [`describe`](Controller::describe) declares what the
//! controller watches, which keys a change enqueues and which writes it needs.
//! [`reconcile`](Controller::reconcile) brings the cluster to the state that the object of a key
//! asks for. A [`View`] names the fields that it reads, once for the description, the reads and the
//! parsing. A controller reaches everything else through the [`Host`]; it must not depend on state
//! between calls.
//!
//! With the feature `k8s-openapi`, the types of that crate are views too: see the module `k8s`.
//!
//! The same code runs in the sandbox, exported by [`export!`], and natively, with the in-memory API
//! server of [`testing`].
//!
//! ```
//! use flyball_sdk::prelude::*;
//! use flyball_sdk::testing::Cluster;
//!
//! /// A Namespace that asks for a quota.
//! #[derive(View, Debug, Default)]
//! #[view(kind = "v1/Namespace")]
//! struct Namespace {
//!     #[view(path = "metadata.annotations['example.com/pods']")]
//!     pods: Option<Quantity>,
//! }
//!
//! /// The quota that it gets.
//! #[derive(View, Debug, Default)]
//! #[view(kind = "v1/ResourceQuota")]
//! struct Quota {
//!     #[view(path = "metadata", fields("labels"))]
//!     meta: Meta,
//!     #[view(path = "spec.hard.pods")]
//!     pods: Option<Quantity>,
//! }
//!
//! struct Quotas;
//!
//! export!(Quotas);
//!
//! impl Controller for Quotas {
//!     fn describe() -> Description {
//!         describe("quotas", "1.0.0")
//!             .watch(watch::<Namespace>().enqueue(Mapping::itself()))
//!             .watch(
//!                 watch::<Quota>()
//!                     .label_selector("example.com/ours")
//!                     .enqueue(Mapping::namespace()),
//!             )
//!             .queue("quotas")
//!             .permission(Quota::KIND, ["get", "create", "update"])
//!     }
//!
//!     fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
//!         let name = &request.key.name;
//!         let Some(Namespace { pods: Some(wanted) }) = host.get("", name)? else {
//!             return Ok(Outcome::Done);
//!         };
//!         match host.list::<Quota>().namespace(name).all()?.first() {
//!             None => drop(host.create(Quota::KIND, name, &quota(wanted))?),
//!             Some(quota) if quota.pods != Some(wanted) => {
//!                 host.update(Quota::KIND, &quota.meta, &json!({"spec": {"hard": {"pods": wanted}}}))?;
//!             }
//!             Some(_) => {}
//!         }
//!         Ok(Outcome::Done)
//!     }
//! }
//!
//! fn quota(pods: Quantity) -> Value {
//!     json!({
//!         "metadata": {"name": "pods", "labels": {"example.com/ours": ""}},
//!         "spec": {"hard": {"pods": pods}},
//!     })
//! }
//!
//! // A test: given a namespace, reconcile it twice, and expect one quota.
//! let cluster = Cluster::with([json!({
//!     "apiVersion": "v1", "kind": "Namespace",
//!     "metadata": {"name": "team", "annotations": {"example.com/pods": "1k"}},
//! })]);
//! cluster.reconcile::<Quotas>("team").unwrap();
//! cluster.reconcile::<Quotas>("team").unwrap();
//! assert_eq!(cluster.written(), ["create v1/ResourceQuota team/pods"]);
//! ```

// The derive macro refers to the crate as `flyball_sdk`, here as in other crates.
extern crate self as flyball_sdk;

pub mod base64;
pub mod batch;
pub mod certificate;
pub mod condition;
mod config;
pub mod controller;
#[cfg(feature = "crd")]
pub mod crd;
pub mod describe;
pub mod discovery;
pub mod error;
pub mod event;
pub mod finalizer;
pub mod host;
pub mod imports;
mod int_or_percent;
#[cfg(feature = "k8s-openapi")]
pub mod k8s;
mod key;
pub mod list;
pub mod live;
pub mod log;
mod malformed;
mod malformed_events;
pub mod memo;
pub mod merge;
pub mod meta;
pub mod metrics;
pub mod quantity;
pub mod queue;
mod raw;
mod reconcile;
mod reference;
mod route;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
pub mod time;
pub mod view;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod wasm;
pub mod write;

pub use condition::Condition;
pub use controller::Controller;
pub use error::{ApiResult, Context, Error, Malformed};
pub use event::Event;
pub use flyball_types::{
    ApiError, Effect, FieldPath, Kind, KindPattern, LabelSelector, Labels, Operator, Reference,
    Requirement, cidr, duration, ipv4,
};
pub use host::Host;
pub use int_or_percent::IntOrPercent;
pub use key::Key;
pub use meta::{LabelSet, Meta, OwnerReference, Selector, StringMap};
pub use quantity::Quantity;
pub use raw::Raw;
pub use reconcile::{Outcome, Request};
pub use reference::ObjectReference;
pub use route::{Delta, RoutedKey};
pub use serde_json;
pub use time::{MicroTime, Time};
pub use view::View;
pub use write::{Answer, PatchType, Propagation, Write};

/// The items that most controllers use.
pub mod prelude {
    pub use serde_json::{Value, json};

    pub use crate::describe::{Change, DeltaType, Description, Mapping, Watch};
    pub use crate::describe::{describe, watch, watch_kind};
    pub use crate::{
        Answer, ApiError, ApiResult as _, Condition, Context as _, Controller, Error, Event, Host,
        IntOrPercent, Key, LabelSelector, LabelSet, Labels, Meta, Outcome, OwnerReference,
        PatchType, Propagation, Quantity, Raw, Request, Selector, Time, View, Write, export,
    };
}

/// Exports a [`Controller`] from the component: `export!(MyController);`. Natively, defines the constant `EXPORTED` for
/// tests that run controllers of several crates: see [`testing::Exported`].
#[macro_export]
macro_rules! export {
    ($controller:ty) => {
        #[cfg(not(target_arch = "wasm32"))]
        #[doc(hidden)]
        pub const EXPORTED: $crate::testing::Exported =
            $crate::testing::Exported::of::<$controller>();
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            type ExportedController = $crate::wasm::Exported<$controller>;
    $crate::wasm::bindings::export_controller!(ExportedController with_types_in $crate::wasm::bindings);
        };
    };
}
