//! certificatesigningrequest-cleaner-controller: deletes CertificateSigningRequests that are no longer needed.
//!
//! Once an hour [`Cleaner`] checks all requests. [`age::reason`] decides which are deleted.
//!
//! Upstream: pkg/controller/certificates/cleaner/cleaner.go: Run, handle.

pub mod age;

use std::time::Duration;

use flyball_sdk::info;
use flyball_sdk::prelude::*;

use age::Csr;

/// The only key.
const KEY: &str = "all";
const INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The controller.
pub struct Cleaner;

export!(Cleaner);

impl Controller for Cleaner {
    fn describe() -> Description {
        describe(
            "certificatesigningrequest-cleaner-controller",
            env!("CARGO_PKG_VERSION"),
        )
        .watch(watch::<Csr>())
        .queue("certificatesigningrequest_cleaner")
        .ticker(KEY, INTERVAL)
        .permission(Csr::KIND, ["delete"])
        .concurrency(1)
    }

    fn reconcile(host: &Host, _: &Request) -> Result<Outcome, Error> {
        let now = host.now();
        let mut old = Vec::new();
        host.list::<Csr>().each(|csr| {
            if let Some(reason) = age::reason(&csr, now) {
                info!(host, "deleting {}: {reason}", csr.meta.name);
                old.push(csr.meta);
            }
            Ok(())
        })?;
        host.delete_all(Csr::KIND, &old)?;
        Ok(Outcome::Done)
    }
}
