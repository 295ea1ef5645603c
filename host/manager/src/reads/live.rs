//! Live reads: what a guest reads from the API server itself, past the cache, with the plugin's own credentials and rate
//! limiter.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_cache::source::{JSON, METADATA, METADATA_LIST};
use flyball_cache::{ApiResource, Discovery, DiscoveryError};
use flyball_plugin::{Budget, Held, Read as GuestRead, check_cpu_time};
use flyball_types::{
    ApiError, Catalogue, DiscoveryFailure, Effect, FieldPath, FieldSelector, Kind, Mask,
    ServedKind, Subresource, error_chain,
};

use crate::api::client::{ApiClient, ApiRequest};
use crate::limits::rate::RateLimiter;
use crate::policy::PluginPolicy;
use crate::policy::access::{Access, Read, access};
use crate::reads::cached::check_paths;
use crate::reads::raw_path::{RawPath, ResourcePath};

/// The age up to which the list of kinds is reused: calls at the same time share a request, and a kind whose objects a guest
/// has seen is not missed.
pub(crate) const DISCOVERY_AGE: Duration = Duration::from_secs(1);

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

/// A read that was checked, as far as that needs no request, and is yet to be sent. Checks take CPU time, so it is the guest's
/// threads that do them, as [`Fetched::reduce`] does.
pub(crate) struct Prepared {
    target: Target,
    /// What it asks for; all if none.
    fields: Option<Mask>,
}

enum Target {
    /// An object, or a list if there is no name.
    Kind {
        kind: Kind,
        namespace: String,
        name: Option<String>,
        parameters: Vec<(String, String)>,
        access: Access,
    },
    /// A path.
    Raw {
        access: Access,
        path: RawPath,
        parameters: Vec<(String, String)>,
        /// The path with its parameters.
        request: String,
    },
}

/// An answer of the server that is yet to be reduced.
pub(crate) struct Fetched {
    answer: Held,
    /// What the plugin may see; all if none.
    visible: Option<Mask>,
    /// What it asked for; all if none.
    fields: Option<Mask>,
    is_list: bool,
}

impl Fetched {
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

    /// Checks a read.
    pub(crate) fn prepare(&self, read: GuestRead) -> Result<Prepared, ApiError> {
        match read {
            GuestRead::Get {
                kind,
                namespace,
                name,
                fields,
            } => {
                let kind: Kind = kind.parse().map_err(invalid)?;
                let access = self.check("get", &kind, "", &namespace, &[])?;
                let target = Target::Kind {
                    kind,
                    namespace,
                    name: Some(name),
                    parameters: Vec::new(),
                    access,
                };
                let fields = mask(&fields)?;
                Ok(Prepared { target, fields })
            }
            GuestRead::List {
                kind,
                namespace,
                parameters,
                fields,
            } => {
                let kind: Kind = kind.parse().map_err(invalid)?;
                let compared = compared_fields(&parameters)?;
                let access = self.check("list", &kind, "", &namespace, &compared)?;
                let target = Target::Kind {
                    kind,
                    namespace,
                    name: None,
                    parameters,
                    access,
                };
                let fields = mask(&fields)?;
                Ok(Prepared { target, fields })
            }
            GuestRead::Raw { path } => self.prepare_raw(&path),
        }
    }

    /// Checks a GET of a path. The path of an object or of a list needs the same grant as the read of an object or a list.
    fn prepare_raw(&self, path_and_query: &str) -> Result<Prepared, ApiError> {
        let access = access(&self.policy, Read::Raw)?;
        let (path, query) = path_and_query
            .split_once('?')
            .unwrap_or((path_and_query, ""));
        let (parsed, path) = RawPath::parse(path)?;
        let parameters: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        let request = with_parameters(path, &parameters, &RAW_PARAMETERS)?;
        let target = Target::Raw {
            access,
            path: parsed,
            parameters,
            request,
        };
        Ok(Prepared {
            target,
            fields: None,
        })
    }

