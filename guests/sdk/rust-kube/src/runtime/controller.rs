//! Controllers: their watches and their reconcilers.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use flyball_sdk::describe::Mapping;
use flyball_sdk::{Delta, Error, Host, Key, Outcome, Request};
use flyball_types::error_chain;
use kube_core::Resource;
use serde::de::DeserializeOwned;

use super::reflector::{ObjectRef, Store};
use super::watcher;
use crate::api::Api;
use crate::executor;

/// The action after a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    requeue_after: Option<Duration>,
}

impl Action {
    /// Reconciles the object again after this time, or when something changes.
    #[must_use]
    pub const fn requeue(duration: Duration) -> Self {
        Self {
            requeue_after: Some(duration),
        }
    }

    /// Reconciles the object again when something changes.
    #[must_use]
    pub const fn await_change() -> Self {
        Self {
            requeue_after: None,
        }
    }
}

impl From<Action> for Outcome {
    fn from(action: Action) -> Self {
        action.requeue_after.map_or(Self::Done, Self::RequeueAfter)
    }
}

/// Settings of a controller.
#[derive(Clone, Debug, Default)]
pub struct Config {
    debounce: Duration,
    concurrency: u16,
}

impl Config {
    /// Enqueues keys after this time, so that changes that follow each other are reconciled once.
    #[must_use]
    pub fn debounce(mut self, debounce: Duration) -> Self {
        self.debounce = debounce;
        self
    }

    /// Sets how many objects are reconciled at once; 10 by default. The operator's policy takes precedence.
    #[must_use]
    pub fn concurrency(mut self, concurrency: u16) -> Self {
        self.concurrency = concurrency;
        self
    }
}

/// The keys that a change of an object of another kind enqueues.
type Mapper = dyn Fn(&[u8]) -> Result<Vec<Key>, serde_json::Error>;

/// A kind that a controller watches.
pub(crate) struct Related {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) config: watcher::Config,
    /// Whether whole objects are cached, or metadata alone.
    pub(crate) is_whole: bool,
    pub(crate) mapping: Mapping,
    mapper: Option<Box<Mapper>>,
}

impl Related {
    fn new<K>(api: &Api<K>, config: watcher::Config, is_whole: bool, mapping: Mapping) -> Self {
        Self {
            kind: api.kind().into(),
            namespace: api.namespace().unwrap_or_default().into(),
            config,
            is_whole,
            mapping,
            mapper: None,
        }
    }

    /// The keys that the mapping function returns for the object before a change, and after it.
    pub(crate) fn keys(&self, delta: &Delta) -> Result<Vec<Key>, Error> {
        let Some(mapper) = &self.mapper else {
            return Ok(Vec::new());
        };
        let mut keys = Vec::new();
        for object in [&delta.old, &delta.new].into_iter().flatten() {
            let mapped = mapper(object)
                .map_err(|error| Error::malformed(format!("a {}", self.kind), error))?;
            keys.extend(mapped);
        }
        keys.sort();
        keys.dedup();
        Ok(keys)
    }
}

