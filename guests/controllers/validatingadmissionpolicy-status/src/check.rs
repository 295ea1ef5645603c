//! Checks the expressions of a policy.
//!
//! Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go: Check,
//! CreateContext, CheckExpression, buildEnvSet.
//! Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/composition.go: CompileAndStoreVariable,
//! AddField, convertCelTypeToDeclType.

use flyball_cel::{Environment, Fields, Type};
use flyball_sdk::Time;
use serde::Serialize;

use crate::declare::declare;
use crate::kinds::GroupVersionKind;
use crate::known;
use crate::policy::{Policy, Variable};
use crate::schemas::KindSchema;

const VARIABLES: &str = "kubernetes.variables";

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Warning {
    /// The path of the expression in the policy.
    pub field_ref: String,
    /// A text for each kind for which the types are wrong.
    pub warning: String,
}

/// The kind of the parameters and its schema, if it has one.
pub type Parameters = (Option<KindSchema>, GroupVersionKind);

/// Checks the validations of a policy for kinds with schemas. A kind's type has a new name each time: its name and the
/// nanoseconds of the time.
///
/// Conditions and annotations are not checked, and a wrong variable only has no type.
pub fn policy(
    policy: &Policy,
    kinds: &[(GroupVersionKind, KindSchema)],
    parameters: Option<&Parameters>,
    now: Time,
) -> Vec<Warning> {
    let expressions = expressions(policy);
    let mut texts: Vec<Vec<String>> = vec![Vec::new(); expressions.len()];
    let base = base(parameters, now);
    for (kind, schema) in kinds {
        let mut environment = base.clone();
        let name = format!("{}{}", kind.kind, now.nanoseconds);
        let Ok(object) = declare(&mut environment, schema, &name) else {
            continue;
        };
        let object = object.unwrap_or(Type::Dyn);
        environment.variable("object", object.clone());
        environment.variable("oldObject", object);
        declare_variables(&mut environment, &policy.variables);
        for ((_, expression), texts) in expressions.iter().zip(&mut texts) {
            if let Err(errors) = environment.check(expression) {
                texts.push(format!("{kind}: {errors}\n"));
            }
        }
    }
    let warnings = expressions.into_iter().zip(texts);
    let warnings = warnings.filter(|(_, texts)| !texts.is_empty());
    warnings
        .map(|((field_ref, _), texts)| Warning {
            field_ref,
            warning: texts.join("\n"),
        })
        .collect()
}

/// Returns the checked expressions with their paths.
fn expressions(policy: &Policy) -> Vec<(String, &str)> {
    let mut expressions = Vec::new();
    for (index, validation) in policy.validations.iter().enumerate() {
        let path = format!("spec.validations[{index}]");
        expressions.push((format!("{path}.expression"), &*validation.expression));
        let message = &*validation.message_expression;
        if !message.is_empty() {
            expressions.push((format!("{path}.messageExpression"), message));
        }
    }
    expressions
}

/// Declares what does not depend on the kind of the object.
fn base(parameters: Option<&Parameters>, now: Time) -> Environment {
    let mut environment = Environment::default();
    known::declare(&mut environment);
    if let Some((schema, kind)) = parameters {
        // The object can have the same kind.
        let name = format!("{}{}", kind.kind, now.nanoseconds + 1);
        let declared = schema
            .as_ref()
            .map(|schema| declare(&mut environment, schema, &name));
        let found = declared.and_then(Result::ok).flatten();
        environment.variable("params", found.unwrap_or(Type::Dyn));
    }
    environment
}

/// Declares the policy's variables. Each can use those before it.
fn declare_variables(environment: &mut Environment, variables: &[Variable]) {
    let mut fields = Fields::new();
    environment.object(VARIABLES, fields.clone());
    environment.variable("variables", Type::object(VARIABLES));
    for variable in variables {
        let found = environment.check(&variable.expression);
        let kept = found.map_or(Type::Dyn, |found| kept(&found));
        fields.insert(variable.name.clone(), kept);
        environment.object(VARIABLES, fields.clone());
    }
}

/// Returns the part of a type that variables keep: objects become `dyn`.
fn kept(found: &Type) -> Type {
    match found {
        Type::Any
        | Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => found.clone(),
        Type::List(element) => Type::list(kept(element)),
        Type::Map(entry) => Type::map(kept(&entry.0), kept(&entry.1)),
        _ => Type::Dyn,
    }
}
