//! Finds the types of an expression and of its parts.
//!
//! In cel-go: checker/checker.go and checker/errors.go.

use crate::ast::{Comprehension, Element, Entry, Expr, Field, Kind, Literal};
use crate::environment::Environment;
use crate::functions::Overload;
use crate::messages;
use crate::source::Issue;
use crate::types::{Type, joined};
use crate::unify::Unifier;

/// The check of one expression.
pub(crate) struct Checker<'e> {
    environment: &'e Environment,
    unifier: Unifier,
    /// The variables of comprehensions around the current node, the innermost last.
    locals: Vec<(String, Type)>,
    /// The types of the nodes, by their numbers.
    types: Vec<Type>,
    issues: Vec<Issue>,
}

impl<'e> Checker<'e> {
    pub(crate) fn new(environment: &'e Environment, nodes: usize) -> Self {
        Self {
            environment,
            unifier: Unifier::default(),
            locals: Vec::new(),
            types: vec![Type::Error; nodes],
            issues: Vec::new(),
        }
    }

    /// Returns the types of all nodes, by their numbers, or the errors.
    pub(crate) fn check(mut self, root: &Expr) -> Result<Vec<Type>, Vec<Issue>> {
        self.node(root);
        if !self.issues.is_empty() {
            return Err(self.issues);
        }
        let unifier = &self.unifier;
        let types = self.types.iter().map(|one| unifier.resolve(one, true));
        Ok(types.collect())
    }

    /// Checks a node. Returns its type, as far as it is known.
    fn node(&mut self, node: &Expr) -> Type {
        let found = match &node.kind {
            Kind::Literal(literal) => literal_type(literal),
            Kind::Identifier(name) => self.identifier(node, name),
            Kind::Select {
                operand,
                field,
                is_test,
            } => self.selection(node, operand, field, *is_test),
            Kind::Call {
                target,
                function,
                arguments,
            } => self.call(node, target.as_deref(), function, arguments),
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct { name, fields } => self.structure(node, name, fields),
            Kind::Comprehension(comprehension) => self.comprehension(comprehension),
            Kind::Invalid => Type::Error,
        };
        self.types[node.number] = found.clone();
        found
    }

