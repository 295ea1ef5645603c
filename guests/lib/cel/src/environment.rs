//! The names that expressions can use.
//!
//! In cel-go: checker/env.go: resolveSimpleIdent, resolveTypeIdent. In Kubernetes: staging/src/k8s.io/apiserver/pkg/cel/types.go: DeclTypeProvider.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::checker::Checker;
use crate::format;
use crate::functions::Functions;
use crate::homogeneous;
use crate::messages;
use crate::parser::{self, Stop};
use crate::source::{Errors, Source};
use crate::token::RESERVED;
use crate::types::Type;

/// The types of an object's fields, by their escaped names.
pub type Fields = BTreeMap<String, Type>;

/// The variables, object types and functions that expressions can use: Kubernetes' functions for stored expressions.
#[derive(Clone)]
pub struct Environment {
    functions: Rc<Functions>,
    variables: BTreeMap<String, Type>,
    objects: BTreeMap<String, Fields>,
}

impl Default for Environment {
    fn default() -> Self {
        Self {
            functions: Rc::new(Functions::new()),
            variables: BTreeMap::new(),
            objects: BTreeMap::new(),
        }
    }
}

impl Environment {
    /// Declares a variable.
    pub fn variable(&mut self, name: &str, of: Type) {
        self.variables.insert(name.into(), of);
    }

    /// Declares an object type. A name can be declared again, with other fields.
    pub fn object(&mut self, name: &str, fields: Fields) {
        self.objects.insert(name.into(), fields);
    }

    /// Returns the type of an expression. One that is nested too deep for a guest's stack is not checked, and has any type:
    /// some fifty brackets within each other, or some hundred operators.
    ///
    /// # Errors
    /// The expression can't be parsed, or its types don't fit.
    pub fn check(&self, expression: &str) -> Result<Type, Errors> {
        let source = Source::new(expression);
        let mut issues = Vec::new();
        let tree = match parser::parse(&source, &mut issues) {
            Ok(tree) => tree,
            Err(Stop::TooDeep) => return Ok(Type::Dyn),
            Err(Stop::Errors) => return Err(Errors::of(&source, issues).expect("there are issues")),
        };
        let types = match Checker::new(self, tree.nodes).check(&tree.root) {
            Ok(types) => types,
            Err(issues) => return Err(Errors::of(&source, issues).expect("there are issues")),
        };
        issues.extend(homogeneous::check(&tree.root, &types));
        issues.extend(format::check(&tree.root, &types));
        match Errors::of(&source, issues) {
            Some(errors) => Err(errors),
            None => Ok(types[tree.root.number].clone()),
        }
    }

    pub(crate) fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Returns the name without a leading dot, and the type of the variable or type with this name.
    pub(crate) fn identifier<'n>(&self, name: &'n str) -> Option<(&'n str, Type)> {
        let bare = name.strip_prefix('.').unwrap_or(name);
        let variable = self.variables.get(bare);
        variable
            .map(|declared| (bare, declared.clone()))
            .or_else(|| {
                let (bare, named) = self.type_named(name)?;
                Some((bare, Type::of_type(named)))
            })
    }

    /// Returns the name without a leading dot, and the type that it names.
    pub(crate) fn type_named<'n>(&self, name: &'n str) -> Option<(&'n str, Type)> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let found = standard(name)
            .or_else(|| (name == "type").then_some(Type::Type(None)))
            .or_else(|| self.objects.get(name).map(|_| Type::object(name)))
            .or_else(|| messages::message(name));
        Some((name, found?))
    }

    /// Returns the type of an object's field; none if there is no such field. The outer option says whether there is such
    /// an object type.
    pub(crate) fn field(&self, object: &str, field: &str) -> Option<Option<Type>> {
        let Some(fields) = self.objects.get(object) else {
            return messages::field(object, field);
        };
        let found = fields.get(field).or_else(|| {
            // Fields with such names are declared as `__namespace__`, and can be used as `namespace`.
            let is_reserved = RESERVED.contains(&field);
            is_reserved.then(|| fields.get(&format!("__{field}__")))?
        });
        Some(found.cloned())
    }
}

/// Returns the type with a name that all expressions know.
fn standard(name: &str) -> Option<Type> {
    let parameter = |name: &str| Type::Parameter(name.into());
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "duration" | "google.protobuf.Duration" => Type::Duration,
        "int" => Type::Int,
        "list" => Type::list(parameter("A")),
        "map" => Type::map(parameter("A"), parameter("B")),
        "null_type" => Type::Null,
        "string" => Type::String,
        "timestamp" | "google.protobuf.Timestamp" => Type::Timestamp,
        "uint" => Type::Uint,
        _ => return None,
    })
}
