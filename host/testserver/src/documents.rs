//! Parts of calls and results, and how they become values of the SDK.

use flyball_sdk::certificate::{Attribute, CertificateTemplate, KeyUsages, SubjectKey};
use flyball_sdk::write::{Action, Target};
use flyball_sdk::{ApiError, Effect, ObjectReference, PatchType, Time, base64, imports, write};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// Names an object.
#[derive(Deserialize)]
pub(crate) struct Key {
    /// The kind, as in `apps/v1/Deployment`.
    pub(crate) kind: String,
    /// Empty if the object is cluster-scoped.
    #[serde(default)]
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// An `object-reference` of the world.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Reference {
    kind: String,
    #[serde(default)]
    namespace: String,
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
}

impl From<Reference> for ObjectReference {
    fn from(reference: Reference) -> Self {
        let Reference {
            kind,
            namespace,
            name,
            uid,
            resource_version,
        } = reference;
        Self {
            kind,
            namespace,
            name,
            uid,
            resource_version,
        }
    }
}

impl From<ObjectReference> for Reference {
    fn from(reference: ObjectReference) -> Self {
        let ObjectReference {
            kind,
            namespace,
            name,
            uid,
            resource_version,
        } = reference;
        Self {
            kind,
            namespace,
            name,
            uid,
            resource_version,
        }
    }
}

/// Bytes that are not JSON, in Base64.
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base64::encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let decoded = base64::decode(&text).ok_or_else(|| D::Error::custom("not Base64"));
        decoded.map(Self)
    }
}

/// A `time` of the world.
#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Instant {
    seconds: i64,
    #[serde(default)]
    nanoseconds: u32,
}

impl From<Time> for Instant {
    fn from(time: Time) -> Self {
        Self {
            seconds: time.seconds,
            nanoseconds: time.nanoseconds,
        }
    }
}

impl From<Instant> for Time {
    fn from(instant: Instant) -> Self {
        Self {
            seconds: instant.seconds,
            nanoseconds: instant.nanoseconds,
        }
    }
}

/// An `error` of the world.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Error {
    status: u16,
    reason: String,
    message: String,
    /// `none`, `refused` or `unknown`; by default, the status decides.
    #[serde(default)]
    effect: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u32>,
}

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Self {
        let effect = match error.effect {
            Effect::None => "none",
            Effect::Refused => "refused",
            Effect::Unknown => "unknown",
        };
        Self {
            status: error.status,
            reason: error.reason,
            message: error.message,
            effect: Some(effect.into()),
            retry_after_ms: error.retry_after_ms,
        }
    }
}

impl TryFrom<Error> for ApiError {
    type Error = String;

    fn try_from(error: Error) -> Result<Self, String> {
        let of_server = Self::of_server(error.status, &error.reason, error.message)
            .with_retry_after(error.retry_after_ms);
        Ok(match error.effect.as_deref() {
            None => of_server,
            Some("none") => of_server.with_effect(Effect::None),
            Some("refused") => of_server.with_effect(Effect::Refused),
            Some("unknown") => of_server.with_effect(Effect::Unknown),
            Some(other) => return Err(format!("an error has no effect `{other}`")),
        })
    }
}

/// A `query` of the world.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Query {
    kind: String,
    namespace: String,
    /// Names and values.
    conditions: Vec<(String, String)>,
}

impl TryFrom<Query> for flyball_types::Query {
    type Error = ApiError;

    fn try_from(query: Query) -> Result<Self, ApiError> {
        Self::parse(query.kind, query.namespace, query.conditions)
    }
}

/// A `projection` of the world: `"all"`, `{"fields": […]}` or `{"columns": […]}`.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Projection {
    All,
    Fields(Vec<String>),
    Columns(Vec<String>),
}

impl From<Projection> for flyball_types::Projection {
    fn from(projection: Projection) -> Self {
        match projection {
            Projection::All => Self::All,
            Projection::Fields(paths) => Self::Fields(paths),
            Projection::Columns(paths) => Self::Columns(paths),
        }
    }
}

/// A live read.
#[derive(Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Read {
    Get {
        kind: String,
        namespace: String,
        name: String,
        fields: Vec<String>,
    },
    List {
        kind: String,
        namespace: String,
        parameters: Vec<(String, String)>,
        fields: Vec<String>,
    },
    Raw {
        path: String,
    },
}

impl From<Read> for imports::Read {
    fn from(read: Read) -> Self {
        match read {
            Read::Get {
                kind,
                namespace,
                name,
                fields,
            } => Self::Get {
                kind,
                namespace,
                name,
                fields,
            },
            Read::List {
                kind,
                namespace,
                parameters,
                fields,
            } => Self::List {
                kind,
                namespace,
                parameters,
                fields,
            },
            Read::Raw { path } => Self::Raw { path },
        }
    }
}

