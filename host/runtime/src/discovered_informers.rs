//! The watch of every kind that the API server serves: opens an informer for each kind that appears in discovery, and
//! closes it when the kind is removed.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flyball_cache::{ApiResource, Catalogue, Discovery, DiscoveryError, Informer, InformerFactory};
use flyball_policy::PluginPolicy;
use flyball_reads::discovery::DISCOVERY_AGE;
use flyball_reads::interest::interest;
use flyball_types::description::{Description, Discovered, Watch};
use flyball_types::{Kind, Mask, MaskError, duration, error_chain};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::context::PluginContext;

/// How long to wait for the caches of all kinds. The plugin then starts without the kinds that are not synced (a kind
/// whose conversion fails, an API that does not respond), and gets their objects once they are synced.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

/// The informers of the kinds that a plugin discovers.
pub struct DiscoveredInformers {
    /// The number of the watch in the description.
    watch: usize,
    factory: Arc<InformerFactory>,
    informers: BTreeMap<Kind, Informer>,
    ready: Arc<AtomicBool>,
}

impl DiscoveredInformers {
    /// Opens an informer for each kind that is served now. Returns none if no watch of the description discovers kinds.
    pub async fn open(
        factory: &Arc<InformerFactory>,
        discovery: &Arc<Discovery>,
        description: &Description,
        policy: &PluginPolicy,
    ) -> Result<Option<Self>, DiscoveryError> {
        let mut watches = description.watches.iter();
        let Some(watch) = watches.position(|watch| watch.discovered.is_some()) else {
            return Ok(None);
        };
        let (informers, ready) = (BTreeMap::new(), Arc::default());
        let mut opened = Self {
            watch,
            factory: factory.clone(),
            informers,
            ready,
        };
        let catalogue = discovery.catalogue(SYNC_TIMEOUT).await?;
        opened.update(&catalogue, description, policy);
        Ok(Some(opened))
    }

    /// The number of the watch in the description.
    pub fn watch(&self) -> usize {
        self.watch
    }

    pub fn informers(&self) -> impl Iterator<Item = &Informer> {
        self.informers.values()
    }

    /// Becomes true when the first caches are synced, or [`SYNC_TIMEOUT`] has passed.
    pub fn ready(&self) -> Arc<AtomicBool> {
        self.ready.clone()
    }

    /// Follows discovery until `finish`, and ends when all routes have ended. `route` handles the deltas of one kind. It
    /// runs on `threads`, and decrements the number that it is given once it has routed the initial objects. `ready` is
    /// called once the initial objects of the first kinds are routed.
    pub async fn run<R>(
        mut self,
        context: Arc<PluginContext>,
        threads: &Handle,
        route: impl Fn(Informer, watch::Sender<usize>) -> R,
        ready: impl FnOnce(),
        finish: CancellationToken,
    ) where
        R: Future<Output = ()> + Send + 'static,
    {
        // Mappings look up owners of other kinds, so as many caches as possible should be synced first.
        let synced = futures::future::join_all(self.informers.values().map(Informer::synced));
        let in_time = tokio::time::timeout(SYNC_TIMEOUT, synced).await.is_ok();
        let missing: Vec<&Kind> = self.unsynced().collect();
        if !in_time {
            let kinds: Vec<String> = missing.iter().map(|kind| kind.to_string()).collect();
            tracing::warn!(
                plugin = context.name(),
                kinds = kinds.join(", "),
                "started without the objects of some kinds, whose caches are not synced yet"
            );
            self.count_error(&context);
        }
        let (left, mut routed) = watch::channel(self.informers.len());
        let missing = missing.len();
        let spawn = |informer: &Informer, left: &watch::Sender<usize>| {
            AbortOnDropHandle::new(threads.spawn(route(informer.clone(), left.clone())))
        };
        let mut routes: BTreeMap<Kind, AbortOnDropHandle<()>> = self
            .informers
            .iter()
            .map(|(kind, informer)| (kind.clone(), spawn(informer, &left)))
            .collect();
        // The sender is held above.
        let _ = routed.wait_for(|left| *left <= missing).await;
        self.ready.store(true, Ordering::Release);
        ready();
        let period = self.period(&context);
        let (mut reachable, discovery) = (true, context.reads.live.discovery());
        loop {
            tokio::select! {
                () = tokio::time::sleep(period) => {}
                () = finish.cancelled() => break,
            }
            // Plugins that ask at about the same time share a request.
            let max_age = period.min(DISCOVERY_AGE) / 2;
            let catalogue = match discovery.catalogue(max_age).await {
                Ok(catalogue) => catalogue,
                Err(error) => {
                    if std::mem::replace(&mut reachable, false) {
                        let error = error_chain(&error);
                        tracing::warn!(
                            plugin = context.name(),
                            error,
                            "can't discover the kinds that the API server serves; trying again"
                        );
                    }
                    self.count_error(&context);
                    continue;
                }
            };
            reachable = true;
            let (description, policy) = (&context.settings.description, &context.settings.policy);
            let update = || self.update(&catalogue, description, policy);
            if !discovery.work(update).await {
                continue;
            }
            context
                .reads
                .cached
                .discover(self.informers.values().cloned());
            self.factory.start();
            routes.retain(|kind, _| self.informers.contains_key(kind));
            for (kind, informer) in &self.informers {
                left.send_modify(|left| *left += usize::from(!routes.contains_key(kind)));
                routes
                    .entry(kind.clone())
                    .or_insert_with(|| spawn(informer, &left));
            }
        }
        futures::future::join_all(routes.into_values()).await;
    }

