//! The SDK for controllers written in Rust.

pub mod controller;
pub mod describe;
pub mod error;
pub mod hash;
pub mod host;
pub mod imports;
pub mod list;
pub mod log;
pub mod meta;
mod raw;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
pub mod time;
pub mod view;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod wasm;
pub mod write;

pub use controller::{Controller, Delta, Key, Outcome, Request, Routed};
pub use error::{ApiResult, Context, Error};
pub use flyball_types::{ApiError, Kind, LabelSelector};
pub use host::Host;
pub use imports::ObjectReference;
pub use meta::{Meta, OwnerReference, Selector, StringMap};
pub use raw::Raw;
#[doc(hidden)]
pub use serde;
pub use serde_json;
pub use time::{MicroTime, Time};
pub use view::View;
pub use write::{Answer, PatchType, Propagation, Write};

/// What most controllers use.
pub mod prelude {
    pub use serde_json::{Value, json};

    pub use crate::describe::{Change, DeltaType, Description};
    pub use crate::describe::{DescriptionExt as _, WatchExt as _, describe, watch, watch_kind};
    pub use crate::{
        Answer, ApiError, ApiResult as _, Context as _, Controller, Error, Host, Key, LabelSelector, Meta, Outcome,
        OwnerReference, PatchType, Propagation, Raw, Request, Selector, Time, View, Write, export, view,
    };
}

/// Makes a guest of a [`Controller`]: `export!(MyController);`. Natively it does nothing.
#[macro_export]
macro_rules! export {
    ($controller:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            type Guest = $crate::wasm::Exported<$controller>;
    $crate::wasm::bindings::export_controller!(Guest with_types_in $crate::wasm::bindings);
        };
    };
}
