//! Turns schemas into types.
//!
//! A schema without a type, such as that of a quantity, becomes no type: the field is undefined. An object type is named
//! after its place in the kind: `Pod1.spec.containers.@idx`.
//!
//! Upstream: staging/src/k8s.io/apiserver/pkg/cel/common/schemas.go: SchemaDeclType, WithTypeAndObjectMeta.
//! Upstream: staging/src/k8s.io/apiserver/pkg/cel/openapi/resolver/refs.go: populateRefs.
//! Upstream: staging/src/k8s.io/apiserver/pkg/cel/types.go: MaybeAssignTypeName.

use std::borrow::Cow;
use std::rc::Rc;

use flyball_cel::{Environment, Fields, Type};
use flyball_sdk::Raw;
use flyball_sdk::serde_json::json;

use crate::escape::escaped;
use crate::schemas::{Document, KindSchema, Schema};

/// How deep a schema can be: each level takes a kilobyte of the guest's stack. Parts below are dynamic.
const MAX_DEPTH: usize = 64;

/// A schema refers to one that does not exist.
#[derive(Debug, PartialEq, Eq)]
pub struct Dangling;

/// Declares the type of a kind, under a name, and the types of its parts. Returns none if the schema has no type.
///
/// # Errors
/// A part of the schema does not exist.
pub fn declare(
    environment: &mut Environment,
    schema: &KindSchema,
    name: &str,
) -> Result<Option<Type>, Dangling> {
    let mut declaration = Declaration {
        environment,
        document: &schema.document,
        within: vec![schema.name.clone()],
        depth: 0,
    };
    declaration.plain(&schema.root, true, name)
}

struct Declaration<'d> {
    environment: &'d mut Environment,
    document: &'d Document,
    /// The names of the schemas around the current one.
    within: Vec<String>,
    depth: usize,
}

impl Declaration<'_> {
    /// Returns the type of a part of a schema.
    fn part(&mut self, raw: &Raw, path: &str) -> Result<Option<Type>, Dangling> {
        let Some(schema) = Schema::parse(raw) else {
            return Ok(None);
        };
        if self.depth == MAX_DEPTH {
            return Ok(Some(Type::Dyn));
        }
        self.depth += 1;
        let found = self.resolved(&schema, path);
        self.depth -= 1;
        found
    }

    /// Returns the type of a schema that can be a reference.
    fn resolved(&mut self, schema: &Schema, path: &str) -> Result<Option<Type>, Dangling> {
        let Some(name) = schema.reference() else {
            return self.plain(schema, schema.is_embedded_resource, path);
        };
        let target = self.target(name)?;
        self.within.push(name.into());
        let found = self.plain(&target, target.is_embedded_resource, path);
        self.within.pop();
        found
    }

    /// Returns the schema with a name; an object without fields if it is around the current one.
    fn target(&self, name: &str) -> Result<Rc<Schema>, Dangling> {
        if self.within.iter().any(|outer| outer == name) {
            return Ok(Rc::new(Schema::object()));
        }
        self.document.schema(name).ok_or(Dangling)
    }

    /// Returns the type of a schema that is no reference.
    fn plain(
        &mut self,
        schema: &Schema,
        is_resource: bool,
        path: &str,
    ) -> Result<Option<Type>, Dangling> {
        // Kubernetes' own kinds have the format, custom ones the extension.
        if schema.is_int_or_string || schema.format == "int-or-string" {
            return Ok(Some(Type::Dyn));
        }
        Ok(match schema.kind() {
            "array" => {
                let element = self.part(&schema.items, &format!("{path}.@idx"))?;
                element.map(Type::list)
            }
            "object" => return self.object(schema, is_resource, path),
            "string" => Some(match &*schema.format {
                "byte" => Type::Bytes,
                "duration" => Type::Duration,
                "date" | "date-time" => Type::Timestamp,
                _ => Type::String,
            }),
            "boolean" => Some(Type::Bool),
            "number" => Some(Type::Double),
            "integer" => Some(Type::Int),
            _ => None,
        })
    }

    /// Returns the type of an object, or of a map from names to values of one type.
    fn object(
        &mut self,
        schema: &Schema,
        is_resource: bool,
        path: &str,
    ) -> Result<Option<Type>, Dangling> {
        let schema = match is_resource && !self.has_metadata(schema)? {
            true => Cow::Owned(with_metadata(schema)),
            false => Cow::Borrowed(schema),
        };
        let values = &schema.additional_properties;
        if Schema::parse(values).is_some() {
            let value = self.part(values, &format!("{path}.@elem"))?;
            return Ok(value.map(|value| Type::map(Type::String, value)));
        }
        let mut fields = Fields::new();
        for (name, property) in &schema.properties {
            let field = escaped(name);
            let path = format!("{path}.{}", field.as_deref().unwrap_or(name));
            let found = self.part(property, &path)?;
            fields.extend(field.zip(found));
        }
        self.environment.object(path, fields);
        Ok(Some(Type::object(path)))
    }

    /// Whether a schema has the fields that each resource has.
    fn has_metadata(&self, schema: &Schema) -> Result<bool, Dangling> {
        let metadata = schema.properties.get("metadata").and_then(Schema::parse);
        let Some(metadata) = metadata else {
            return Ok(false);
        };
        let metadata = match metadata.reference() {
            Some(name) => self.target(name)?,
            None => metadata,
        };
        let is_string = |of: &Schema, name: &str| {
            let property = of.properties.get(name).and_then(Schema::parse);
            property.is_some_and(|property| property.kind() == "string")
        };
        let has_strings =
            |of: &Schema, names: [&str; 2]| names.iter().all(|name| is_string(of, name));
        Ok(metadata.kind() == "object"
            && has_strings(schema, ["kind", "apiVersion"])
            && has_strings(&metadata, ["name", "generateName"]))
    }
}

/// Adds the fields that each resource has.
fn with_metadata(schema: &Schema) -> Schema {
    let text = json!({"type": "string"});
    let metadata = json!({"type": "object", "properties": {"name": text, "generateName": text}});
    let mut schema = schema.clone();
    let added = [
        ("kind", text.clone()),
        ("apiVersion", text),
        ("metadata", metadata),
    ];
    let added = added.map(|(name, property)| (name.to_owned(), Raw::from(property)));
    schema.properties.extend(added);
    schema
}
