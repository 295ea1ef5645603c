//! The SDK for controllers written in Rust.
