//! Live reads: what a guest reads from the API server itself, past the cache, with the plugin's own credentials and rate
//! limiter.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_cache::source::{JSON, METADATA, METADATA_LIST};
use flyball_cache::{ApiResource, Discovery, DiscoveryError};
use flyball_plugin::{Budget, Held};
use flyball_types::{
    ApiError, Catalogue, DiscoveryFailure, Effect, FieldPath, FieldSelector, Kind, Mask,
    ServedKind, Subresource, error_chain,
};

use crate::api::client::{ApiClient, ApiRequest};
use crate::limits::rate::RateLimiter;
use crate::policy::{PluginPolicy, Visible};
use crate::reads::access::{Read, access};
use crate::reads::raw_path::{RawPath, ResourcePath};

/// The age up to which the list of kinds is reused: calls at the same time share a request, and a kind whose objects a guest
/// has seen is not missed.
const DISCOVERY_AGE: Duration = Duration::from_secs(1);

/// The parameters that a live list may have.
const LIST_PARAMETERS: [&str; 6] = [
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
];

/// The parameters that a raw GET may have: none opens a watch.
const RAW_PARAMETERS: [&str; 8] = [
    "labelSelector",
    "fieldSelector",
    "metricLabelSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "hash",
];

/// The live reads of one plugin.
pub(crate) struct LiveReads {
    client: ApiClient,
    discovery: Arc<Discovery>,
    policy: Arc<PluginPolicy>,
    rate: RateLimiter,
    /// The longest answer in bytes.
    answer_bytes: usize,
    /// Counts answers until the guest has them.
    budget: Arc<Budget>,
}

/// An answer of the server that is yet to be reduced. That takes CPU time, so it is the guest's threads that do it.
pub(crate) struct Fetched {
    answer: Held,
    /// What the plugin may see; all if none.
    visible: Option<Mask>,
    /// What it asked for; all if none.
    fields: Option<Mask>,
    is_list: bool,
}

impl Fetched {
    fn new(
        answer: Held,
        visible: Visible,
        fields: &[String],
        is_list: bool,
    ) -> Result<Self, ApiError> {
        let all = fields.is_empty() || fields.iter().any(|path| path == ".");
        let fields = (!all).then(|| Mask::parse(fields).map_err(invalid));
        Ok(Self {
            answer,
            visible: visible.mask(),
            fields: fields.transpose()?,
            is_list,
        })
    }

    /// Returns what the guest gets of the answer.
    pub(crate) fn reduce(self) -> Result<Held, ApiError> {
        let mut answer = self.answer;
        for mask in [self.visible, self.fields].into_iter().flatten() {
            let narrowed = narrow(&answer.bytes, &mask, self.is_list)?;
            answer = answer.reduced(narrowed);
        }
        Ok(answer)
    }
}

impl LiveReads {
    pub(crate) fn new(
        client: ApiClient,
        discovery: Arc<Discovery>,
        policy: Arc<PluginPolicy>,
        rate: RateLimiter,
        answer_bytes: usize,
        budget: Arc<Budget>,
    ) -> Self {
        Self {
            client,
            discovery,
            policy,
            rate,
            answer_bytes,
            budget,
        }
    }

    /// The limiter of the requests.
    pub(crate) fn rate(&self) -> &RateLimiter {
        &self.rate
    }