    /// Sends a read, when the rate limiter lets it. Discovery is a part of it.
    pub(crate) async fn fetch(&self, read: Prepared) -> Result<Fetched, ApiError> {
        self.rate.wait().await;
        let Prepared { target, fields } = read;
        let (request, access, is_list) = match target {
            Target::Kind {
                kind,
                namespace,
                name,
                parameters,
                access,
            } => {
                let resource = resolve(&self.discovery, &kind).await?;
                let path = match &name {
                    Some(name) => resource.object(&namespace, name, ""),
                    None => resource.collection(&namespace),
                };
                let path = with_parameters(path.map_err(invalid)?, &parameters, &LIST_PARAMETERS)?;
                let asks = fields.as_ref();
                // The server need not send more.
                let accept = match (
                    asks.is_some_and(|mask| Mask::metadata().covers(mask)),
                    &name,
                ) {
                    (false, _) => JSON,
                    (true, Some(_)) => METADATA,
                    (true, None) => METADATA_LIST,
                };
                let request = ApiRequest::read(path, &access).accept(accept);
                (request, access, name.is_none())
            }
            Target::Raw {
                access,
                path: RawPath::Other,
                request,
                ..
            } => (ApiRequest::read(request, &access), access, false),
            Target::Raw {
                path: RawPath::Resource(target),
                parameters,
                request,
                ..
            } => {
                let access = self.check_path(&target, &parameters).await?;
                let request = ApiRequest::read(request, &access);
                (request, access, target.name.is_empty())
            }
        };
        let request = request.at_most(self.answer_bytes).charged_to(&self.budget);
        Ok(Fetched {
            answer: self.client.send_held(request).await?,
            visible: access.mask(),
            fields,
            is_list,
        })
    }

    /// Checks a raw read of an object or a list. What an aggregated API server does not list as a kind, such as custom
    /// metrics, needs a rule for its whole group. With such a rule, no kind has to be known.
    async fn check_path(
        &self,
        target: &ResourcePath,
        parameters: &[(String, String)],
    ) -> Result<Access, ApiError> {
        let verb = if target.name.is_empty() {
            "list"
        } else {
            "get"
        };
        let unlisted = Read::Unlisted {
            verb,
            group: &target.group,
            version: &target.version,
            subresource: &target.subresource,
            namespace: &target.namespace,
        };
        let refusal = match access(&self.policy, unlisted) {
            Ok(access) => return Ok(access),
            Err(refusal) => refusal,
        };
        let is_it = |resource: &&Arc<ApiResource>| {
            let kind = &resource.kind;
            (&kind.group, &kind.version, &resource.plural)
                == (&target.group, &target.version, &target.plural)
        };
        let found = self.discovery.catalogue(DISCOVERY_AGE).await;
        let found = found.map_err(|error| ApiError::unreachable(error_chain(&error)))?;
        if let Some(resource) = found.resources.iter().find(is_it) {
            let compared = compared_fields(parameters)?;
            let (kind, namespace) = (&resource.kind, &target.namespace);
            return self.check(verb, kind, &target.subresource, namespace, &compared);
        }
        let group_version = Kind::new(&target.group, &target.version, "").api_version();
        let mut failed = found.failed.iter();
        if failed.any(|(failed, _)| *failed == group_version) {
            return Err(ApiError::unreachable(format!(
                "it is not known which kind `{}` of {group_version} is: the API group is not available",
                target.plural
            )));
        }
        Err(refusal)
    }

    fn check(
        &self,
        verb: &str,
        kind: &Kind,
        subresource: &str,
        namespace: &str,
        uses: &[FieldPath],
    ) -> Result<Access, ApiError> {
        let read = Read::Live {
            verb,
            kind,
            subresource,
            namespace,
            uses,
        };
        access(&self.policy, read)
    }

    /// Checks whether the plugin may know the kinds that the API server serves.
    pub(crate) fn check_discovery(&self) -> Result<(), ApiError> {
        access(&self.policy, Read::Discovery).map(drop)
    }

    /// Returns the kinds that the API server serves, to be converted by [`catalogue`].
    pub(crate) async fn kinds(&self) -> Result<Arc<flyball_cache::Catalogue>, ApiError> {
        let found = self.discovery.catalogue(DISCOVERY_AGE).await;
        found.map_err(|error| ApiError::unreachable(error.to_string()))
    }
}

