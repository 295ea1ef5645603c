//! CustomResourceDefinitions from Rust types, which `flyball crd` prints.
//!
//! ```
//! use flyball_sdk::crd::{self, CustomResource};
//! use flyball_sdk::prelude::*;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(View, Debug, Default)]
//! #[view(kind = "example.com/v1/Backup")]
//! struct Backup {
//!     #[view(path = "metadata", fields("generation"))]
//!     meta: Meta,
//!     #[view(path = "spec")]
//!     spec: BackupSpec,
//!     #[view(path = "status")]
//!     status: BackupStatus,
//! }
//!
//! #[derive(Debug, Default, Deserialize, JsonSchema)]
//! struct BackupSpec {
//!     /// The claim to back up.
//!     claim: String,
//!     /// How many backups are kept.
//!     keep: Option<i32>,
//! }
//!
//! #[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
//! #[serde(default)]
//! struct BackupStatus {
//!     #[schemars(schema_with = "crd::conditions")]
//!     conditions: Vec<Condition>,
//! }
//!
//! let definition = CustomResource::of::<Backup>().spec::<BackupSpec>().status::<BackupStatus>().definition();
//! assert_eq!(definition["metadata"]["name"], "backups.example.com");
//! let spec = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
//! assert_eq!(*spec, json!({
//!     "type": "object",
//!     "required": ["claim"],
//!     "properties": {
//!         "claim": {"type": "string", "description": "The claim to back up."},
//!         "keep": {"type": "integer", "format": "int32", "description": "How many backups are kept."},
//!     },
//! }));
//! ```

mod schemas;
mod structural;

use flyball_types::{Kind, usual_plural};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

pub use schemas::conditions;

use crate::view::View;

/// A custom resource with one version. It is namespaced unless it is declared [cluster-scoped](Self::cluster_scoped).
#[derive(Clone, Debug)]
#[must_use = "a definition is made by `definition`"]
pub struct CustomResource {
    kind: Kind,
    plural: String,
    is_namespaced: bool,
    short_names: Vec<String>,
    columns: Vec<Value>,
    spec: Option<Value>,
    status: Option<Value>,
}

impl CustomResource {
    /// The custom resource that a view reads. Its plural is the usual one of its kind.
    ///
    /// # Panics
    /// If the view's kind belongs to the core group.
    pub fn of<T: View>() -> Self {
        let kind: Kind = T::KIND.parse().unwrap_or_else(|error| panic!("{error}"));
        assert!(
            !kind.group.is_empty(),
            "{kind} can't be a custom resource: its kind has no group"
        );
        Self {
            plural: usual_plural(&kind.kind),
            kind,
            is_namespaced: true,
            short_names: Vec::new(),
            columns: Vec::new(),
            spec: None,
            status: None,
        }
    }

    /// Sets the plural, in lower case.
    pub fn plural(mut self, plural: &str) -> Self {
        self.plural = plural.into();
        self
    }

    pub fn cluster_scoped(mut self) -> Self {
        self.is_namespaced = false;
        self
    }

    /// Adds a short name for `kubectl`.
    pub fn short_name(mut self, name: &str) -> Self {
        self.short_names.push(name.into());
        self
    }

    /// Adds a column of `kubectl get`. The type is one of OpenAPI's, such as `string`, or `date`.
    pub fn column(mut self, name: &str, column_type: &str, json_path: &str) -> Self {
        self.columns
            .push(json!({"name": name, "type": column_type, "jsonPath": json_path}));
        self
    }

    /// Sets the type of the field `spec`, which every object must have.
    ///
    /// # Panics
    /// If the type has no structural schema: it contains itself, or an enum whose variants hold values.
    pub fn spec<T: JsonSchema>(mut self) -> Self {
        self.spec = Some(schema_of::<T>("spec"));
        self
    }

    /// Sets the type of the subresource `status`.
    ///
    /// # Panics
    /// As [`spec`](Self::spec).
    pub fn status<T: JsonSchema>(mut self) -> Self {
        self.status = Some(schema_of::<T>("status"));
        self
    }

    /// Returns the CustomResourceDefinition.
    pub fn definition(&self) -> Value {
        let Kind {
            group,
            version,
            kind,
        } = &self.kind;
        let mut properties = Map::new();
        let mut schema = Map::from_iter([("type".to_owned(), json!("object"))]);
        if let Some(spec) = &self.spec {
            properties.insert("spec".into(), spec.clone());
            schema.insert("required".into(), json!(["spec"]));
        }
        if let Some(status) = &self.status {
            properties.insert("status".into(), status.clone());
        }
        schema.insert("properties".into(), properties.into());
        let mut version = json!({
            "name": version, "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema},
        });
        if self.status.is_some() {
            version["subresources"] = json!({"status": {}});
        }
        if !self.columns.is_empty() {
            version["additionalPrinterColumns"] = self.columns.clone().into();
        }
        let mut names = json!({
            "kind": kind, "listKind": format!("{kind}List"),
            "plural": self.plural, "singular": kind.to_ascii_lowercase(),
        });
        if !self.short_names.is_empty() {
            names["shortNames"] = json!(self.short_names);
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{group}", self.plural)},
            "spec": {
                "group": group,
                "names": names,
                "scope": if self.is_namespaced { "Namespaced" } else { "Cluster" },
                "versions": [version],
            },
        })
    }
}

/// The structural schema of a type. `field` is its place, for errors.
fn schema_of<T: JsonSchema>(field: &str) -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    structural::rewrite(&mut schema, field).unwrap_or_else(|problem| {
        panic!(
            "can't make a CustomResourceDefinition of {}: {problem}",
            T::schema_name()
        )
    });
    schema
}