    /// Reads an object, to be reduced to `fields`.
    pub(crate) async fn get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[String],
    ) -> Result<Fetched, ApiError> {
        let kind: Kind = kind.parse().map_err(invalid)?;
        let visible = self.check("get", &kind, "", namespace, &[])?;
        let resource = resolve(&self.discovery, &kind).await?;
        let path = resource.object(namespace, name, "").map_err(invalid)?;
        let accept = if is_metadata(fields) { METADATA } else { JSON };
        let answer = self.send(ApiRequest::get(path).accept(accept)).await?;
        Fetched::new(answer, visible, fields, false)
    }

    /// Reads a list, each object to be reduced to `fields`.
    pub(crate) async fn list(
        &self,
        kind: &str,
        namespace: &str,
        parameters: &[(String, String)],
        fields: &[String],
    ) -> Result<Fetched, ApiError> {
        let kind: Kind = kind.parse().map_err(invalid)?;
        let visible = self.check("list", &kind, "", namespace, &compared_fields(parameters)?)?;
        let resource = resolve(&self.discovery, &kind).await?;
        let path = resource.collection(namespace).map_err(invalid)?;
        let path = with_parameters(path, parameters, &LIST_PARAMETERS)?;
        let accept = if is_metadata(fields) {
            METADATA_LIST
        } else {
            JSON
        };
        let answer = self.send(ApiRequest::get(path).accept(accept)).await?;
        Fetched::new(answer, visible, fields, true)
    }

    /// Returns the answer to a GET of a path. The path of an object or of a list needs the same grant as
    /// [`LiveReads::get`] or [`LiveReads::list`].
    pub(crate) async fn raw(&self, path_and_query: &str) -> Result<Fetched, ApiError> {
        access(&self.policy, Read::Raw)?;
        let (path, query) = path_and_query
            .split_once('?')
            .unwrap_or((path_and_query, ""));
        let parsed = RawPath::parse(path)?;
        let parameters: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        let request = with_parameters(path.to_owned(), &parameters, &RAW_PARAMETERS)?;
        let (visible, is_list) = match parsed {
            RawPath::Other => (Visible::All, false),
            RawPath::Resource(target) => {
                let is_list = target.name.is_empty();
                (self.check_path(&target, &parameters).await?, is_list)
            }
        };
        let answer = self.send(ApiRequest::get(request)).await?;
        Fetched::new(answer, visible, &[], is_list)
    }

    /// Checks a raw read of an object or a list. What an aggregated API server does not list as a kind, such as custom
    /// metrics, needs no more than the grant of `raw`.
    async fn check_path(
        &self,
        target: &ResourcePath,
        parameters: &[(String, String)],
    ) -> Result<Visible, ApiError> {
        let is_it = |resource: &&Arc<ApiResource>| {
            let kind = &resource.kind;
            (&kind.group, &kind.version, &resource.plural)
                == (&target.group, &target.version, &target.plural)
        };
        // A kind that has just been installed is looked for again.
        for age in [DISCOVERY_AGE, Duration::ZERO] {
            let found = self.discovery.catalogue(age).await;
            let found = found.map_err(|error| ApiError::unreachable(error_chain(&error)))?;
            if let Some(resource) = found.resources.iter().find(is_it) {
                let verb = if target.name.is_empty() {
                    "list"
                } else {
                    "get"
                };
                let compared = compared_fields(parameters)?;
                let (kind, namespace) = (&resource.kind, &target.namespace);
                return self.check(verb, kind, &target.subresource, namespace, &compared);
            }
            let group_version = Kind::new(&target.group, &target.version, "").api_version();
            if found
                .failed
                .iter()
                .any(|(failed, _)| *failed == group_version)
            {
                return Err(ApiError::unreachable(format!(
                    "it is not known which kind `{}` of {group_version} is: the API group is not available",
                    target.plural
                )));
            }
        }
        Ok(Visible::All)
    }

    fn check(
        &self,
        verb: &str,
        kind: &Kind,
        subresource: &str,
        namespace: &str,
        uses: &[FieldPath],
    ) -> Result<Visible, ApiError> {
        let read = Read::Live {
            verb,
            kind,
            subresource,
            namespace,
            uses,
        };
        access(&self.policy, read)
    }

    /// Returns the kinds that the API server serves.
    pub(crate) async fn kinds(&self) -> Result<Catalogue, ApiError> {
        access(&self.policy, Read::Discovery)?;
        let found = self.discovery.catalogue(DISCOVERY_AGE).await;
        let found = found.map_err(|error| ApiError::unreachable(error.to_string()))?;
        let kind = |resource: &Arc<ApiResource>| ServedKind {
            kind: resource.kind.to_string(),
            plural: resource.plural.clone(),
            namespaced: resource.namespaced,
            preferred: resource.preferred,
            verbs: resource.verbs.iter().cloned().collect(),
            subresources: resource
                .subresources
                .iter()
                .map(|subresource| Subresource {
                    name: subresource.name.clone(),
                    verbs: subresource.verbs.iter().cloned().collect(),
                })
                .collect(),
        };
        let failure = |(group_version, message): &(String, String)| DiscoveryFailure {
            group_version: group_version.clone(),
            message: message.clone(),
        };
        Ok(Catalogue {
            kinds: found.resources.iter().map(kind).collect(),
            failures: found.failed.iter().map(failure).collect(),
        })
    }

    async fn send(&self, request: ApiRequest) -> Result<Held, ApiError> {
        self.rate.wait().await;
        let request = request.at_most(self.answer_bytes);
        self.client
            .send_held(request.charged_to(&self.budget))
            .await
    }
}

