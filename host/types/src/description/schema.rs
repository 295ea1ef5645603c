//! The parts of `wit/describe.schema.json` that no derived schema has.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{Description, Having, IMPORTS, VERBS};
use crate::{Kind, KindPattern};

/// The schema of a field that holds one value or a list of values.
pub(super) struct OneOrMore;

impl JsonSchema for OneOrMore {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OneOrMore".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Having>();
        json_schema!({
            "description": "One value, or a list of values that all must hold.",
            "anyOf": [one, {"type": "array", "items": one}],
        })
    }
}

impl JsonSchema for Kind {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Kind".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A kind: `group/version/Kind`, such as `apps/v1/ReplicaSet`, or `version/Kind` in the core group, such as `v1/Pod`.",
            "type": "string",
            "pattern": "^([A-Za-z0-9][A-Za-z0-9.-]*/){1,2}[A-Za-z0-9][A-Za-z0-9.-]*$",
        })
    }
}

impl JsonSchema for KindPattern {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "KindPattern".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let kind = generator.subschema_for::<Kind>();
        json_schema!({
            "description": "A kind, or `*` for all kinds, or `GROUP/*` for all kinds and unlisted resources of a group other than the core group.",
            "anyOf": [
                kind,
                {"const": "*"},
                {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9.-]*/\*$"}
            ]
        })
    }
}

/// A string that is one of a list.
macro_rules! one_of {
    ($name:ident, $description:literal, $words:expr) => {
        pub(super) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"description": $description, "type": "string", "enum": $words})
            }
        }
    };
}

one_of!(Import, "An import that needs a grant.", IMPORTS);
one_of!(Verb, "A verb of the API.", VERBS);
one_of!(
    VerbOrAll,
    "A verb of the API, or `*` for all of them.",
    VERBS.into_iter().chain(["*"]).collect::<Vec<_>>()
);

#[test]
fn the_schema_in_wit_is_the_one_of_the_types() {
    crate::schema::assert_current::<Description>("describe.schema.json");
}
