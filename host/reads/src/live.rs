//! Live reads: a guest's reads from the API server itself, past the cache, with the plugin's own credentials and rate
//! limiter.

use std::sync::Arc;

use bytes::Bytes;
use flyball_api::client::{ApiClient, ApiRequest};
use flyball_cache::ApiResource;
use flyball_cache::source::{JSON, METADATA, METADATA_LIST};
use flyball_limits::rate::RateLimiter;
use flyball_plugin::{Allowance, Budget, Held, Quota, Read as GuestRead};
use flyball_policy::PluginPolicy;
use flyball_policy::access::{Access, Read, access};
use flyball_policy::imports::MayDiscover;
use flyball_types::{
    ApiError, Catalogue, DiscoveryFailure, Effect, FieldPath, FieldSelector, Kind, Mask,
    ServedKind, Subresource, error_chain,
};

use crate::discovery::{DISCOVERY_AGE, PluginDiscovery};
use crate::raw_path::{RawPath, ResourcePath};

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
pub struct LiveReads {
    client: ApiClient,
    discovery: Arc<PluginDiscovery>,
    policy: Arc<PluginPolicy>,
    rate: RateLimiter,
    /// The longest answer in bytes.
    answer_bytes: usize,
    /// Counts answers until the guest has them.
    budget: Arc<Budget>,
    /// Charged for requests and answers.
    quota: Option<Quota>,
}

/// A read that was checked, as far as possible without a request, and that is yet to be sent. Checks take CPU time, so
/// the guest's threads do them, like [`Fetched::reduce`].
pub struct Prepared {
    target: Target,
    /// The fields that the plugin asks for; all if none.
    fields: Option<Mask>,
}

enum Target {
    /// An object, or a list if there isn't a name.
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
pub struct Fetched {
    answer: Held,
    /// The fields that the plugin may see; all if none.
    visible: Option<Mask>,
    /// The fields that the plugin asked for; all if none.
    fields: Option<Mask>,
    is_list: bool,
}

impl Fetched {
    /// Returns what the guest gets of the answer.
    pub fn reduce(self, allowance: &Allowance) -> Result<Held, ApiError> {
        let mut answer = self.answer;
        for mask in [self.visible, self.fields].into_iter().flatten() {
            let narrowed = narrow(&answer.bytes, &mask, self.is_list, allowance)?;
            answer = answer.reduced(narrowed);
        }
        Ok(answer)
    }
}

impl LiveReads {
    pub fn new(
        client: ApiClient,
        discovery: Arc<PluginDiscovery>,
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
            quota: None,
        }
    }

    /// Charges the plugin's CPU quota, if it has one, for requests and answers.
    pub fn charged_to(self, quota: Option<Quota>) -> Self {
        Self { quota, ..self }
    }

    /// The plugin's discovery.
    pub fn discovery(&self) -> &PluginDiscovery {
        &self.discovery
    }

    /// The limiter of the requests.
    pub fn rate(&self) -> &RateLimiter {
        &self.rate
    }

    /// Checks a read.
    pub fn prepare(&self, read: GuestRead) -> Result<Prepared, ApiError> {
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

    /// Checks a GET of a path. The path of an object or of a list needs the same grant as the read of an object or a
    /// list.
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

    /// Sends a read, when the CPU quota and the rate limiter let it. Discovery is a part of it.
    pub async fn fetch(&self, read: Prepared) -> Result<Fetched, ApiError> {
        let Some(quota) = &self.quota else {
            return self.send(read).await;
        };
        quota.wait().await;
        let fetched = quota.charge(self.send(read)).await;
        if let Ok(fetched) = &fetched {
            quota.charge_received(fetched.answer.bytes.len());
        }
        fetched
    }

    async fn send(&self, read: Prepared) -> Result<Fetched, ApiError> {
        let waited = self.rate.wait().await;
        let Prepared { target, fields } = read;
        let (request, access, is_list) = match target {
            Target::Kind {
                kind,
                namespace,
                name,
                parameters,
                access,
            } => {
                let resource = self.discovery.resolve(&kind).await?;
                let path = match &name {
                    // A reference inside an object can hold any text. No object has such a name.
                    Some(name) => resource
                        .object(&namespace, name, "")
                        .map_err(|error| ApiError::not_found(format!("no such {kind}: {error}"))),
                    None => resource.collection(&namespace).map_err(invalid),
                };
                let path = with_parameters(path?, &parameters, &LIST_PARAMETERS)?;
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
        let request = request.after_wait(waited);
        Ok(Fetched {
            answer: self.client.send_held(request).await?,
            visible: access.mask(),
            fields,
            is_list,
        })
    }

    /// Checks a raw read of an object or a list. A resource that the API server does not list as a kind, such as custom
    /// metrics, needs a rule for its whole group. With such a rule, the kind need not be known.
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

    /// Returns the kinds that the API server serves, to be converted by [`catalogue`].
    pub async fn kinds(&self, _: MayDiscover) -> Result<Arc<flyball_cache::Catalogue>, ApiError> {
        let found = self.discovery.catalogue(DISCOVERY_AGE).await;
        found.map_err(|error| ApiError::unreachable(error.to_string()))
    }
}

/// Returns the kinds as a guest gets them.
pub fn catalogue(found: &flyball_cache::Catalogue) -> Catalogue {
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
pub fn selected_fields(labels: &str, fields: &str) -> Result<Vec<FieldPath>, ApiError> {
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
    Mask::parse(fields).map(Some).map_err(invalid)
}

/// Reduces an answer to the fields of the mask.
fn narrow(
    answer: &[u8],
    mask: &Mask,
    is_list: bool,
    allowance: &Allowance,
) -> Result<Bytes, ApiError> {
    let mut narrowed = Vec::with_capacity(answer.len());
    let pruned = if is_list {
        let mut before_item = || allowance.check().map_err(|error| error.message);
        mask.prune_list(answer, &mut narrowed, &mut before_item)
    } else {
        allowance.check_document(answer.len())?;
        mask.prune(answer, &mut narrowed)
    };
    allowance.check()?;
    pruned.map_err(|error| {
        let message = format!("the server's answer can't be read: {error}");
        ApiError::internal(Effect::None, message)
    })?;
    Ok(narrowed.into())
}

#[cfg(test)]
mod tests;