/// Returns a kind's path in the API.
pub(crate) async fn resolve(
    discovery: &Discovery,
    kind: &Kind,
) -> Result<Arc<ApiResource>, ApiError> {
    discovery.resolve(kind).await.map_err(|error| match error {
        DiscoveryError::UnknownKind(_) => ApiError::unknown_kind(error.to_string()),
        DiscoveryError::Source(_) => ApiError::unreachable(error.to_string()),
    })
}

/// Returns the fields that the selectors among the parameters of a list compare.
fn compared_fields(parameters: &[(String, String)]) -> Result<Vec<FieldPath>, ApiError> {
    let mut fields = Vec::new();
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        match name.as_str() {
            "labelSelector" => fields.push(FieldPath::of_fields(&["metadata", "labels"])),
            "fieldSelector" => {
                let selector: FieldSelector = value.parse().map_err(invalid)?;
                fields.extend(selector.paths().cloned());
            }
            _ => {}
        }
    }
    Ok(fields)
}

/// Appends the parameters to a path. Fails if one is not among those that are allowed.
fn with_parameters(
    mut path: String,
    parameters: &[(String, String)],
    allowed: &[&str],
) -> Result<String, ApiError> {
    for (name, value) in parameters {
        if !allowed.contains(&name.as_str()) {
            return Err(ApiError::invalid(format!(
                "a read has no parameter `{}`: use {}",
                name.escape_debug(),
                allowed.join(", ")
            )));
        }
        flyball_cache::resource::push_parameter(&mut path, name, value);
    }
    Ok(path)
}

fn invalid(error: impl std::fmt::Display) -> ApiError {
    ApiError::invalid(error.to_string())
}

/// Whether all of these fields are metadata, so that the server need not send more.
fn is_metadata(fields: &[String]) -> bool {
    !fields.is_empty() && Mask::parse(fields).is_ok_and(|mask| Mask::metadata().covers(&mask))
}

