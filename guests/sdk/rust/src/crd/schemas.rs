//! The schemas of the SDK's own types.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::condition::Condition;
use crate::int_or_percent::IntOrPercent;
use crate::quantity::Quantity;
use crate::raw::Raw;
use crate::time::{MicroTime, Time};

macro_rules! schemas {
    ($($schema_type:ident $schema:tt)*) => {
        $(impl JsonSchema for $schema_type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($schema_type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        })*
    };
}

schemas! {
    Time {"type": "string", "format": "date-time"}
    MicroTime {"type": "string", "format": "date-time"}
    Quantity {"x-kubernetes-int-or-string": true}
    IntOrPercent {"x-kubernetes-int-or-string": true}
    Raw {"x-kubernetes-preserve-unknown-fields": true}
    Condition {
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            "type": {"type": "string"},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "observedGeneration": {"type": "integer", "format": "int64"},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "reason": {"type": "string"},
            "message": {"type": "string"}
        }
    }
}

/// The schema of a list of conditions, in which each type is unique: for `#[schemars(schema_with = "…")]`.
pub fn conditions(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": generator.subschema_for::<Condition>(),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}
