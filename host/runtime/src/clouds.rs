//! Routes the calls of a cloud from a controller's guest to the provider's instances.
//!
//! A provider is a plugin whose component exports a cloud. Its version registers here while it runs; the next version
//! takes its place, and calls that run meanwhile end on the version that they began on. Whatever a provider does is an
//! error of one call: its traps, its limits, and its absence.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use flyball_plugin::{CallError, CloudCall, CloudError, Plugin};
use flyball_policy::imports::MayCallCloud;
use flyball_recording::{Document, Input};
use flyball_rehearse::{Session, of_cloud};
use flyball_serving::Metrics;
use flyball_serving::metrics::{CounterVec, MetricsError};
use flyball_types::{Kind, printable};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::OnceCell;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use crate::context::PluginContext;
use crate::guest_call::GuestCall;
use crate::queue::{Cause, Reason};
use crate::telemetry::call_span;

/// How long a call waits for a provider that is not there, such as one that is being loaded at the start.
const PATIENCE: Duration = Duration::from_secs(5);

/// The running providers of this process.
pub struct Clouds {
    /// By the plugins' names.
    providers: Mutex<BTreeMap<String, Arc<Provider>>>,
    /// Raised when a provider is added.
    added: watch::Sender<u64>,
    /// Whether a cloud may lack an ID of the cluster.
    allow_untagged: bool,
    calls: CounterVec,
}

/// The capability that the host itself reads.
#[derive(Deserialize)]
struct ClusterId {
    #[serde(default, rename = "hasClusterID")]
    has_cluster_id: bool,
}

/// A running version of a provider.
struct Provider {
    name: String,
    plugin: Plugin,
    /// Gone once the version has ended.
    context: Weak<PluginContext>,
    /// The document of its capabilities, once a call needed it.
    capabilities: OnceCell<Bytes>,
    calls: CounterVec,
}

/// Removes a provider when it is dropped, unless another version has taken its place.
pub struct Registration {
    clouds: Arc<Clouds>,
    provider: Arc<Provider>,
}

/// The fields that identify a Node of a call.
#[derive(Deserialize)]
struct NodeId {
    metadata: NodeMetadata,
}

#[derive(Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
struct NodeMetadata {
    name: String,
    uid: String,
}

impl Clouds {
    /// `allow_untagged` is whether a cloud may lack an ID of the cluster. Fails if the host's metrics can't be declared, which
    /// is a fault of the host.
    pub fn new(metrics: &Metrics, allow_untagged: bool) -> Result<Arc<Self>, MetricsError> {
        let calls = metrics.counter(
            "flyball_cloud_calls_total",
            "Calls of a cloud, by provider, method and result: success, error (the provider's), or failed (the call did not \
             return).",
            &["provider", "method", "result"],
        )?;
        Ok(Arc::new(Self {
            providers: Mutex::default(),
            added: watch::Sender::new(0),
            allow_untagged,
            calls,
        }))
    }

    /// Adds a version of a provider, in place of the version before.
    pub fn add(self: &Arc<Self>, plugin: Plugin, context: &Arc<PluginContext>) -> Registration {
        let provider = Arc::new(Provider {
            name: context.name().to_owned(),
            plugin,
            context: Arc::downgrade(context),
            capabilities: OnceCell::new(),
            calls: self.calls.clone(),
        });
        let name = provider.name.clone();
        self.providers.lock().insert(name, provider.clone());
        self.added.send_modify(|added| *added += 1);
        Registration {
            clouds: self.clone(),
            provider,
        }
    }

    /// Returns the document of what the provider's cloud supports.
    ///
    /// # Errors
    /// The provider's, or `Unavailable`, `Timeout` or `Crashed`.
    pub async fn capabilities(&self, granted: &MayCallCloud) -> Result<Bytes, CloudError> {
        let provider = self.provider(granted.provider()).await?;
        let asked = provider.capabilities.get_or_try_init(async || {
            let context = provider.context()?;
            let ask = |provider: Arc<Provider>, call: Arc<GuestCall>, session: Session| async move {
                let ended = provider.plugin.cloud_capabilities(session.imports()).await;
                let digest = &call.context().settings.digest;
                let input = || Input::CloudCapabilities {};
                session.end(digest, None, of_cloud(&ended), input).await;
                ended
            };
            let document = provider
                .clone()
                .run(context, "capabilities".into(), ask)
                .await?;
            self.check_capabilities(&provider.name, &document)?;
            Ok(document.into())
        });
        asked.await.cloned()
    }

    fn check_capabilities(&self, provider: &str, document: &[u8]) -> Result<(), CloudError> {
        let read = serde_json::from_slice::<ClusterId>(document).map_err(|error| {
            CloudError::crashed(format!(
                "the capabilities of the cloud provider {provider} are malformed: {error}"
            ))
        })?;
        if read.has_cluster_id || self.allow_untagged {
            return Ok(());
        }
        Err(CloudError::unavailable(format!(
            "the cloud provider {provider} has no ID of this cluster, so that it could take the resources of others for its \
             own: give it one in its configuration, or set --allow-untagged-cloud"
        )))
    }