/// A write: the union of the parameters of the resource `batch`'s functions.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Write {
    verb: Verb,
    kind: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    resource_version: String,
    /// The object, the change, the status or the patch.
    #[serde(default)]
    body: Value,
    /// A merge patch of the metadata, for a status.
    #[serde(default)]
    metadata: Option<Value>,
    /// `json`, `merge`, `strategic` or `apply`.
    #[serde(default)]
    patch_type: String,
    #[serde(default)]
    label_selector: String,
    #[serde(default)]
    field_selector: String,
    #[serde(default)]
    options: Option<Map<String, Value>>,
    #[serde(default)]
    returns: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Verb {
    Create,
    Update,
    UpdateStatus,
    Patch,
    Delete,
    DeleteCollection,
}

impl TryFrom<Write> for write::Write {
    type Error = String;

    fn try_from(write: Write) -> Result<Self, String> {
        let body = write.body.to_string().into_bytes();
        let action = match write.verb {
            Verb::Create => Action::Create(body),
            Verb::Update => Action::Update(write.resource_version, body),
            Verb::UpdateStatus => Action::UpdateStatus {
                resource_version: write.resource_version,
                status: body,
                metadata: write
                    .metadata
                    .map_or_else(Vec::new, |change| change.to_string().into_bytes()),
            },
            Verb::Patch => Action::Patch(patch_type(&write.patch_type)?, body),
            Verb::Delete => Action::Delete,
            Verb::DeleteCollection => {
                Action::DeleteCollection(write.label_selector, write.field_selector)
            }
        };
        Ok(Self {
            target: Target {
                kind: write.kind,
                namespace: write.namespace,
                name: write.name,
                subresource: write.subresource,
            },
            action,
            options: write.options.unwrap_or_default(),
            returns: write.returns,
        })
    }
}

fn patch_type(name: &str) -> Result<PatchType, String> {
    use PatchType::{Apply, Json, Merge, Strategic};
    let known = [Json, Merge, Strategic, Apply];
    let found = known.into_iter().find(|own| own.as_str() == name);
    found.ok_or_else(|| format!("there is no patch type `{name}`"))
}

/// A `certificate-template` of the world.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Template {
    key: TemplateKey,
    /// Object identifiers and values.
    subject: Vec<Vec<(String, String)>>,
    dns_names: Vec<String>,
    email_addresses: Vec<String>,
    ip_addresses: Vec<String>,
    uris: Vec<String>,
    /// Bits in X.509's order: `digitalSignature` is bit 0.
    key_usages: u16,
    extended_key_usages: Vec<String>,
    not_before: Instant,
    not_after: Instant,
}

/// `{"publicKey": …}` or `{"request": …}`.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
enum TemplateKey {
    PublicKey(Bytes),
    Request(Bytes),
}

impl TryFrom<Template> for CertificateTemplate {
    type Error = String;

    fn try_from(template: Template) -> Result<Self, String> {
        let attributes = |names: Vec<(String, String)>| {
            let attribute = |(oid, value): (String, String)| Attribute { oid, value };
            names.into_iter().map(attribute).collect()
        };
        Ok(Self {
            key: match template.key {
                TemplateKey::PublicKey(Bytes(key)) => SubjectKey::PublicKey(key),
                TemplateKey::Request(Bytes(request)) => SubjectKey::Request(request),
            },
            subject: template.subject.into_iter().map(attributes).collect(),
            dns_names: template.dns_names,
            email_addresses: template.email_addresses,
            ip_addresses: template.ip_addresses,
            uris: template.uris,
            key_usages: KeyUsages::of_bits(template.key_usages).ok_or("unknown key usages")?,
            extended_key_usages: template.extended_key_usages,
            not_before: template.not_before.into(),
            not_after: template.not_after.into(),
        })
    }
}

impl From<CertificateTemplate> for Template {
    fn from(template: CertificateTemplate) -> Self {
        let attributes = |names: Vec<Attribute>| {
            let attribute = |attribute: Attribute| (attribute.oid, attribute.value);
            names.into_iter().map(attribute).collect()
        };
        Self {
            key: match template.key {
                SubjectKey::PublicKey(key) => TemplateKey::PublicKey(Bytes(key)),
                SubjectKey::Request(request) => TemplateKey::Request(Bytes(request)),
            },
            subject: template.subject.into_iter().map(attributes).collect(),
            dns_names: template.dns_names,
            email_addresses: template.email_addresses,
            ip_addresses: template.ip_addresses,
            uris: template.uris,
            key_usages: template.key_usages.bits(),
            extended_key_usages: template.extended_key_usages,
            not_before: template.not_before.into(),
            not_after: template.not_after.into(),
        }
    }
}
