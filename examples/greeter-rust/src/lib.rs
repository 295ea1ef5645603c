//! Keeps a ConfigMap with the text of each Greeting.
//!
//! It shows the parts that most controllers have: a custom resource with a status, an object that it owns, a finalizer,
//! conditions, and an event.

pub mod api;
pub mod greeter;

flyball_sdk::export!(greeter::Greeter);