    /// Calls a method of the provider's cloud.
    ///
    /// # Errors
    /// As [`Self::capabilities`].
    pub async fn call(
        &self,
        granted: &MayCallCloud,
        call: CloudCall,
    ) -> Result<Vec<u8>, CloudError> {
        let provider = self.provider(granted.provider()).await?;
        let context = provider.context()?;
        let method = call.method.clone();
        let work = |provider: Arc<Provider>, own: Arc<GuestCall>, session: Session| async move {
            let nodes = provider.own_nodes(&own, call.nodes.clone()).await;
            let call = CloudCall { nodes, ..call };
            let noted = session
                .hold(call.arguments.len() + call.nodes.len())
                .then(|| call.clone());
            let ended = provider.plugin.cloud_call(session.imports(), call).await;
            let digest = &own.context().settings.digest;
            let input = || noted.map_or(Input::CloudCapabilities {}, recorded_call);
            session.end(digest, None, of_cloud(&ended), input).await;
            ended
        };
        provider.run(context, method, work).await
    }

    /// Returns the running version. Waits for a moment if there is none.
    async fn provider(&self, name: &str) -> Result<Arc<Provider>, CloudError> {
        let mut added = self.added.subscribe();
        let found = || self.providers.lock().get(name).cloned();
        let running = async {
            loop {
                if let Some(provider) = found() {
                    return provider;
                }
                // Fails never: the sender is in `self`.
                let _ = added.changed().await;
            }
        };
        let running = tokio::time::timeout(PATIENCE, running).await;
        running.map_err(|_| {
            CloudError::unavailable(format!(
                "the cloud provider `{}` does not run: `flyball status` says why",
                printable(name)
            ))
        })
    }
}

fn recorded_call(call: CloudCall) -> Input {
    Input::Cloud {
        method: call.method,
        arguments: Document(call.arguments.to_vec()),
        nodes: Document(call.nodes.to_vec()),
    }
}

impl Provider {
    fn context(&self) -> Result<Arc<PluginContext>, CloudError> {
        self.context.upgrade().ok_or_else(|| {
            let name = &self.name;
            CloudError::unavailable(format!("the cloud provider {name} has just been stopped"))
        })
    }

    /// Returns the nodes of a call as the provider is given them. Computed on the provider's threads, within its quota.
    async fn own_nodes(&self, imports: &Arc<GuestCall>, nodes: Bytes) -> Bytes {
        let (plugin, imports, given) = (self.plugin.clone(), imports.clone(), nodes.clone());
        let work = async move { plugin.work(|| own_nodes(imports.context(), &given)).await };
        let running = AbortOnDropHandle::new(self.plugin.threads().spawn(work));
        running.await.unwrap_or(nodes)
    }

    /// Runs a call of the guest beside the caller, so that it is not charged to the caller. It ends if the caller does.
    async fn run<F>(
        self: Arc<Self>,
        context: Arc<PluginContext>,
        method: String,
        work: impl FnOnce(Arc<Self>, Arc<GuestCall>, Session) -> F + Send + 'static,
    ) -> Result<Vec<u8>, CloudError>
    where
        F: Future<Output = Result<Result<Vec<u8>, CloudError>, CallError>> + Send + 'static,
    {
        // Credentials are requests, and so may be what the call's writes wait for.
        let (runtime, provider) = (context.runtime.clone(), self.clone());
        let span = call_span(&self.name, &method);
        let trace = flyball_traces::current();
        let ended = async move {
            if let Some(credentials) = &context.credentials {
                credentials.refresh().await;
            }
            let key: Arc<str> = method.as_str().into();
            let reason = Reason::Requeued { by: key.clone() };
            let call = GuestCall::new(context.clone(), key, Cause { reason, trace });
            let session = context.recorder.begin(call.clone());
            let ended = work(provider.clone(), call.clone(), session).await;
            if ended.is_ok() {
                call.commit();
            }
            call.wait_for_writes().await;
            provider.end(&context, &method, ended)
        };
        let running = AbortOnDropHandle::new(runtime.spawn(ended.instrument(span)));
        running.await.unwrap_or_else(|_| {
            let name = &self.name;
            Err(CloudError::crashed(format!(
                "the host failed to call the cloud provider {name}"
            )))
        })
    }

    /// Counts a call, and removes credentials from its error.
    fn end(
        &self,
        context: &PluginContext,
        method: &str,
        ended: Result<Result<Vec<u8>, CloudError>, CallError>,
    ) -> Result<Vec<u8>, CloudError> {
        let result = match &ended {
            Ok(Ok(_)) => "success",
            Ok(Err(_)) => "error",
            Err(_) => "failed",
        };
        // A guest may name methods at will.
        let method = if is_method(method) { method } else { "other" };
        self.calls
            .with_label_values(&[&*self.name, method, result])
            .inc();
        let ended = ended.unwrap_or_else(|failed| {
            let error = CloudError::of_failed_call(&self.name, &failed);
            let error = context.without_credentials(error);
            if context.limits.log_lines.pass() {
                tracing::warn!(%error, "a call of the cloud failed");
            }
            Err(error)
        });
        ended.map_err(|error| context.without_credentials(error))
    }
}