type Reconcile = dyn Fn(&Host<'_>, &Request) -> Result<Outcome, Error>;

/// A controller with its reconciler, for [`Plugin::controller`](crate::Plugin::controller).
#[must_use = "a controller runs when it is a part of a plugin"]
pub struct Runner {
    /// The queue of its keys: its kind, without a group, in lower case.
    pub(crate) queue: String,
    pub(crate) related: Vec<Related>,
    pub(crate) delay: Duration,
    pub(crate) concurrency: u16,
    pub(crate) reconcile: Box<Reconcile>,
}

/// A controller of a kind, as kube has it. Its streams are the host's.
#[must_use = "a controller needs a reconciler: see `run`"]
pub struct Controller<K: Resource> {
    api: Api<K>,
    related: Vec<Related>,
    config: Config,
}

impl<K> Controller<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + 'static,
{
    /// A controller of a kind, in all namespaces or in one.
    pub fn new(api: Api<K>, config: watcher::Config) -> Self {
        let own = Related::new(&api, config, true, Mapping::itself());
        Self {
            api,
            related: vec![own],
            config: Config::default(),
        }
    }

    /// Sets the settings of the controller.
    pub fn with_config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Reconciles the owners of these objects. The host watches their metadata alone, as kube does, unless the plugin
    /// asks for [fields](crate::Plugin::fields).
    pub fn owns<Child: Resource>(mut self, api: Api<Child>, config: watcher::Config) -> Self {
        let owners = Mapping::owners(self.api.kind());
        self.related.push(Related::new(&api, config, false, owners));
        self
    }

    /// Reconciles the objects that `mapper` returns for these objects, both as they were before a change and as they
    /// are after it.
    pub fn watches<Other, I>(
        mut self,
        api: Api<Other>,
        config: watcher::Config,
        mapper: impl Fn(Other) -> I + 'static,
    ) -> Self
    where
        Other: Resource + DeserializeOwned,
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        let mapper = move |object: &[u8]| -> Result<Vec<Key>, serde_json::Error> {
            let mapped = mapper(serde_json::from_slice(object)?);
            Ok(mapped.into_iter().map(|one| one.key()).collect())
        };
        self.related.push(Related {
            mapper: Some(Box::new(mapper)),
            ..Related::new(&api, config, true, Mapping::route())
        });
        self
    }

    /// Returns a store that reads the controller's own objects from the cache.
    pub fn store(&self) -> Store<K> {
        Store::new(self.api.clone())
    }

    /// This function has no effect, because the host ends a plugin's calls before it stops.
    pub fn shutdown_on_signal(self) -> Self {
        self
    }

    /// Sets the reconciler, what to do after its errors, and its context. Each instance of the plugin has a context of
    /// its own.
    ///
    /// An error is reported, and the object is reconciled again as `error_policy` says.
    pub fn run<Ctx, Reconciled, E>(
        self,
        reconciler: impl Fn(Arc<K>, Arc<Ctx>) -> Reconciled + 'static,
        error_policy: impl Fn(Arc<K>, &E, Arc<Ctx>) -> Action + 'static,
        context: Arc<Ctx>,
    ) -> Runner
    where
        Ctx: 'static,
        Reconciled: Future<Output = Result<Action, E>> + 'static,
        E: std::error::Error + 'static,
    {
        let Self {
            api,
            related,
            config,
        } = self;
        let (_, kind) = api.kind().rsplit_once('/').unwrap_or_default();
        let queue = kind.to_lowercase();
        let reconcile = move |host: &Host<'_>, request: &Request| {
            let key = &request.key;
            let object = api.within(&key.namespace).cached(host, &key.name);
            let Some(object) = object.map_err(failed(&api, key))? else {
                return Ok(Outcome::Done);
            };
            let object = Arc::new(object);
            let reconciled = reconciler(Arc::clone(&object), Arc::clone(&context));
            let error = match executor::run(reconciled) {
                Some(Ok(action)) => return Ok(action.into()),
                Some(Err(error)) => error,
                None => {
                    return Err(Error::terminal(
                        "the reconciler waits for something that is not a call of the API: a plugin has no timers, threads or \
                         sockets; return `Action::requeue` instead",
                    ));
                }
            };
            let action = error_policy(object, &error, Arc::clone(&context));
            if let Some(after) = action.requeue_after {
                host.queue().add_after(&request.queue, key, after)?;
            }
            // The error policy has decided on the retry.
            Err(Error::terminal(error_chain(&error)))
        };
        Runner {
            queue,
            related,
            delay: config.debounce,
            concurrency: config.concurrency,
            reconcile: Box::new(reconcile),
        }
    }
}

/// Names the object that could not be read.
fn failed<'a, K>(api: &'a Api<K>, key: &'a Key) -> impl FnOnce(crate::Error) -> Error + 'a {
    move |error| {
        let what = format!("{} {key}", api.kind());
        match error {
            crate::Error::SerdeError(error) => Error::malformed(what, error),
            error => Error::failed(format!("can't read {what}: {}", error_chain(&error))),
        }
    }
}

impl<K: Resource> ObjectRef<K> {
    fn key(&self) -> Key {
        Key::new(self.namespace.as_deref().unwrap_or_default(), &self.name)
    }
}