    fn unsynced(&self) -> impl Iterator<Item = &Kind> {
        self.informers
            .iter()
            .filter(|(_, informer)| !informer.is_synced())
            .map(|(kind, _)| kind)
    }

    fn settings<'a>(&self, description: &'a Description) -> (&'a Watch, &'a Discovered) {
        let watch = &description.watches[self.watch];
        (
            watch,
            watch
                .discovered
                .as_ref()
                .expect("the watch discovers kinds"),
        )
    }

    fn period(&self, context: &PluginContext) -> Duration {
        let (_, discovered) = self.settings(&context.settings.description);
        let configured = context
            .settings
            .config(&discovered.config)
            .and_then(|text| duration::parse(&text).ok());
        configured
            .unwrap_or(Duration::from_millis(discovered.period_ms.into()))
            .max(Duration::from_millis(100))
    }

    fn count_error(&self, context: &PluginContext) {
        let (_, discovered) = self.settings(&context.settings.description);
        if !discovered.errors.is_empty() {
            context.telemetry.metrics.update(
                |metrics, labels| metrics.add(&discovered.errors, labels, 1.0),
                &[],
            );
        }
    }

    /// Opens and closes informers for the kinds that are served now, and returns whether anything changed. The kinds of
    /// a group version whose discovery failed stay.
    fn update(
        &mut self,
        catalogue: &Catalogue,
        description: &Description,
        policy: &PluginPolicy,
    ) -> bool {
        let (watch, discovered) = self.settings(description);
        let reads = |kind: &Kind| description.watched_paths(watch, kind).mask();
        let wanted = wanted(catalogue, discovered, policy, reads);
        let failed = |kind: &Kind| {
            catalogue
                .failed
                .iter()
                .any(|(version, _)| *version == kind.api_version())
        };
        let before = self.informers.len();
        self.informers
            .retain(|kind, _| wanted.contains_key(kind) || failed(kind));
        let mut changed = self.informers.len() < before;
        for (kind, resource) in wanted {
            if let std::collections::btree_map::Entry::Vacant(entry) = self.informers.entry(kind)
                && let Some(interest) = interest(description, watch, resource)
            {
                entry.insert(self.factory.informer(interest));
                changed = true;
            }
        }
        changed
    }
}

