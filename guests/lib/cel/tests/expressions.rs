//! Compares what the checker finds in expressions with what cel-go finds: `testdata/expressions.txt`.

use flyball_cel::{Environment, Fields, Type};

const TABLE: &str = include_str!("../testdata/expressions.txt");

/// An expression, and the type or the errors that cel-go finds.
#[derive(Default)]
struct Case {
    expression: Vec<String>,
    found: Vec<String>,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = Case::default();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let text = line.get(2..).unwrap_or_default().replace("\\r", "\r");
        match line.chars().next() {
            Some('>') => case.expression.push(text),
            Some(_) => case.found.push(text),
            None if case.expression.is_empty() => {}
            None => cases.push(std::mem::take(&mut case)),
        }
    }
    cases.push(case);
    cases
}

fn fields<const N: usize>(fields: [(&str, Type); N]) -> Fields {
    Fields::from(fields.map(|(name, of)| (name.to_owned(), of)))
}

fn strings() -> Type {
    Type::map(Type::String, Type::String)
}

/// Declares the variable `object` and the types of its parts.
fn widget(environment: &mut Environment) {
    let spec = fields([
        ("replicas", Type::Int),
        ("name", Type::String),
        ("paused", Type::Bool),
        ("ratio", Type::Double),
        ("start", Type::Timestamp),
        ("timeout", Type::Duration),
        ("data", Type::Bytes),
        ("port", Type::Dyn),
        ("tags", Type::list(Type::String)),
        ("labels", strings()),
        ("counts", Type::map(Type::String, Type::Int)),
        (
            "containers",
            Type::list(Type::object("Widget.spec.containers.@idx")),
        ),
        ("matrix", Type::list(Type::list(Type::Int))),
        ("__namespace__", Type::String),
        ("a__dash__b", Type::Int),
    ]);
    let container = fields([
        ("name", Type::String),
        ("image", Type::String),
        ("ports", Type::list(Type::Int)),
    ]);
    let metadata = fields([
        ("name", Type::String),
        ("labels", strings()),
        ("namespace", Type::String),
    ]);
    let widget = fields([
        ("spec", Type::object("Widget.spec")),
        ("metadata", Type::object("Widget.metadata")),
        ("kind", Type::String),
    ]);
    environment.object("Widget.spec.containers.@idx", container);
    environment.object("Widget.spec", spec);
    environment.object("Widget.metadata", metadata);
    environment.object("Widget", widget);
    for variable in ["object", "oldObject"] {
        environment.variable(variable, Type::object("Widget"));
    }
}

/// Declares the variable `request`.
fn request(environment: &mut Environment) {
    let names = |names: [&str; 3]| fields(names.map(|name| (name, Type::String)));
    let kind = "kubernetes.GroupVersionKind";
    let resource = "kubernetes.GroupVersionResource";
    environment.object(kind, names(["group", "version", "kind"]));
    environment.object(resource, names(["group", "version", "resource"]));
    let user = fields([
        ("username", Type::String),
        ("uid", Type::String),
        ("groups", Type::list(Type::String)),
        ("extra", Type::map(Type::String, Type::list(Type::String))),
    ]);
    environment.object("kubernetes.UserInfo", user);
    let request = fields([
        ("kind", Type::object(kind)),
        ("resource", Type::object(resource)),
        ("subResource", Type::String),
        ("requestKind", Type::object(kind)),
        ("requestResource", Type::object(resource)),
        ("requestSubResource", Type::String),
        ("name", Type::String),
        ("namespace", Type::String),
        ("operation", Type::String),
        ("userInfo", Type::object("kubernetes.UserInfo")),
        ("dryRun", Type::Bool),
        ("options", Type::Dyn),
    ]);
    environment.object("kubernetes.AdmissionRequest", request);
    environment.variable("request", Type::object("kubernetes.AdmissionRequest"));
}

/// Declares the variable `namespaceObject`.
fn namespace(environment: &mut Environment) {
    let metadata = fields([
        ("name", Type::String),
        ("generateName", Type::String),
        ("namespace", Type::String),
        ("labels", strings()),
        ("annotations", strings()),
        ("UID", Type::String),
        ("creationTimestamp", Type::Timestamp),
        ("deletionGracePeriodSeconds", Type::Int),
        ("deletionTimestamp", Type::Timestamp),
        ("generation", Type::Int),
        ("resourceVersion", Type::String),
        ("finalizers", Type::list(Type::String)),
    ]);
    let condition = fields([
        ("status", Type::String),
        ("type", Type::String),
        ("lastTransitionTime", Type::Timestamp),
        ("message", Type::String),
        ("reason", Type::String),
    ]);
    let conditions = Type::list(Type::object("kubernetes.NamespaceCondition"));
    let parts = fields([
        ("metadata", Type::object("kubernetes.NamespaceMetadata")),
        ("spec", Type::object("kubernetes.NamespaceSpec")),
        ("status", Type::object("kubernetes.NamespaceStatus")),
    ]);
    let finalizers = fields([("finalizers", Type::list(Type::String))]);
    let status = fields([("conditions", conditions), ("phase", Type::String)]);
    environment.object("kubernetes.NamespaceMetadata", metadata);
    environment.object("kubernetes.NamespaceSpec", finalizers);
    environment.object("kubernetes.NamespaceCondition", condition);
    environment.object("kubernetes.NamespaceStatus", status);
    environment.object("kubernetes.Namespace", parts);
    environment.variable("namespaceObject", Type::object("kubernetes.Namespace"));
}

fn environment() -> Environment {
    let mut environment = Environment::default();
    widget(&mut environment);
    request(&mut environment);
    namespace(&mut environment);
    environment.variable("params", Type::Dyn);
    let authorizer = Type::object("kubernetes.authorization.Authorizer");
    environment.variable("authorizer", authorizer);
    let variables = fields([
        ("count", Type::Int),
        ("names", Type::list(Type::String)),
        ("any", Type::Dyn),
    ]);
    environment.object("kubernetes.variables", variables);
    environment.variable("variables", Type::object("kubernetes.variables"));
    environment
}

/// Types of values as the table has them: cel-go writes these with other names than in errors.
fn runtime_names(found: &str) -> String {
    let found = found.replace("timestamp", "google.protobuf.Timestamp");
    let found = found.replace("duration", "google.protobuf.Duration");
    let found = found.replace("null", "null_type");
    if found == "any" {
        return "google.protobuf.Any".into();
    }
    found
}

#[test]
fn expressions_have_the_types_and_the_errors_of_cel_go() {
    let environment = environment();
    let mut wrong = Vec::new();
    for case in cases() {
        let expression = case.expression.join("\n");
        let found = match environment.check(&expression) {
            Ok(found) => runtime_names(&found.to_string()),
            Err(errors) => errors.to_string(),
        };
        let expected = case.found.join("\n");
        if found != expected {
            wrong.push(format!(
                "{expression}\nexpected:\n{expected}\nfound:\n{found}\n"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn what_is_nested_too_deep_for_a_guest_is_not_checked() {
    let environment = environment();
    let nested = |brackets: usize| {
        let (open, close) = ("dyn(".repeat(brackets), ")".repeat(brackets));
        environment.check(&format!("1 + size({open}[1]{close})"))
    };
    assert_eq!(nested(50), Ok(Type::Int));
    assert_eq!(nested(70), Ok(Type::Dyn));
    let sum = |terms: usize| environment.check(&format!("1{}", " + 1".repeat(terms)));
    assert_eq!(sum(150), Ok(Type::Int));
    assert_eq!(sum(200), Ok(Type::Dyn));
}
