//! The replacement for `main`: the controllers of a plugin, and their permissions.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use flyball_sdk::describe::{self, Description, Watch, watch_kind};
use flyball_sdk::{Delta, Error, Host, Outcome, Request, RoutedKey};
use kube_core::Resource;

use crate::api::kind_of;
use crate::runtime::controller::{Related, Runner};
use crate::{current, logging};

/// The number of reconciles that run at once, each in an instance of its own, unless a controller sets it.
const CONCURRENCY: u16 = 10;

/// A plugin of one or more controllers. A function returns it, which [`export!`](crate::export) exports.
#[must_use = "a plugin is exported by `export!`"]
pub struct Plugin {
    base: Description,
    controllers: Vec<Runner>,
    /// The fields of kinds that are cached.
    fields: BTreeMap<String, Vec<String>>,
    description: OnceCell<Rc<Description>>,
}

/// The builder of a plugin.
impl Plugin {
    /// A plugin with a name, of lower-case letters, digits and dashes, and a version.
    pub fn new(name: &str, version: &str) -> Self {
        Self {
            base: describe::describe(name, version),
            controllers: Vec::new(),
            fields: BTreeMap::new(),
            description: OnceCell::new(),
        }
    }

    /// Adds a controller, which [`Controller::run`](crate::runtime::Controller::run) returns.
    pub fn controller(mut self, controller: Runner) -> Self {
        self.controllers.push(controller);
        self
    }

    /// Asks for verbs on a kind: `get`, `list`, `create`, `update`, `patch`, `delete`. Cached reads need none.
    pub fn permission<K: Resource<DynamicType: Default>>(
        self,
        verbs: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        self.permission_on::<K>("", verbs)
    }

    /// Asks for verbs on a subresource of a kind, such as `status`.
    pub fn permission_on<K: Resource<DynamicType: Default>>(
        mut self,
        subresource: &str,
        verbs: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        let kind = kind_of::<K>(&Default::default());
        self.base = self.base.permission_on(&kind, subresource, verbs);
        self
    }

    /// Keeps these fields of a kind in the host's cache, `.` for all, and reads them from there.
    ///
    /// By default, the cache holds whole objects of the kinds that controllers reconcile and
    /// [watch](crate::runtime::Controller::watches), and objects of other kinds are read from the API server. The type
    /// must deserialize without the fields that are left out, as types of `k8s-openapi` do.
    pub fn fields<K: Resource<DynamicType: Default>>(mut self, paths: &[&str]) -> Self {
        let paths = paths.iter().map(|&path| path.to_owned()).collect();
        self.fields.insert(kind_of::<K>(&Default::default()), paths);
        self
    }

    /// Changes the description, for features that kube does not have: configuration, metrics, indexes.
    pub fn describe(mut self, change: impl FnOnce(Description) -> Description) -> Self {
        self.base = change(self.base);
        self
    }
}

/// The functions that [`export!`](crate::export) exports.
impl Plugin {
    /// The plugin's description.
    pub fn description(&self) -> &Description {
        self.shared_description()
    }

    fn shared_description(&self) -> &Rc<Description> {
        self.description.get_or_init(|| Rc::new(self.described()))
    }

    /// Reconciles a key of one of the controllers.
    ///
    /// # Errors
    /// The reconciler failed. Its error policy has been applied.
    pub fn reconcile(&self, host: &Host<'_>, request: &Request) -> Result<Outcome, Error> {
        let named = |controller: &&Runner| controller.queue == request.queue;
        let controller = self.controllers.iter().find(named).ok_or_else(|| {
            Error::terminal(format!("the plugin has no queue `{}`", request.queue))
        })?;
        logging::install();
        current::scope(host, self.shared_description(), || {
            (controller.reconcile)(host, request)
        })
    }

    /// Maps changes by the functions of [`watches`](crate::runtime::Controller::watches).
    ///
    /// # Errors
    /// An object does not fit its type.
    pub fn route(&self, host: &Host<'_>, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        logging::install();
        current::scope(host, self.shared_description(), || {
            let mut routed = Vec::new();
            for controller in &self.controllers {
                for delta in deltas {
                    let related = controller.related.iter();
                    for related in related.filter(|related| related.kind == delta.watch) {
                        for key in related.keys(delta)? {
                            routed.push(RoutedKey {
                                queue: controller.queue.clone(),
                                key,
                                delay: controller.delay,
                            });
                        }
                    }
                }
            }
            Ok(routed)
        })
    }

    fn described(&self) -> Description {
        let mut description = self.base.clone();
        let mut concurrency = 0;
        let mut unwatched = self.fields.clone();
        for controller in &self.controllers {
            description = description.queue(&controller.queue);
            for related in &controller.related {
                unwatched.remove(&related.kind);
                description = description.watch(self.watch(controller, related));
            }
            concurrency = concurrency.max(match controller.concurrency {
                0 => CONCURRENCY,
                some => some,
            });
        }
        for (kind, fields) in &unwatched {
            description = description.watch(watch_kind(kind).fields(&borrowed(fields)));
        }
        description.concurrency(concurrency.into())
    }

    fn watch(&self, controller: &Runner, related: &Related) -> Watch {
        let watch = watch_kind(&related.kind)
            .namespace(&related.namespace)
            .label_selector(related.config.label_selector.as_deref().unwrap_or_default())
            .field_selector(related.config.field_selector.as_deref().unwrap_or_default());
        let watch = match self.fields.get(&related.kind) {
            Some(fields) => watch.fields(&borrowed(fields)),
            None if related.is_whole => watch.fields(&["."]),
            None => watch.metadata_only(),
        };
        let mapping = related.mapping.clone();
        watch.enqueue(mapping.queue(&controller.queue).after(controller.delay))
    }
}

fn borrowed(fields: &[String]) -> Vec<&str> {
    fields.iter().map(String::as_str).collect()
}
