//! The data that one dropped-in plugin gets from an API server, without its guest: the results of its host calls, its
//! keys, and the deltas of its `route`. It is wired like a running plugin (`host/manager/src/plugins/start.rs`,
//! `host/runtime/src/watch_router.rs`).

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use flyball_api::client::ApiClient;
use flyball_api::fence::Fence;
use flyball_cache::{
    ApiResponse, Connection, Delta, Discovery, Informer, InformerFactory, Interest, KubeSource,
    Source,
};
use flyball_limits::rate::RateLimiter;
use flyball_plugin::{Allowance, Batch, Budget, Held, Read, Write};
use flyball_policy::grant::{Asks, Grant, Grants, PluginFile};
use flyball_policy::{PluginPolicy, Policy};
use flyball_reads::cached::{CachedReads, RouteView, SharedReads, WatchView};
use flyball_reads::discovery::PluginDiscovery;
use flyball_reads::interest::interest;
use flyball_reads::live::LiveReads;
use flyball_runtime::discovered_informers::DiscoveredInformers;
use flyball_runtime::router::Router;
use flyball_types::description::Description;
use flyball_types::{ApiError, Kind, Mask, Projection, Query};
use flyball_writer::{Journal, Writer};

/// The longest answer, in bytes.
const BYTES: usize = 16 << 20;

/// A plugin whose caches are synced.
pub(super) struct PluginView {
    pub(super) description: Description,
    pub(super) policy: Arc<PluginPolicy>,
    pub(super) client: ApiClient,
    /// Each with the number of its watch.
    pub(super) informers: Vec<(usize, Informer)>,
    /// The informers of another plugin, which sees all fields in the same caches.
    pub(super) others: Vec<Informer>,
    pub(super) factory: Arc<InformerFactory>,
    pub(super) cached: Arc<CachedReads>,
    pub(super) live: LiveReads,
    pub(super) writer: Writer,
}

impl PluginView {
    /// Loads a plugin with this description under this policy, and waits until its caches are synced. Data that is held
    /// for the plugin is charged to the budget.
    ///
    /// # Errors
    /// The description or the policy is not valid, or the policy does not let the plugin run.
    pub(super) async fn open(
        policy: &str,
        description: &str,
        server: Connection,
        budget: Arc<Budget>,
    ) -> Result<Self, String> {
        let description = Description::read(description).map_err(|error| error.to_string())?;
        let plugins = Policy::parse(Path::new("policy.toml"), policy);
        let grants = Grants {
            plugins: plugins.map_err(|error| error.to_string())?,
            ..Grants::default()
        };
        let file = PluginFile {
            digest: "",
            package: None,
            name: None,
        };
        let grant = grants.dropped_in(&description, &Asks::of(&description), file, None);
        let Grant { policy, .. } = grant.map_err(|refusal| refusal.to_string())?;

        let source: Arc<dyn Source> = Arc::new(KubeSource::new(server.clone()));
        let factory = Arc::new(InformerFactory::new(source.clone()));
        let discovery = Arc::new(Discovery::new(source));
        let mut informers = Vec::new();
        for (number, watch) in description.watches.iter().enumerate() {
            let Some(kind) = &watch.kind else { continue };
            let resource = discovery.resolve(kind).await;
            let resource = resource.map_err(|error| error.to_string())?;
            let interest = interest(&description, watch, resource);
            let interest = interest.ok_or("a watch that was checked has no interest")?;
            informers.push((number, factory.informer(interest)));
        }
        let cached = CachedReads::new(
            &description,
            policy.clone(),
            informers.iter().map(|(_, informer)| informer),
            discovery.clone(),
            BYTES,
            SharedReads::default(),
        );
        let discovered = DiscoveredInformers::open(&factory, &discovery, &description, &policy);
        let discovered = discovered.await.map_err(|error| error.to_string())?;
        if let Some(discovered) = &discovered {
            cached.discover(discovered.informers().cloned());
            let number = discovered.watch();
            informers.extend(discovered.informers().map(|own| (number, own.clone())));
        }
        let whole = |(_, informer): &(usize, Informer)| Interest {
            resource: informer.resource().clone(),
            scope: informer.scope().clone(),
            metadata_only: false,
            mask: Mask::whole(),
            indexes: Vec::new(),
            selectors: Vec::new(),
        };
        let others: Vec<Informer> = informers
            .iter()
            .map(|own| factory.informer(whole(own)))
            .collect();
        factory.start();
        for informer in informers.iter().map(|(_, own)| own).chain(&others) {
            informer.synced().await;
        }

        let cached = Arc::new(cached);
        let client = ApiClient::new(server, None, "fuzz", Arc::new(Fence::open()));
        let unlimited = || RateLimiter::new(0.0, 1);
        let discovery = Arc::new(PluginDiscovery::new(discovery, unlimited(), None));
        let live = LiveReads::new(
            client.clone(),
            discovery.clone(),
            policy.clone(),
            unlimited(),
            BYTES,
            budget.clone(),
        );
        let writer = Writer::new(
            client.clone(),
            discovery,
            policy.clone(),
            unlimited(),
            cached.clone(),
            budget,
            Arc::default(),
        );
        Ok(Self {
            description,
            policy,
            client,
            informers,
            others,
            factory,
            cached,
            live,
            writer,
        })
    }

