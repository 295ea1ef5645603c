//! Finds types that are not yet known, and decides whether a value of one type can stand where another is expected.
//!
//! In cel-go: checker/types.go and checker/mapping.go.

use std::collections::HashMap;
use std::rc::Rc;

use crate::types::Type;

/// The types that were found for type parameters.
#[derive(Default)]
pub(crate) struct Unifier {
    found: HashMap<Rc<str>, Type>,
    /// Changes of `found` that are undone if types don't fit: the parameter and what was known before.
    changes: Vec<(Rc<str>, Option<Type>)>,
    /// The number of parameters that [`fresh`](Self::fresh) has made.
    fresh: usize,
}

impl Unifier {
    /// A type that is still to be found.
    pub(crate) fn fresh(&mut self) -> Type {
        let name = format!("_var{}", self.fresh);
        self.fresh += 1;
        Type::Parameter(name.into())
    }

    /// Whether values of the types `from` can stand where `to` are expected. If so, learns from it.
    pub(crate) fn accept(&mut self, from: &[Type], to: &[Type]) -> bool {
        let fits = from.len() == to.len() && self.fit_all(from.iter().zip(to));
        let changes = std::mem::take(&mut self.changes);
        if !fits {
            for (parameter, before) in changes.into_iter().rev() {
                match before {
                    Some(before) => self.found.insert(parameter, before),
                    None => self.found.remove(&parameter),
                };
            }
        }
        fits
    }

    /// Replaces type parameters by what was found for them. Others stay, or become `dyn` if they must be final.
    pub(crate) fn resolve(&self, given: &Type, is_final: bool) -> Type {
        let all = |types: &[Type]| -> Vec<Type> {
            types
                .iter()
                .map(|one| self.resolve(one, is_final))
                .collect()
        };
        match given {
            Type::Parameter(name) => match self.found.get(name) {
                Some(found) => self.resolve(found, is_final),
                None if is_final => Type::Dyn,
                None => given.clone(),
            },
            Type::List(element) => Type::list(self.resolve(element, is_final)),
            Type::Map(entry) => Type::map(
                self.resolve(&entry.0, is_final),
                self.resolve(&entry.1, is_final),
            ),
            Type::Type(Some(of)) => Type::of_type(self.resolve(of, is_final)),
            Type::Opaque(name, parameters) => Type::Opaque(name.clone(), all(parameters).into()),
            other => other.clone(),
        }
    }

    fn fit_all<'t>(&mut self, pairs: impl IntoIterator<Item = (&'t Type, &'t Type)>) -> bool {
        pairs.into_iter().all(|(from, to)| self.fit(from, to))
    }

    fn fit(&mut self, from: &Type, to: &Type) -> bool {
        if let Type::Parameter(name) = to {
            match self.substitute(from, name) {
                Substitution::Valid => return true,
                Substitution::Conflict => return false,
                Substitution::Circular => {}
            }
        }
        if let Type::Parameter(name) = from {
            return matches!(self.substitute(to, name), Substitution::Valid);
        }
        if from.is_dyn_or_error() || to.is_dyn_or_error() {
            return true;
        }
        match (from, to) {
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(one), Type::List(other)) => self.fit(one, other),
            (Type::Map(one), Type::Map(other)) => {
                self.fit(&one.0, &other.0) && self.fit(&one.1, &other.1)
            }
            (Type::Opaque(one, own), Type::Opaque(other, others)) => {
                one == other && own.len() == others.len() && self.fit_all(own.iter().zip(&**others))
            }
            _ => unwrapped(from) == unwrapped(to),
        }
    }

    /// Takes a type for a type parameter, or the more general one of it and the type that was found before.
    fn substitute(&mut self, given: &Type, parameter: &Rc<str>) -> Substitution {
        if *given == Type::Parameter(parameter.clone()) {
            return Substitution::Valid;
        }
        let Some(found) = self.found.get(parameter).cloned() else {
            if self.mentions(given, parameter) {
                return Substitution::Circular;
            }
            self.set(parameter, given.clone());
            return Substitution::Valid;
        };
        if unwrapped(given) == unwrapped(&found) {
            return Substitution::Valid;
        }
        if !self.fit(given, &found) {
            return Substitution::Conflict;
        }
        let general = given.clone().more_general(found);
        if !self.mentions(&general, parameter) {
            self.set(parameter, general);
        }
        Substitution::Valid
    }

    fn set(&mut self, parameter: &Rc<str>, found: Type) {
        let before = self.found.insert(parameter.clone(), found);
        self.changes.push((parameter.clone(), before));
    }

    /// Whether a type is made of a parameter.
    fn mentions(&self, given: &Type, parameter: &Rc<str>) -> bool {
        match given {
            Type::Parameter(name) if name == parameter => true,
            Type::Parameter(name) => {
                let found = self.found.get(name);
                found.is_some_and(|found| self.mentions(found, parameter))
            }
            other => {
                let mut parts = other.parameters().into_iter();
                parts.any(|part| self.mentions(part, parameter))
            }
        }
    }
}

