//! The HTTPS server of the process: health checks, metrics and debug pages, with delegated authentication and
//! authorization.
//!
//! It is not part of the flow of events: every running part registers a health check ([`HealthChecks`]) for probes and
//! updates metrics ([`Metrics`]) for Prometheus. [`DebugPages`] help to diagnose faults.
//!
//! A request passes through these files in this order: `server.rs` accepts the connection (`tls.rs` has the
//! certificates, `connections.rs` the bounds), `authentication.rs` determines the user, `authorization.rs` whether the
//! user may send the request (both use reviews by the API server: `review.rs`), and `handler.rs` responds from
//! `health.rs`, `slis.rs`, `metrics/`, `zpages.rs`, `debug.rs`, `debug_flags.rs` and `profiling/`. Metrics and profiles can
//! be in protobuf (`protobuf.rs`).

mod authentication;
mod authorization;
mod cache;
mod connections;
pub mod debug;
mod debug_flags;
mod handler;
mod handshakes;
pub mod health;
pub mod metrics;
mod profiling;
mod protobuf;
mod response;
pub mod review;
mod seldom;
mod server;
mod slis;
mod tls;
mod user;
mod zpages;

/// The release of Kubernetes whose kube-controller-manager this build stands for.
pub const KUBERNETES: &str = "1.37.2";

pub use authentication::{Authentication, AuthenticationOptions, RequestHeaderOptions};
pub use authorization::{Authorization, AuthorizationOptions};
pub use debug::DebugPages;
pub use debug_flags::SetVerbosity;
pub use handler::Endpoints;
pub use health::HealthChecks;
pub use metrics::Metrics;
pub use server::{BindError, Bound, ServingOptions, bind};
pub use tls::{
    Algorithms, Certificate, CertificateError, NamedCertificate, TlsOptions, Unsupported,
};
pub use user::User;
pub use zpages::{BuildVersions, ZPages};

#[cfg(test)]
mod tests {
    use super::KUBERNETES;

    #[test]
    fn the_release_is_the_one_that_the_tests_compare_with() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/controlplane/go/go.mod"
        );
        let text = std::fs::read_to_string(path).unwrap();
        assert!(
            text.contains(&format!("k8s.io/kubernetes v{KUBERNETES}\n")),
            "{text}"
        );
    }
}