    /// `lister.get`.
    pub(super) fn get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[String],
    ) -> Result<Option<Bytes>, ApiError> {
        self.cached.get(kind, namespace, name, fields)
    }

    /// `lister.list`, all pages together, with at most `limit` objects in each.
    pub(super) fn list(
        &self,
        query: &Query,
        projection: &Projection,
        limit: u32,
    ) -> Result<Vec<u8>, ApiError> {
        let mut page = self
            .cached
            .list(query, projection, limit, &Allowance::of_host())?;
        let mut items = page.items;
        while let Some(rest) = page.rest {
            page = rest.next(limit, &Allowance::of_host())?;
            items.extend_from_slice(&page.items);
        }
        Ok(items)
    }

    /// `lister.count`.
    pub(super) fn count(&self, query: &Query) -> Result<u32, ApiError> {
        self.cached.count(query, &Allowance::of_host())
    }

    /// One read of `reader.batch`.
    pub(super) async fn read(&self, read: Read) -> Result<Bytes, ApiError> {
        let fetched = self.live.fetch(self.live.prepare(read)?).await;
        let Held { bytes, .. } = fetched?.reduce(&Allowance::of_host())?;
        Ok(bytes)
    }

    /// One write of `writer.batch`.
    pub(super) async fn write(&self, write: Write) -> Result<Bytes, ApiError> {
        let batch = Batch {
            writes: vec![Ok(write)],
            slow_start: None,
            stop_on_error: false,
        };
        let batch = self.writer.prepare(batch, &Allowance::of_host()).await?;
        let mut results = self.writer.run(batch, &Journal::default()).await;
        let result = results.pop().expect("each write has a result");
        result.map(|held| held.bytes)
    }

    /// Routes the addition of each cached object, then its change to the later version among `versions`, then its
    /// deletion. Returns the keys, and the deltas for the guest's `route`.
    pub(super) async fn routed(&self, versions: &[(Kind, Bytes)]) -> Vec<String> {
        let routes: Vec<Route> = self
            .informers
            .iter()
            .map(|(number, informer)| Route::new(self, *number, informer))
            .collect();
        let mut found = Vec::new();
        for route in &routes {
            for delta in &route.initial {
                self.route(route, delta, &mut found);
            }
        }
        for (kind, json) in versions {
            self.cached
                .written(kind, &ApiResponse::new(json.clone()))
                .await;
        }
        for route in &routes {
            for old in route.initial.iter().filter_map(|delta| delta.new.clone()) {
                let kind = &route.kind;
                let new = self.cached.before(kind, old.namespace(), old.name());
                let new = new.filter(|new| new.resource_version() > old.resource_version());
                let delta = |old, new| Delta {
                    old: Some(old),
                    new,
                    between: Vec::new(),
                    initial: false,
                };
                if new.is_some() {
                    self.route(route, &delta(old.clone(), new.clone()), &mut found);
                }
                self.route(route, &delta(new.unwrap_or(old), None), &mut found);
            }
        }
        found
    }

    fn route(&self, route: &Route, delta: &Delta, found: &mut Vec<String>) {
        let Route {
            router,
            shown,
            routed,
            ..
        } = route;
        let delta_type = delta.delta_type();
        let seen = router.seen(delta);
        if !router.concerns(&seen) || !shown.shows(delta.object()) {
            return;
        }
        let (keys, asks_guest) = (
            router.all_keys(&seen, &*self.cached),
            router.asks_guest(&seen, &*self.cached),
        );
        if (keys.is_empty() && !asks_guest) || !router.selects_change(&seen) {
            return;
        }
        for key in keys {
            found.push(format!("{delta_type:?}: {key:?}"));
        }
        if asks_guest {
            let mut projection = routed.projection().expect("a view shows its own fields");
            let versions = [&delta.old, &delta.new].map(|version| {
                let bytes = version.as_ref().map(|object| projection.bytes(object));
                bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            });
            found.push(format!("{delta_type:?}: {versions:?}"));
        }
    }

    /// Stops the reflectors.
    pub(super) async fn close(self) {
        self.factory.shutdown().await;
    }
}

/// Routes the deltas of one informer.
struct Route {
    kind: Kind,
    router: Router,
    shown: WatchView,
    routed: RouteView,
    /// The additions of all objects.
    initial: Vec<Delta>,
}

impl Route {
    fn new(view: &PluginView, number: usize, informer: &Informer) -> Self {
        let description = &view.description;
        let kind = &informer.resource().kind;
        let initial = informer.subscribe().try_next(usize::MAX);
        let mut initial = initial.map_or_else(Vec::new, |batch| batch.deltas);
        // The cache has no order.
        initial.sort_by_key(|delta| delta.object().key());
        Self {
            kind: kind.clone(),
            router: Router::new(description, &description.watches[number], kind),
            shown: view.cached.watch_view(informer),
            routed: view
                .cached
                .route_view(informer)
                .expect("the plugin watches the kind"),
            initial,
        }
    }
}