enum Substitution {
    Valid,
    /// Another type was found for the parameter.
    Conflict,
    /// The type is made of the parameter.
    Circular,
}

fn unwrapped(given: &Type) -> &Type {
    match given {
        Type::Wrapper(of) => of,
        other => other,
    }
}

impl Type {
    /// Returns the more general one of two types that fit each other.
    pub(crate) fn more_general(self, other: Self) -> Self {
        if is_at_least_as_general(&self, &other) {
            self
        } else {
            other
        }
    }
}

/// Whether a type is equal to another one, but for parts in which it is dynamic.
fn is_at_least_as_general(one: &Type, other: &Type) -> bool {
    if one.is_dyn() || matches!(one, Type::Parameter(_)) {
        return true;
    }
    if other.is_dyn() || matches!(other, Type::Parameter(_)) {
        return false;
    }
    match (one, other) {
        (Type::Type(_), Type::Type(_)) => true,
        (Type::List(one), Type::List(other)) => is_at_least_as_general(one, other),
        (Type::Map(one), Type::Map(other)) => {
            is_at_least_as_general(&one.0, &other.0) && is_at_least_as_general(&one.1, &other.1)
        }
        (Type::Opaque(name, own), Type::Opaque(other, others)) => {
            let mut pairs = own.iter().zip(&**others);
            name == other
                && own.len() == others.len()
                && pairs.all(|(one, other)| is_at_least_as_general(one, other))
        }
        _ => unwrapped(one) == unwrapped(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(name: &str) -> Type {
        Type::Parameter(name.into())
    }

    #[test]
    fn a_parameter_becomes_the_most_general_type_that_it_stands_for() {
        let mut unifier = Unifier::default();
        let both = [parameter("A"), parameter("A")];
        assert!(unifier.accept(&[Type::Int, Type::Dyn], &both));
        assert_eq!(unifier.resolve(&parameter("A"), false), Type::Dyn);
        assert!(unifier.accept(&[Type::String], &[parameter("A")]));
    }

    #[test]
    fn nothing_is_learnt_from_types_that_do_not_fit() {
        let mut unifier = Unifier::default();
        let to = [parameter("A"), Type::list(parameter("A"))];
        assert!(!unifier.accept(&[Type::Int, Type::list(Type::String)], &to));
        assert_eq!(unifier.resolve(&parameter("A"), false), parameter("A"));
        assert_eq!(unifier.resolve(&parameter("A"), true), Type::Dyn);
        assert!(unifier.accept(&[Type::String, Type::list(Type::String)], &to));
    }

    #[test]
    fn a_parameter_is_not_made_of_itself() {
        let mut unifier = Unifier::default();
        let list = Type::list(parameter("A"));
        assert!(!unifier.accept(std::slice::from_ref(&list), &[parameter("A")]));
    }

    #[test]
    fn null_is_an_object_but_no_string() {
        let mut unifier = Unifier::default();
        for (other, fits) in [
            (Type::object("Pod"), true),
            (Type::Timestamp, true),
            (Type::Wrapper(Rc::new(Type::Int)), true),
            (Type::String, false),
            (Type::list(Type::Int), false),
        ] {
            assert_eq!(
                unifier.accept(&[Type::Null], std::slice::from_ref(&other)),
                fits
            );
            assert_eq!(unifier.accept(&[other], &[Type::Null]), fits);
        }
    }
}
