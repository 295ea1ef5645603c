//! The custom resource as Rust types. `flyball crd` prints the CustomResourceDefinition that they describe.

use flyball_sdk::crd::{CustomResource, conditions};
use flyball_sdk::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Asks for a ConfigMap with a text.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "greeter.flyball.dev/v1/Greeting")]
pub struct Greeting {
    #[view(
        path = "metadata",
        fields("generation", "deletionTimestamp", "finalizers")
    )]
    pub meta: Meta,
    #[view(path = "spec")]
    pub spec: GreetingSpec,
    #[view(path = "status")]
    pub status: GreetingStatus,
}

/// The state that the user wants.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct GreetingSpec {
    /// The text that the ConfigMap of the same name holds.
    pub text: String,
}

/// The state that the controller has observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GreetingStatus {
    /// The generation of the spec that the conditions are about.
    pub observed_generation: i64,
    /// `Ready` tells whether the ConfigMap has the text.
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
}

/// Returns the CustomResourceDefinition.
pub fn definition() -> Value {
    CustomResource::of::<Greeting>()
        .spec::<GreetingSpec>()
        .status::<GreetingStatus>()
        .column("Text", "string", ".spec.text")
        .column(
            "Ready",
            "string",
            ".status.conditions[?(@.type==\"Ready\")].status",
        )
        .definition()
}