    /// Returns the variable or type with a name, which can have dots.
    fn lookup<'n>(&self, name: &'n str) -> Option<(&'n str, Type)> {
        let bare = name.strip_prefix('.').unwrap_or(name);
        let mut locals = self.locals.iter().rev();
        match locals.find(|(local, _)| local == bare) {
            Some((_, found)) => Some((bare, found.clone())),
            None => self.environment.identifier(name),
        }
    }

    fn identifier(&mut self, node: &Expr, name: &str) -> Type {
        match self.lookup(name) {
            Some((_, found)) => found,
            None => self.undeclared(node.position, name),
        }
    }

    fn selection(&mut self, node: &Expr, operand: &Expr, field: &str, is_test: bool) -> Type {
        let qualified = node.qualified_name();
        if let Some((_, found)) = qualified.as_deref().and_then(|name| self.lookup(name)) {
            return found;
        }
        let found = self.field(node.position, operand, field, false);
        if is_test {
            return Type::Bool;
        }
        self.unifier.resolve(&found, false)
    }

    /// The selection of an optional field: `operand.?field`.
    fn optional_selection(&mut self, node: &Expr, arguments: &[Expr]) -> Type {
        let [operand, field] = arguments else {
            return Type::Error;
        };
        let Kind::Literal(Literal::String(name)) = &field.kind else {
            return Type::Error;
        };
        let found = self.field(node.position, operand, name, true);
        self.unifier.resolve(&found, false)
    }

    fn field(&mut self, position: usize, operand: &Expr, field: &str, is_optional: bool) -> Type {
        let given = self.node(operand);
        let given = self.unifier.resolve(&given, false);
        let (target, was_optional) = given.unwrap_optional();
        let found = match target {
            Type::Map(entry) => entry.1.clone(),
            Type::Object(name) => self.field_of(position, name, field),
            Type::Parameter(_) => {
                self.fits(&Type::Dyn, target);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    let problem = format!("type '{other}' does not support field selection");
                    self.report(position, problem);
                }
                Type::Dyn
            }
        };
        if was_optional || is_optional {
            Type::optional(found)
        } else {
            found
        }
    }

    fn field_of(&mut self, position: usize, object: &str, field: &str) -> Type {
        let problem = match self.environment.field(object, field) {
            Some(Some(found)) => return found,
            Some(None) => format!("undefined field '{field}'"),
            None => format!("unexpected failed resolution of '{object}'"),
        };
        self.report(position, problem);
        Type::Error
    }

    fn call(
        &mut self,
        node: &Expr,
        target: Option<&Expr>,
        function: &str,
        arguments: &[Expr],
    ) -> Type {
        if function == "_?._" {
            return self.optional_selection(node, arguments);
        }
        let mut given: Vec<Type> = arguments.iter().map(|one| self.node(one)).collect();
        let environment = self.environment;
        let functions = environment.functions();
        let Some(target) = target else {
            return match functions.get(function) {
                Some(found) => self.overload(node, found, arguments, given, false),
                None => self.undeclared(node.position, function),
            };
        };
        // The target may be the beginning of the function's name, as in `optional.of(x)`.
        let qualified = target.qualified_name();
        let qualified = qualified.map(|name| format!("{name}.{function}"));
        if let Some(found) = qualified.and_then(|name| functions.get(&name)) {
            return self.overload(node, found, arguments, given, false);
        }
        given.insert(0, self.node(target));
        match functions.get(function) {
            Some(found) => self.overload(node, found, arguments, given, true),
            None => self.undeclared(node.position, function),
        }
    }

    /// Returns the result of the overloads that accept the types `given`: the target's, if there is one, and those of the
    /// arguments.
    fn overload(
        &mut self,
        node: &Expr,
        (function, overloads): (&str, &[Overload]),
        arguments: &[Expr],
        given: Vec<Type>,
        is_member: bool,
    ) -> Type {
        if !is_member && matches!(function, "_&&_" | "_||_") {
            return self.logical(arguments, &given);
        }
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(|one| one.is_member == is_member) {
            let (expected, returned) = self.instance(overload);
            if !self.unifier.accept(&given, &expected) {
                continue;
            }
            let returned = self.unifier.resolve(&returned, false);
            result = Some(match result {
                None => returned,
                Some(before) if before.is_dyn() || before == returned => before,
                Some(_) => Type::Dyn,
            });
        }
        result.unwrap_or_else(|| {
            let given: Vec<_> = given
                .iter()
                .map(|one| self.unifier.resolve(one, true))
                .collect();
            let (target, arguments) = given.split_at(usize::from(is_member));
            let target: String = target.iter().map(|one| format!("{one}.")).collect();
            let signature = format!("{target}({})", joined(arguments));
            let problem =
                format!("found no matching overload for '{function}' applied to '{signature}'");
            self.report(node.position, problem);
            Type::Error
        })
    }

    /// Returns the types of an overload's arguments and of its result, with fresh type parameters.
    fn instance(&mut self, overload: &Overload) -> (Vec<Type>, Type) {
        let (arguments, result) = (&overload.arguments, &overload.result);
        if overload.parameters.is_empty() {
            return (arguments.clone(), result.clone());
        }
        let mut fresh = Unifier::default();
        for parameter in &overload.parameters {
            let variable = self.unifier.fresh();
            fresh.accept(&[variable], &[Type::Parameter(parameter.clone())]);
        }
        let arguments = arguments.iter().map(|one| fresh.resolve(one, false));
        (arguments.collect(), fresh.resolve(result, false))
    }

    /// `&&` and `||`, whose errors are those of their operands.
    fn logical(&mut self, operands: &[Expr], given: &[Type]) -> Type {
        let mut result = Type::Bool;
        for (operand, given) in operands.iter().zip(given) {
            if !self.fits(given, &Type::Bool) {
                self.mismatch(operand.position, &Type::Bool, given);
                result = Type::Error;
            }
        }
        result
    }

    fn list(&mut self, elements: &[Element]) -> Type {
        let mut common = None;
        for element in elements {
            let own = self.node(&element.value);
            let own = self.present(&element.value, own, element.is_optional);
            common = Some(self.join(common, own));
        }
        Type::list(common.unwrap_or_else(|| self.unifier.fresh()))
    }

    fn map(&mut self, entries: &[Entry]) -> Type {
        let mut common = None;
        for entry in entries {
            let (keys, values) = common.unzip();
            let key = self.node(&entry.key);
            let key = self.join(keys, key);
            let value = self.node(&entry.value);
            let value = self.present(&entry.value, value, entry.is_optional);
            common = Some((key, self.join(values, value)));
        }
        let (key, value) = common.unwrap_or_else(|| (self.unifier.fresh(), self.unifier.fresh()));
        Type::map(key, value)
    }

    /// Returns the type of an optional part's value. A part that is not optional has its own type.
    fn present(&mut self, node: &Expr, own: Type, is_optional: bool) -> Type {
        if !is_optional {
            return own;
        }
        let (value, has_optional_type) = own.unwrap_optional();
        if !has_optional_type && !value.is_dyn() {
            self.mismatch(node.position, &Type::optional(value.clone()), value);
        }
        value.clone()
    }

    /// Returns the more general one of the types of two parts of a literal; `dyn` if they differ.
    fn join(&mut self, before: Option<Type>, own: Type) -> Type {
        match before {
            None => own,
            Some(before) if self.fits(&before, &own) => before.more_general(own),
            Some(_) => Type::Dyn,
        }
    }

    fn structure(&mut self, node: &Expr, name: &str, fields: &[Field]) -> Type {
        let Some((name, named)) = self.environment.type_named(name) else {
            return self.undeclared(node.position, name);
        };
        let (created, message) = self.created(node.position, name, named);
        for field in fields {
            let value = self.node(&field.value);
            let expected = self.field_of(field.position, &message, &field.name);
            let value = self.present(&field.value, value, field.is_optional);
            if !self.fits(&expected, &value) {
                let name = &field.name;
                let problem = format!(
                    "expected type of field '{name}' is '{expected}' but provided type is '{value}'"
                );
                self.report(field.position, problem);
            }
        }
        created
    }

    /// Returns the type of the values that a name creates, given what it names, and the name of the type that has their fields.
    fn created(&mut self, position: usize, name: &str, named: Type) -> (Type, String) {
        let message = match (messages::name_of(&named), &named) {
            (Some(message), _) => message.into(),
            (None, Type::Object(object)) => object.to_string(),
            (None, _) => {
                self.report(position, format!("'{named}' is not a message type"));
                return (Type::Error, name.into());
            }
        };
        (named, message)
    }

    fn comprehension(&mut self, of: &Comprehension) -> Type {
        let range = self.node(&of.range);
        let accumulated = self.node(&of.initial);
        let range = self.unifier.resolve(&range, false);
        let outer = self.locals.len();
        self.locals
            .push((of.accumulator.clone(), accumulated.clone()));
        let (first, second) = self.elements(&of.range, &range, of.second_variable.is_some());
        let inner = self.locals.len();
        self.locals.push((of.variable.clone(), first));
        let second_variable = of.second_variable.clone();
        self.locals
            .extend(second_variable.map(|name| (name, second)));
        let condition = self.node(&of.condition);
        self.expect(&of.condition, &Type::Bool, &condition);
        let step = self.node(&of.step);
        self.expect(&of.step, &accumulated, &step);
        self.locals.truncate(inner);
        let result = self.node(&of.result);
        self.locals.truncate(outer);
        self.unifier.resolve(&result, false)
    }

    /// Returns the types of the variables of a comprehension over a range.
    fn elements(&mut self, node: &Expr, range: &Type, are_two: bool) -> (Type, Type) {
        match range {
            Type::List(element) if are_two => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Error),
            Type::Map(entry) => (**entry).clone(),
            Type::Dyn | Type::Error | Type::Parameter(_) => {
                self.fits(&Type::Dyn, range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let problem = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(node.position, problem);
                (Type::Error, Type::Error)
            }
        }
    }

    fn expect(&mut self, node: &Expr, expected: &Type, found: &Type) {
        if !self.fits(expected, found) {
            self.mismatch(node.position, expected, found);
        }
    }

    fn fits(&mut self, from: &Type, to: &Type) -> bool {
        let unifier = &mut self.unifier;
        unifier.accept(std::slice::from_ref(from), std::slice::from_ref(to))
    }

    fn mismatch(&mut self, position: usize, expected: &Type, found: &Type) {
        let problem = format!("expected type '{expected}' but found '{found}'");
        self.report(position, problem);
    }

    fn undeclared(&mut self, position: usize, name: &str) -> Type {
        let problem = format!("undeclared reference to '{name}' (in container '')");
        self.report(position, problem);
        Type::Error
    }

    fn report(&mut self, position: usize, message: String) {
        self.issues.push(Issue {
            position: Some(position),
            message,
        });
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool => Type::Bool,
        Literal::Int => Type::Int,
        Literal::Uint => Type::Uint,
        Literal::Double => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes => Type::Bytes,
    }
}
