//! What the process tells about itself over HTTPS: health checks and metrics, and who may ask.
//!
//! It stands beside the flow: every part that runs hands it a health check ([`HealthChecks`]) and counts what it does
//! ([`Metrics`]); probes and Prometheus read them. What helps to find a fault are its [`DebugPages`].
//!
//! A request goes through these files in this order: `server.rs` accepts it (`tls.rs` has the certificates),
//! `authentication.rs` says who asks, `authorization.rs` whether they may (both ask the API server through `review.rs`),
//! `handler.rs` answers it from `health.rs`, `metrics/` and `debug.rs`.

mod authentication;
mod authorization;
mod cache;
pub mod debug;
mod handler;
pub mod health;
pub mod metrics;
pub mod review;
mod server;
mod tls;

pub use authentication::{Authentication, AuthenticationOptions, RequestHeaderOptions, User};
pub use authorization::{Authorization, AuthorizationOptions};
pub use debug::DebugPages;
pub use handler::Endpoints;
pub use health::HealthChecks;
pub use metrics::Metrics;
pub use server::{BindError, Bound, ServingOptions, bind};
pub use tls::{Certificate, CertificateError, TlsOptions};