/// Reduces an answer to the fields of the mask.
fn narrow(answer: &[u8], mask: &Mask, is_list: bool) -> Result<Bytes, ApiError> {
    let mut narrowed = Vec::with_capacity(answer.len());
    let pruned = if is_list {
        mask.prune_list(answer, &mut narrowed)
    } else {
        mask.prune(answer, &mut narrowed)
    };
    pruned.map_err(|error| {
        let message = format!("the server's answer can't be read: {error}");
        ApiError::internal(Effect::None, message)
    })?;
    Ok(narrowed.into())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use flyball_cache::{KubeSource, Source};
    use serde_json::{Value, json};
    use tokio::time::Instant;

    use super::*;
    use crate::api::fake_server::{Log, Reply, serve};
    use crate::api::fence::Fence;
    use crate::policy::Policy;

    const POLICY: &str = "[[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nverbs = [\"get\", \"list\"]\n\
                          namespaces = [\"demo\"]\nfields = [\"metadata.name\", \"spec\"]\n";

    /// The reads of a plugin on a server that has one pod, ten per second; and the requests that they sent.
    fn reads() -> (LiveReads, Log) {
        let pod = || json!({"metadata": {"name": "web", "uid": "1", "labels": {"a": "b"}}, "spec": {"nodeName": "n"}, "status": {}});
        let served = json!({"items": [{"versions": [{"version": "v1", "resources": [
            {"resource": "pods", "responseKind": {"kind": "Pod"}, "scope": "Namespaced", "verbs": ["get", "list"]},
        ]}]}]});
        let (server, _) = serve(move |request| match &*request.path {
            "/api" => Reply::Json(200, served.clone()),
            _ => Reply::Json(200, json!({"items": []})),
        });
        let source: Arc<dyn Source> = Arc::new(KubeSource::new(server));
        let (connection, log) = serve(move |request| match &*request.path {
            "/api/v1/namespaces/demo/pods/web" => Reply::Json(200, pod()),
            _ => Reply::Json(200, json!({"items": [pod()]})),
        });
        let policy = Policy::parse(Path::new("policy.toml"), POLICY).expect("a policy");
        let reads = LiveReads::new(
            ApiClient::new(connection, None, "test", Arc::new(Fence::closed())),
            Arc::new(Discovery::new(source)),
            Arc::new(policy.plugins["a"].clone()),
            RateLimiter::new(10.0, 1),
            1 << 20,
            Budget::new(1 << 20),
        );
        (reads, log)
    }

    /// What the policy lets the plugin read of the pod. An object always keeps what identifies it.
    fn granted() -> Value {
        json!({"metadata": {"name": "web", "uid": "1"}, "spec": {"nodeName": "n"}})
    }

    fn json_of(answer: Fetched) -> Value {
        let reduced = answer.reduce().expect("JSON");
        serde_json::from_slice(&reduced.bytes).expect("JSON")
    }

    #[tokio::test]
    async fn an_object_has_the_fields_that_are_both_granted_and_asked_for() {
        let (reads, _) = reads();
        let get = async |fields: &[&str]| {
            let fields: Vec<String> = fields.iter().map(|&field| field.into()).collect();
            json_of(reads.get("v1/Pod", "demo", "web", &fields).await.unwrap())
        };
        assert_eq!(get(&[]).await, granted());
        let fields = ["status", "metadata.labels", "spec"];
        assert_eq!(get(&fields).await, granted());
    }

    #[tokio::test]
    async fn the_objects_of_a_list_have_the_fields_that_are_granted() {
        let (reads, log) = reads();
        let limit = [("limit".to_owned(), "5".to_owned())];
        let list = reads.list("v1/Pod", "demo", &limit, &[]).await.unwrap();
        assert_eq!(json_of(list)["items"], json!([granted()]));
        assert_eq!(log.take(), ["GET /api/v1/namespaces/demo/pods?limit=5"]);
    }

    #[tokio::test]
    async fn a_read_that_is_not_granted_sends_nothing() {
        let (reads, log) = reads();
        let watch = [("watch".to_owned(), "1".to_owned())];
        for (error, reason) in [
            (reads.get("v1/Pod", "other", "web", &[]).await, "Denied"),
            (reads.get("v1/Secret", "demo", "web", &[]).await, "Denied"),
            (reads.list("v1/Pod", "", &[], &[]).await, "Denied"),
            (reads.raw("/metrics").await, "Denied"),
            (reads.list("v1/Pod", "demo", &watch, &[]).await, "Invalid"),
            (
                reads.get("v1/Pod", "demo", "../secrets/a", &[]).await,
                "Invalid",
            ),
        ] {
            assert_eq!(error.map(drop).unwrap_err().reason, reason);
        }
        assert_eq!(reads.kinds().await.unwrap_err().reason, "Denied");
        assert!(log.take().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn reads_wait_for_a_rate_limiter_of_their_own() {
        let (reads, start) = (reads().0, Instant::now());
        for _ in 0..6 {
            reads.get("v1/Pod", "demo", "web", &[]).await.unwrap();
        }
        let took = start.elapsed().as_millis();
        assert!((499..=520).contains(&took), "{took} ms");
    }

    #[test]
    fn the_parameters_of_a_list_are_known_and_escaped() {
        let path = |name: &str, value: &str| {
            let parameters = [(name.into(), value.into())];
            with_parameters("/api/v1/pods".into(), &parameters, &LIST_PARAMETERS)
        };
        assert_eq!(
            path("labelSelector", "a=b&watch=true").unwrap(),
            "/api/v1/pods?labelSelector=a%3Db%26watch%3Dtrue"
        );
        for name in ["watch", "follow", "limit&watch", "Limit", ""] {
            let error = path(name, "1").unwrap_err();
            assert_eq!(error.reason, "Invalid", "{name}");
        }
    }
}
