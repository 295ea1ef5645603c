//! The words that every part of Flyball shares, on both sides of the sandbox: kinds, objects, field masks, label selectors,
//! errors of the API and what a plugin says of itself. No I/O, no clock, no runtime.

pub mod description;
mod error;
mod kind;

pub use error::ApiError;
pub use kind::{Kind, KindError};