/// Returns the kinds that a watch selects and that the plugin may watch with the fields that it `reads`. Each kind has
/// its group's preferred version, or the first version that serves it.
fn wanted(
    catalogue: &Catalogue,
    discovered: &Discovered,
    policy: &PluginPolicy,
    reads: impl Fn(&Kind) -> Result<Mask, MaskError>,
) -> BTreeMap<Kind, Arc<ApiResource>> {
    let is_wanted = |resource: &ApiResource| {
        let kind = &resource.kind;
        let can = |verb: &str| resource.verbs.contains(verb);
        let is_it = |other: &Kind| (&other.group, &other.kind) == (&kind.group, &kind.kind);
        ["list", "watch"]
            .into_iter()
            .chain(discovered.verbs.iter().map(String::as_str))
            .all(can)
            && !discovered.except.iter().any(is_it)
            && policy.may_watch(kind, "")
            && reads(kind).is_ok_and(|read| policy.ungranted_fields(kind, "", &read).is_empty())
    };
    let mut known = HashSet::new();
    let mut found = BTreeMap::new();
    for resource in &catalogue.resources {
        if known.insert((&resource.kind.group, &resource.plural)) && is_wanted(resource) {
            found.insert(resource.kind.clone(), resource.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use flyball_policy::Policy;

    fn served(kind: &str, plural: &str, verbs: &[&str]) -> Arc<ApiResource> {
        let mut resource = ApiResource::new(kind.parse().expect("a kind"), plural, true);
        resource.verbs = verbs.iter().map(|&verb| verb.to_owned()).collect();
        Arc::new(resource)
    }

    /// Returns the kinds that a watch of all deletable kinds follows, under a policy that lets it watch `kinds`.
    fn followed(resources: Vec<Arc<ApiResource>>, kinds: &str) -> Vec<String> {
        let text = format!("[[plugins.a.allow]]\nkinds = [{kinds}]\nverbs = [\"watch\"]");
        let policy = Policy::parse(Path::new("policy.toml"), &text)
            .expect("a policy")
            .plugins
            .remove("a");
        let except = vec!["events.k8s.io/v1beta1/Event".parse().expect("a kind")];
        let discovered = Discovered {
            verbs: ["delete".to_owned()].into(),
            except,
            ..Discovered::default()
        };
        let mut catalogue = Catalogue::default();
        catalogue.resources = resources;
        let wanted = wanted(
            &catalogue,
            &discovered,
            &policy.expect("the plugin's policy"),
            |_| Mask::parse(["metadata.labels"]),
        );
        wanted.keys().map(Kind::to_string).collect()
    }

    const ALL: &[&str] = &["delete", "get", "list", "watch"];

    #[test]
    fn a_kind_is_followed_in_the_version_that_its_group_prefers_or_the_first_that_has_it() {
        let resources = vec![
            served("apps/v2/Deployment", "deployments", ALL),
            served("apps/v1/Deployment", "deployments", ALL),
            served("apps/v1/Relic", "relics", ALL),
        ];
        assert_eq!(
            followed(resources, "\"*\""),
            ["apps/v1/Relic", "apps/v2/Deployment"]
        );
    }

    #[test]
    fn what_cannot_be_followed_or_is_left_out_is_not() {
        let resources = vec![
            served("v1/Pod", "pods", ALL),
            served("v1/Binding", "bindings", &["create"]),
            served(
                "v1/ComponentStatus",
                "componentstatuses",
                &["list", "delete"],
            ),
            served("v1/Fixed", "fixeds", &["list", "watch"]),
            served("events.k8s.io/v1/Event", "events", ALL),
        ];
        assert_eq!(followed(resources, "\"*\""), ["v1/Pod"]);
    }

    #[test]
    fn only_kinds_that_the_policy_lets_the_plugin_watch_are_followed() {
        let resources = vec![
            served("v1/Pod", "pods", ALL),
            served("v1/Secret", "secrets", ALL),
        ];
        assert_eq!(followed(resources, "\"v1/Secret\""), ["v1/Secret"]);
    }
}
