//! The types that expressions know of the request and of its namespace.
//!
//! Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/compile.go: BuildRequestType,
//! BuildNamespaceType.

use flyball_cel::{Environment, Fields, Type};

const KIND: &str = "kubernetes.GroupVersionKind";
const RESOURCE: &str = "kubernetes.GroupVersionResource";
const USER: &str = "kubernetes.UserInfo";
const REQUEST: &str = "kubernetes.AdmissionRequest";
const NAMESPACE: &str = "kubernetes.Namespace";
const METADATA: &str = "kubernetes.NamespaceMetadata";
const SPEC: &str = "kubernetes.NamespaceSpec";
const STATUS: &str = "kubernetes.NamespaceStatus";
const CONDITION: &str = "kubernetes.NamespaceCondition";
const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";

/// Declares the variables `request`, `namespaceObject` and `authorizer`.
pub(crate) fn declare(environment: &mut Environment) {
    request(environment);
    namespace(environment);
    environment.variable("request", Type::object(REQUEST));
    environment.variable("namespaceObject", Type::object(NAMESPACE));
    // Its type has no fields: `authorizer.requestResource` is not known here.
    environment.variable("authorizer", Type::object(AUTHORIZER));
}

fn request(environment: &mut Environment) {
    let names = |names: &[&str]| fields(names.iter().map(|name| (*name, Type::String)));
    environment.object(KIND, names(&["group", "version", "kind"]));
    environment.object(RESOURCE, names(&["group", "version", "resource"]));
    let groups = Type::list(Type::String);
    let mut user = names(&["username", "uid"]);
    user.insert("extra".into(), Type::map(Type::String, groups.clone()));
    user.insert("groups".into(), groups);
    environment.object(USER, user);
    let mut request = fields([
        ("kind", Type::object(KIND)),
        ("resource", Type::object(RESOURCE)),
        ("requestKind", Type::object(KIND)),
        ("requestResource", Type::object(RESOURCE)),
        ("userInfo", Type::object(USER)),
        ("dryRun", Type::Bool),
        ("options", Type::Dyn),
    ]);
    let texts = [
        "subResource",
        "requestSubResource",
        "name",
        "namespace",
        "operation",
    ];
    request.extend(names(&texts));
    environment.object(REQUEST, request);
}

fn namespace(environment: &mut Environment) {
    let strings = || Type::map(Type::String, Type::String);
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
    environment.object(METADATA, metadata);
    let finalizers = ("finalizers", Type::list(Type::String));
    environment.object(SPEC, fields([finalizers]));
    let condition = fields([
        ("status", Type::String),
        ("type", Type::String),
        ("lastTransitionTime", Type::Timestamp),
        ("message", Type::String),
        ("reason", Type::String),
    ]);
    environment.object(CONDITION, condition);
    let status = fields([
        ("conditions", Type::list(Type::object(CONDITION))),
        ("phase", Type::String),
    ]);
    environment.object(STATUS, status);
    let parts = fields([
        ("metadata", Type::object(METADATA)),
        ("spec", Type::object(SPEC)),
        ("status", Type::object(STATUS)),
    ]);
    environment.object(NAMESPACE, parts);
}

fn fields<'n>(fields: impl IntoIterator<Item = (&'n str, Type)>) -> Fields {
    let named = fields.into_iter();
    named.map(|(name, of)| (name.to_owned(), of)).collect()
}