impl PluginContext {
    fn without_credentials(&self, error: CloudError) -> CloudError {
        match &self.credentials {
            None => error,
            Some(credentials) => CloudError {
                message: credentials.redact(&error.message).into_owned(),
                ..error
            },
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut providers = self.clouds.providers.lock();
        let current = providers.get(&self.provider.name);
        if current.is_some_and(|current| Arc::ptr_eq(current, &self.provider)) {
            providers.remove(&self.provider.name);
        }
    }
}

/// The methods of `wit/cloud/types.wit`.
fn is_method(name: &str) -> bool {
    const METHODS: [&str; 22] = [
        "capabilities",
        "GetLoadBalancer",
        "GetLoadBalancerName",
        "EnsureLoadBalancer",
        "UpdateLoadBalancer",
        "EnsureLoadBalancerDeleted",
        "InstanceExists",
        "InstanceShutdown",
        "InstanceMetadata",
        "NodeAddresses",
        "NodeAddressesByProviderID",
        "InstanceID",
        "InstanceType",
        "InstanceTypeByProviderID",
        "InstanceExistsByProviderID",
        "InstanceShutdownByProviderID",
        "GetZoneByProviderID",
        "GetZoneByNodeName",
        "GetZone",
        "ListRoutes",
        "CreateRoute",
        "DeleteRoute",
    ];
    METHODS.contains(&name)
}

/// Replaces the Nodes of a call by those that the provider's own watch of Nodes holds. Others stay as the caller gave
/// them: those that the cache no longer holds, and all of them if the provider watches no Nodes or the array is malformed,
/// which the provider then reports.
fn own_nodes(context: &PluginContext, nodes: &Bytes) -> Bytes {
    let node = Kind::new("", "v1", "Node");
    let watches = &context.settings.description.watches;
    let is_watched = watches
        .iter()
        .any(|watch| watch.kind.as_ref() == Some(&node));
    if nodes.is_empty() || !is_watched {
        return nodes.clone();
    }
    let cached = |name: &str| {
        let found = context.reads.cached.get("v1/Node", "", name, &[]);
        found.ok().flatten()
    };
    with_cached(nodes, cached).unwrap_or_else(|| nodes.clone())
}

/// None if the nodes are not an array of Nodes.
fn with_cached(nodes: &[u8], cached: impl Fn(&str) -> Option<Bytes>) -> Option<Bytes> {
    let given: Vec<&RawValue> = serde_json::from_slice(nodes).ok()?;
    let mut all = vec![b'['];
    for node in given {
        if all.len() > 1 {
            all.push(b',');
        }
        let wanted: NodeId = serde_json::from_str(node.get()).ok()?;
        let found = cached(&wanted.metadata.name).filter(|found| {
            let found = serde_json::from_slice::<NodeId>(found);
            found.is_ok_and(|found| found.metadata == wanted.metadata)
        });
        match found {
            Some(found) => all.extend_from_slice(&found),
            None => all.extend_from_slice(node.get().as_bytes()),
        }
    }
    all.push(b']');
    Some(all.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_the_providers_cache_take_the_place_of_the_callers() {
        let cached = |name: &str| match name {
            "a" => Some(Bytes::from(
                r#"{"metadata":{"name":"a","uid":"1"},"spec":{"x":1}}"#,
            )),
            "b" => Some(Bytes::from(r#"{"metadata":{"name":"b","uid":"new"}}"#)),
            _ => None,
        };
        let given = r#"[{"metadata":{"name":"a","uid":"1"}},{"metadata":{"name":"b","uid":"2"}}, {"metadata":{"name":"c"}}]"#;
        let all = with_cached(given.as_bytes(), cached).unwrap();
        let expected = r#"[{"metadata":{"name":"a","uid":"1"},"spec":{"x":1}},{"metadata":{"name":"b","uid":"2"}},{"metadata":{"name":"c"}}]"#;
        assert_eq!(String::from_utf8_lossy(&all), expected);
        assert_eq!(with_cached(b"[]", cached).unwrap(), Bytes::from("[]"));
        assert!(with_cached(b"{", cached).is_none());
        assert!(with_cached(b"[1]", cached).is_none());
    }

    #[test]
    fn each_method_of_the_world_is_counted_under_its_name() {
        let world = include_str!("../../../wit/cloud/types.wit");
        let methods = world.split('`').filter_map(|word| word.split_once('('));
        let methods = methods.map(|(name, _)| name);
        let methods: Vec<_> = methods
            .filter(|name| name.starts_with(char::is_uppercase))
            .collect();
        assert!(methods.len() >= 20, "{methods:?}");
        for method in methods {
            assert!(is_method(method), "{method}");
        }
        assert!(!is_method("Made-Up"));
    }
}
