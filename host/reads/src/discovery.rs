//! Discovery for one plugin. A request that the plugin causes passes the plugin's rate limiter, and is charged to its CPU
//! quota. What an earlier request has found costs nothing, whoever has sent it.

use std::sync::Arc;
use std::time::Duration;

use flyball_cache::{ApiResource, Catalogue, Discovery, DiscoveryError};
use flyball_limits::rate::RateLimiter;
use flyball_plugin::Quota;
use flyball_types::{ApiError, Kind};

/// The age up to which the list of kinds is reused. Calls at the same time share a request, and a kind is not missed
/// once a guest has seen its objects.
pub const DISCOVERY_AGE: Duration = Duration::from_secs(1);

pub struct PluginDiscovery {
    discovery: Arc<Discovery>,
    rate: RateLimiter,
    /// None if the plugin's CPU time is not limited.
    quota: Option<Quota>,
}

impl PluginDiscovery {
    pub fn new(discovery: Arc<Discovery>, rate: RateLimiter, quota: Option<Quota>) -> Self {
        Self {
            discovery,
            rate,
            quota,
        }
    }

    /// Returns a kind's path in the API.
    pub async fn resolve(&self, kind: &Kind) -> Result<Arc<ApiResource>, ApiError> {
        let resolved = match self.discovery.cached(kind) {
            Some(resource) => return Ok(resource),
            None => self.catalogue(Discovery::REFRESH_INTERVAL).await,
        };
        let resolved = resolved.and_then(|catalogue| catalogue.resolve(kind));
        resolved.map_err(|error| match error {
            DiscoveryError::UnknownKind(_) => ApiError::unknown_kind(error.to_string()),
            DiscoveryError::Source(_) => ApiError::unreachable(error.to_string()),
        })
    }

    /// Returns everything that is served, as of at most `max_age` ago.
    ///
    /// # Errors
    /// The request failed.
    pub async fn catalogue(&self, max_age: Duration) -> Result<Arc<Catalogue>, DiscoveryError> {
        // Other plugins wait for a request that runs, so this plugin waits for its limits before that.
        if self.discovery.known(max_age).is_none() {
            if let Some(quota) = &self.quota {
                quota.wait().await;
            }
            self.rate.wait().await;
        }
        let quota = self.quota.clone();
        let charged = |request| async move {
            match quota {
                Some(quota) => quota.charge(request).await,
                None => request.await,
            }
        };
        self.discovery.catalogue_within(max_age, charged).await
    }

    /// Runs work with what was discovered, within the CPU quota.
    pub async fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.quota {
            Some(quota) => quota.work(work).await,
            None => work(),
        }
    }
}

#[cfg(test)]
mod tests {
    use flyball_cache::{KubeSource, Source};
    use flyball_fakes::server::{Log, Reply, serve};
    use flyball_plugin::Limits;
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;

    /// A server with this many kinds, and the requests that it received.
    fn server(kinds: usize) -> (Arc<Discovery>, Log) {
        let resource = |number: usize| {
            let kind = format!("Kind{number}");
            json!({"resource": format!("kinds{number}"), "responseKind": {"kind": kind}, "scope": "Namespaced",
                   "verbs": ["get", "list"]})
        };
        let resources: Vec<_> = (0..kinds).map(resource).collect();
        let served = json!({"items": [{"versions": [{"version": "v1", "resources": resources}]}]});
        let (connection, log) = serve(move |request| match &*request.path {
            "/api" => Reply::Json(200, served.clone()),
            _ => Reply::Json(200, json!({"items": []})),
        });
        let source: Arc<dyn Source> = Arc::new(KubeSource::new(connection));
        (Arc::new(Discovery::new(source)), log)
    }

    fn unlimited() -> RateLimiter {
        RateLimiter::new(0.0, 1)
    }

    /// A thousandth of a core.
    fn quota() -> Option<Quota> {
        Quota::new(&Limits {
            cpu_share: Some(1),
            cpu_burst: Duration::from_micros(1),
            ..Limits::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn the_plugin_that_causes_a_request_pays_for_it() {
        let (discovery, log) = server(2000);
        let asks = PluginDiscovery::new(discovery.clone(), unlimited(), quota());
        let other = PluginDiscovery::new(discovery, unlimited(), quota());
        asks.catalogue(DISCOVERY_AGE).await.unwrap();
        other.catalogue(DISCOVERY_AGE).await.unwrap();
        assert_eq!(log.take().len(), 2, "of /api and /apis");
        let waits = async |plugin: &PluginDiscovery| {
            let began = Instant::now();
            plugin.work(|| ()).await;
            began.elapsed()
        };
        assert_eq!(waits(&other).await, Duration::ZERO);
        // Parsing the answer takes a few hundred microseconds at least.
        let waited = waits(&asks).await;
        assert!(waited > Duration::from_millis(100), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_pass_the_rate_limiter_of_the_plugin_and_kinds_that_are_known_do_not() {
        let (discovery, log) = server(1);
        let limited = PluginDiscovery::new(discovery, RateLimiter::new(0.1, 1), None);
        let start = Instant::now();
        for _ in 0..3 {
            limited.catalogue(DISCOVERY_AGE).await.unwrap();
        }
        limited
            .resolve(&Kind::new("", "v1", "Kind0"))
            .await
            .unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(log.take().len(), 2);
        tokio::time::advance(2 * DISCOVERY_AGE).await;
        limited.catalogue(DISCOVERY_AGE).await.unwrap();
        assert!(start.elapsed() >= Duration::from_secs(9));
        assert_eq!(log.take().len(), 2);
    }
}
