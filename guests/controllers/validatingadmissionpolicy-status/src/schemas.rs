//! The OpenAPI schemas of kinds, as the API server publishes them.
//!
//! kube-controller-manager has the schemas of Kubernetes' own kinds compiled in, and reads only the others. So a schema of
//! a kind that can't be read is not yet a reason to leave out its check: only after some attempts.
//!
//! Upstream: staging/src/k8s.io/apiserver/pkg/cel/openapi/resolver/discovery.go: ResolveSchema, resolveRef,
//! resourcePathFromGV.
//! Upstream: staging/src/k8s.io/apiserver/pkg/cel/openapi/resolver/refs.go: refOf.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use flyball_sdk::warning;
use serde::Deserialize;

use crate::kinds::GroupVersionKind;

/// After this number of failures, kinds whose schemas can't be read are left out, as those of an API service that is not
/// available. With the delays between them, these are ten seconds.
const PATIENCE: u32 = 11;

const GROUP_VERSION_KINDS: &str = "x-kubernetes-group-version-kind";
const REFERENCE: &str = "#/components/schemas/";

/// The schemas that were read for a policy.
pub struct Schemas<'h> {
    host: &'h Host<'h>,
    attempt: u32,
    /// The documents by path; none if there is no such document.
    documents: HashMap<String, Option<Rc<Document>>>,
}

/// The schema of a kind.
#[derive(Clone)]
pub struct KindSchema {
    pub document: Rc<Document>,
    pub root: Rc<Schema>,
    /// The name of the root among the document's schemas.
    pub name: String,
}

/// The schemas of a group in one version.
#[derive(Deserialize)]
pub struct Document {
    #[serde(default)]
    components: Components,
    /// The schemas that were used so far.
    #[serde(skip)]
    parsed: RefCell<HashMap<String, Rc<Schema>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Components {
    schemas: BTreeMap<String, Raw>,
}

/// The kinds that a schema describes.
#[derive(Deserialize)]
struct Described {
    #[serde(rename = "x-kubernetes-group-version-kind", default)]
    kinds: Vec<DescribedKind>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DescribedKind {
    group: String,
    version: String,
    kind: String,
}

/// The parts of a schema that have to do with types. The schemas in it are parsed when they are needed: parsing all of them at
/// once would take a deep stack.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Schema {
    #[serde(rename = "$ref")]
    reference: Option<String>,
    #[serde(deserialize_with = "null_is_default")]
    all_of: Vec<Wrapped>,
    #[serde(rename = "type", deserialize_with = "null_is_default")]
    types: Types,
    #[serde(deserialize_with = "null_is_default")]
    pub format: String,
    #[serde(deserialize_with = "null_is_default")]
    pub properties: BTreeMap<String, Raw>,
    /// A schema or a boolean.
    pub additional_properties: Raw,
    /// A schema or a list of schemas.
    pub items: Raw,
    #[serde(rename = "x-kubernetes-int-or-string")]
    pub is_int_or_string: bool,
    #[serde(rename = "x-kubernetes-embedded-resource")]
    pub is_embedded_resource: bool,
}

/// A schema that may wrap a reference.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Wrapped {
    #[serde(rename = "$ref")]
    reference: Option<String>,
}

/// One type or several ones.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Types {
    One(String),
    Several(Vec<String>),
}

impl Default for Types {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl<'h> Schemas<'h> {
    /// `attempt` is the number of failures so far.
    pub fn new(host: &'h Host<'h>, attempt: u32) -> Self {
        Self {
            host,
            attempt,
            documents: HashMap::new(),
        }
    }

    /// Returns the schema of a kind; none if it has none.
    ///
    /// # Errors
    /// The schema can't be read. A retry may help.
    pub fn get(&mut self, kind: &GroupVersionKind) -> Result<Option<KindSchema>, Error> {
        let path = path(kind);
        let document = match self.documents.get(&path) {
            Some(known) => known.clone(),
            None => {
                let read = self.read(&path)?.map(Rc::new);
                self.documents.insert(path, read.clone());
                read
            }
        };
        Ok(document.and_then(|document| document.kind(kind)))
    }

    fn read(&self, path: &str) -> Result<Option<Document>, Error> {
        let error = match self.host.live().raw(path) {
            Ok(document) => return Ok(Some(document)),
            Err(error) => error,
        };
        if error.api().is_some_and(ApiError::is_not_found) {
            return Ok(None);
        }
        if self.attempt < PATIENCE {
            return Err(error).doing(|| format!("reading {path}"));
        }
        warning!(
            self.host,
            "kinds are not checked because {path} can't be read: {error}"
        );
        Ok(None)
    }
}

/// Returns the path of the document with a kind's schema.
fn path(kind: &GroupVersionKind) -> String {
    let mut path = "/openapi/v3".to_owned();
    let (group, version) = (&kind.group, &kind.version);
    let segments = match group.as_str() {
        "" => vec!["api", version],
        group => vec!["apis", group, version],
    };
    for segment in segments {
        flyball_sdk::live::push_segment(&mut path, segment);
    }
    path
}

impl Document {
    fn kind(self: Rc<Self>, kind: &GroupVersionKind) -> Option<KindSchema> {
        let schemas = &self.components.schemas;
        let (name, _) = schemas.iter().find(|(_, schema)| describes(schema, kind))?;
        Some(KindSchema {
            root: self.schema(name)?,
            name: name.clone(),
            document: self.clone(),
        })
    }

    /// Returns a schema by its name; none if there is no valid one.
    pub fn schema(&self, name: &str) -> Option<Rc<Schema>> {
        if let Some(known) = self.parsed.borrow().get(name) {
            return Some(known.clone());
        }
        let schema = Schema::parse(self.components.schemas.get(name)?)?;
        let mut parsed = self.parsed.borrow_mut();
        parsed.insert(name.into(), schema.clone());
        Some(schema)
    }
}

fn describes(schema: &Raw, kind: &GroupVersionKind) -> bool {
    if !schema.text().contains(GROUP_VERSION_KINDS) {
        return false;
    }
    let Ok(Some(described)) = schema.parse::<Described>() else {
        return false;
    };
    let is_it = |one: &DescribedKind| {
        (&one.group, &one.version, &one.kind) == (&kind.group, &kind.version, &kind.kind)
    };
    described.kinds.iter().any(is_it)
}

impl Schema {
    /// Parses a part of another schema; none if it is not a schema.
    pub fn parse(raw: &Raw) -> Option<Rc<Self>> {
        let is_object = raw.text().trim_start().starts_with('{');
        let parsed = is_object.then(|| raw.parse().ok().flatten())?;
        parsed.map(Rc::new)
    }

    /// An object without fields.
    pub fn object() -> Self {
        Self {
            types: Types::One("object".into()),
            ..Self::default()
        }
    }

    /// The first of the types; empty if there is none.
    pub fn kind(&self) -> &str {
        match &self.types {
            Types::One(one) => one,
            Types::Several(several) => several.first().map_or("", String::as_str),
        }
    }

    /// Returns the name of the schema that stands in place of this one. References are wrapped to give them a description.
    pub fn reference(&self) -> Option<&str> {
        let wrapped = self.all_of.iter().map(|wrapped| &wrapped.reference);
        let mut paths = std::iter::once(&self.reference).chain(wrapped).flatten();
        let path = paths.next()?;
        Some(path.strip_prefix(REFERENCE).unwrap_or(path))
    }
}