/// Returns the kinds as a guest gets them.
pub(crate) fn catalogue(found: &flyball_cache::Catalogue) -> Catalogue {
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
    Catalogue {
        kinds: found.resources.iter().map(kind).collect(),
        failures: found.failed.iter().map(failure).collect(),
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
    for (name, value) in parameters {
        match name.as_str() {
            "labelSelector" => fields.extend(selected_fields(value, "")?),
            "fieldSelector" => fields.extend(selected_fields("", value)?),
            _ => {}
        }
    }
    Ok(fields)
}

/// Returns the fields that a label selector and a field selector compare.
pub(crate) fn selected_fields(labels: &str, fields: &str) -> Result<Vec<FieldPath>, ApiError> {
    let labels = (!labels.is_empty()).then(|| FieldPath::of_fields(&["metadata", "labels"]));
    let mut compared: Vec<FieldPath> = labels.into_iter().collect();
    if !fields.is_empty() {
        let selector: FieldSelector = fields.parse().map_err(invalid)?;
        compared.extend(selector.paths().cloned());
    }
    Ok(compared)
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

/// Returns the mask of the fields that a read asks for; none if it asks for all.
fn mask(fields: &[String]) -> Result<Option<Mask>, ApiError> {
    let asks_for_all = fields.is_empty() || fields.iter().any(|path| path == ".");
    if asks_for_all {
        return Ok(None);
    }
    check_paths(fields)?;
    Mask::parse(fields).map(Some).map_err(invalid)
}

/// Reduces an answer to the fields of the mask.
fn narrow(answer: &[u8], mask: &Mask, is_list: bool) -> Result<Bytes, ApiError> {
    let mut narrowed = Vec::with_capacity(answer.len());
    let pruned = if is_list {
        let mut before_item = || check_cpu_time().map_err(|error| error.message);
        mask.prune_list(answer, &mut narrowed, &mut before_item)
    } else {
        mask.prune(answer, &mut narrowed)
    };
    check_cpu_time()?;
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
        let (reads, log, _) = reads_by(POLICY);
        (reads, log)
    }

    /// As [`reads`], by another policy; and the requests of discovery.
    fn reads_by(policy: &str) -> (LiveReads, Log, Log) {
        let pod = || json!({"metadata": {"name": "web", "uid": "1", "labels": {"a": "b"}}, "spec": {"nodeName": "n"}, "status": {}});
        let served = json!({"items": [{"versions": [{"version": "v1", "resources": [
            {"resource": "pods", "responseKind": {"kind": "Pod"}, "scope": "Namespaced", "verbs": ["get", "list"]},
        ]}]}]});
        let (server, discovered) = serve(move |request| match &*request.path {
            "/api" => Reply::Json(200, served.clone()),
            _ => Reply::Json(200, json!({"items": []})),
        });
        let source: Arc<dyn Source> = Arc::new(KubeSource::new(server));
        let (connection, log) = serve(move |request| match &*request.path {
            "/api/v1/namespaces/demo/pods/web" => Reply::Json(200, pod()),
            _ => Reply::Json(200, json!({"items": [pod()]})),
        });
        let policy = Policy::parse(Path::new("policy.toml"), policy).expect("a policy");
        let reads = LiveReads::new(
            ApiClient::new(connection, None, "test", Arc::new(Fence::closed())),
            Arc::new(Discovery::new(source)),
            Arc::new(policy.plugins["a"].clone()),
            RateLimiter::new(10.0, 1),
            1 << 20,
            Budget::new(1 << 20),
        );
        (reads, log, discovered)
    }

    /// What the policy lets the plugin read of the pod. An object always keeps what identifies it.
    fn granted() -> Value {
        json!({"metadata": {"name": "web", "uid": "1"}, "spec": {"nodeName": "n"}})
    }

    fn json_of(answer: Fetched) -> Value {
        let reduced = answer.reduce().expect("JSON");
        serde_json::from_slice(&reduced.bytes).expect("JSON")
    }

    fn get(kind: &str, namespace: &str, name: &str, fields: &[&str]) -> GuestRead {
        GuestRead::Get {
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
            fields: fields.iter().map(|&field| field.into()).collect(),
        }
    }

    fn list(namespace: &str, parameters: &[(&str, &str)]) -> GuestRead {
        let pair = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        GuestRead::List {
            kind: "v1/Pod".into(),
            namespace: namespace.into(),
            parameters: parameters.iter().map(pair).collect(),
            fields: Vec::new(),
        }
    }

    async fn read(reads: &LiveReads, read: GuestRead) -> Result<Fetched, ApiError> {
        reads.fetch(reads.prepare(read)?).await
    }

    #[tokio::test]
    async fn an_object_has_the_fields_that_are_both_granted_and_asked_for() {
        let (reads, _) = reads();
        for fields in [&[][..], &["status", "metadata.labels", "spec"]] {
            let found = read(&reads, get("v1/Pod", "demo", "web", fields)).await;
            assert_eq!(json_of(found.unwrap()), granted());
        }
    }

    #[tokio::test]
    async fn the_objects_of_a_list_have_the_fields_that_are_granted() {
        let (reads, log) = reads();
        let found = read(&reads, list("demo", &[("limit", "5")])).await;
        assert_eq!(json_of(found.unwrap())["items"], json!([granted()]));
        assert_eq!(log.take(), ["GET /api/v1/namespaces/demo/pods?limit=5"]);
    }

    #[tokio::test]
    async fn a_read_that_is_not_granted_sends_nothing() {
        let (reads, log) = reads();
        for (denied, reason) in [
            (get("v1/Pod", "other", "web", &[]), "Denied"),
            (get("v1/Secret", "demo", "web", &[]), "Denied"),
            (list("", &[]), "Denied"),
            (raw("/metrics"), "Denied"),
            (list("demo", &[("watch", "1")]), "Invalid"),
            (get("v1/Pod", "demo", "../secrets/a", &[]), "Invalid"),
        ] {
            let error = read(&reads, denied).await.map(drop).unwrap_err();
            assert_eq!(error.reason, reason);
        }
        assert_eq!(reads.check_discovery().unwrap_err().reason, "Denied");
        assert!(log.take().is_empty());
    }

    #[tokio::test]
    async fn the_fields_of_a_read_are_counted_before_they_are_parsed() {
        let (reads, _) = reads();
        let many = vec!["a"; 2_000_000];
        let long = "a".repeat(100_000);
        for fields in [&many[..], &[&*long][..]] {
            let refused = reads.prepare(get("v1/Pod", "demo", "web", fields));
            let error = refused.map(drop).unwrap_err();
            assert_eq!(error.reason, "Full", "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reads_wait_for_a_rate_limiter_of_their_own() {
        let (reads, start) = (reads().0, Instant::now());
        for _ in 0..6 {
            let found = read(&reads, get("v1/Pod", "demo", "web", &[])).await;
            found.map(drop).unwrap();
        }
        let took = start.elapsed().as_millis();
        assert!((499..=520).contains(&took), "{took} ms");
    }

    fn raw(path: &str) -> GuestRead {
        GuestRead::Raw { path: path.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn raw_reads_of_unlisted_resources_are_refused_at_once_and_share_one_discovery_a_second()
    {
        let policy = "[plugins.a]\nimports = [\"raw\"]\n\
                      [[plugins.a.allow]]\nkinds = [\"x.example/v1/Foo\"]\nverbs = [\"*\"]\n";
        let (reads, log, discovered) = reads_by(policy);
        let start = Instant::now();
        for _ in 0..2 {
            let found = read(&reads, raw("/apis/x.example/v1/foo")).await;
            assert_eq!(found.map(drop).unwrap_err().reason, "UnknownKind");
        }
        assert!(start.elapsed() < Duration::from_millis(200));
        assert_eq!(discovered.take().len(), 2, "of /api and /apis");
        assert!(log.take().is_empty());
    }

    #[tokio::test]
    async fn a_rule_for_a_group_grants_raw_reads_of_its_unlisted_resources_without_discovery() {
        let policy = "[plugins.a]\nimports = [\"raw\"]\n\
                      [[plugins.a.allow]]\nkinds = [\"x.example/*\"]\nsubresource = \"*\"\nverbs = [\"get\"]\n\
                      namespaces = [\"demo\"]\n";
        let (reads, log, discovered) = reads_by(policy);
        let metric = "/apis/x.example/v1/namespaces/demo/pods/*/a%7Cb";
        let query = "?labelSelector=a%3Db&metricLabelSelector=c";
        read(&reads, raw(&format!("{metric}{query}")))
            .await
            .unwrap();
        assert_eq!(log.take(), [format!("GET {metric}{query}")]);
        assert!(discovered.take().is_empty());
        for other in [
            "/apis/x.example/v1/namespaces/demo/pods",
            "/apis/x.example/v1/namespaces/other/pods/*/rate",
            "/apis/x.example/v1/pods/*/rate",
            "/apis/other.example/v1/namespaces/demo/pods/*/rate",
            "/api/v1/namespaces/demo/things/a",
        ] {
            let found = read(&reads, raw(other)).await;
            assert_eq!(
                found.map(drop).unwrap_err().reason,
                "UnknownKind",
                "{other}"
            );
        }
        let listed = read(&reads, raw("/api/v1/namespaces/demo/pods/web")).await;
        assert_eq!(listed.map(drop).unwrap_err().reason, "Denied");
        assert!(log.take().is_empty());
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
