//! The parts of a policy that are checked.

use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use serde::Deserialize;

#[derive(View, Clone, Debug, Default)]
#[view(kind = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")]
pub struct Policy {
    #[view(path = "metadata", fields("generation"))]
    pub meta: Meta,
    #[view(path = "spec.matchConstraints.resourceRules")]
    pub rules: Vec<Rule>,
    #[view(path = "spec.paramKind")]
    pub parameters: Option<ParameterKind>,
    #[view(path = "spec.variables")]
    pub variables: Vec<Variable>,
    #[view(path = "spec.validations")]
    pub validations: Vec<Validation>,
    #[view(path = "status.observedGeneration")]
    pub observed_generation: i64,
}

/// The resources that a policy matches.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    #[serde(deserialize_with = "null_is_default")]
    pub api_groups: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    pub api_versions: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    pub resources: Vec<String>,
}

/// The kind of the parameters.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParameterKind {
    #[serde(deserialize_with = "null_is_default")]
    pub api_version: String,
    #[serde(deserialize_with = "null_is_default")]
    pub kind: String,
}

/// An expression that others can use as `variables.NAME`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Variable {
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    #[serde(deserialize_with = "null_is_default")]
    pub expression: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Validation {
    #[serde(deserialize_with = "null_is_default")]
    pub expression: String,
    #[serde(deserialize_with = "null_is_default")]
    pub message_expression: String,
}
