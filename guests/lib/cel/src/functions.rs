//! The functions that expressions can call.
//!
//! In Kubernetes: the functions of the environment that staging/src/k8s.io/apiserver/pkg/cel/environment/base.go configures.
//! `testdata/dump.go` writes the table.

use std::collections::HashMap;
use std::rc::Rc;

use crate::types::Type;

/// A name, and below it the signatures, as in `list(<T>).(int) -> <T>`: the type before a dot is that of the target, and `<T>` is
/// a type parameter. The signatures are in the order in which they are tried.
const TABLE: &str = include_str!("functions.txt");

/// Functions by name.
pub(crate) struct Functions(HashMap<&'static str, Vec<Overload>>);

/// One signature of a function.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overload {
    /// Whether the first argument is the target of the call.
    pub is_member: bool,
    pub arguments: Vec<Type>,
    pub result: Type,
    /// The type parameters, each once.
    pub parameters: Vec<Rc<str>>,
}

impl Functions {
    /// Reads the table.
    pub(crate) fn new() -> Self {
        let mut functions: HashMap<&str, Vec<Overload>> = HashMap::new();
        let mut name = "";
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            match line.strip_prefix("    ") {
                None => name = line,
                Some(signature) => functions.entry(name).or_default().push(overload(signature)),
            }
        }
        Self(functions)
    }

    pub(crate) fn get(&self, name: &str) -> Option<(&'static str, &[Overload])> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let (name, overloads) = self.0.get_key_value(name)?;
        Some((name, overloads))
    }
}

/// Reads a signature such as `list(<T>).(int) -> <T>`.
fn overload(signature: &str) -> Overload {
    let mut reader = Reader {
        rest: signature,
        parameters: Vec::new(),
    };
    let mut arguments = Vec::new();
    let is_member = !signature.starts_with('(');
    if is_member {
        arguments.push(reader.value());
        reader.skip(".");
    }
    arguments.extend(reader.list());
    reader.skip(" -> ");
    Overload {
        is_member,
        arguments,
        result: reader.value(),
        parameters: reader.parameters,
    }
}

/// Reads types. The table is part of the program, so it has no errors.
struct Reader<'t> {
    rest: &'t str,
    parameters: Vec<Rc<str>>,
}

impl Reader<'_> {
    fn skip(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Types between parentheses.
    fn list(&mut self) -> Vec<Type> {
        let mut types = Vec::new();
        self.skip("(");
        while !self.skip(")") {
            types.push(self.value());
            self.skip(", ");
        }
        types
    }

    fn value(&mut self) -> Type {
        if self.skip("<") {
            let (name, rest) = self.rest.split_once('>').unwrap_or_default();
            self.rest = rest;
            let name: Rc<str> = name.into();
            if !self.parameters.contains(&name) {
                self.parameters.push(name.clone());
            }
            return Type::Parameter(name);
        }
        let is_name = |c: char| c.is_alphanumeric() || "._".contains(c);
        let end = self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len());
        // The dot before the arguments of a member does not belong to its type.
        let name = self.rest[..end].trim_end_matches('.');
        self.rest = &self.rest[name.len()..];
        let has_parameters = self.rest.starts_with('(');
        let mut parameters = if has_parameters {
            self.list()
        } else {
            Vec::new()
        };
        match (name, parameters.len()) {
            ("list", 1) => Type::list(parameters.remove(0)),
            ("map", 2) => Type::map(parameters.remove(0), parameters.remove(0)),
            ("type", 1) => Type::of_type(parameters.remove(0)),
            _ if has_parameters => Type::Opaque(name.into(), parameters.into()),
            _ => simple(name).unwrap_or_else(|| Type::object(name)),
        }
    }
}

/// Returns the type with a name of the language.
fn simple(name: &str) -> Option<Type> {
    Some(match name {
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_read() {
        let parameter = |name: &str| Type::Parameter(name.into());
        assert_eq!(
            overload("optional_type(map(<K>, <V>)).(<K>, net.IP()) -> optional_type(<V>)"),
            Overload {
                is_member: true,
                arguments: vec![
                    Type::optional(Type::map(parameter("K"), parameter("V"))),
                    parameter("K"),
                    Type::Opaque("net.IP".into(), Rc::new([])),
                ],
                result: Type::optional(parameter("V")),
                parameters: vec!["K".into(), "V".into()],
            }
        );
        let decision = overload("kubernetes.authorization.Decision.() -> bool");
        let target = Type::object("kubernetes.authorization.Decision");
        assert_eq!(decision.arguments, [target]);
    }

    #[test]
    fn all_signatures_of_the_table_are_written_as_they_were_read() {
        let functions = Functions::new();
        let mut count = 0;
        for line in TABLE.lines().filter(|line| line.starts_with("    ")) {
            let overload = overload(line.trim_start());
            let opaque = |text: String| {
                text.replace("net.IP", "net.IP()")
                    .replace("net.CIDR", "net.CIDR()")
            };
            let (target, arguments) = overload.arguments.split_at(usize::from(overload.is_member));
            let target: String = target.iter().map(|one| format!("{one}.")).collect();
            let arguments = crate::types::joined(arguments);
            let text = opaque(format!("{target}({arguments}) -> {}", overload.result));
            assert_eq!(
                text,
                line.trim_start()
                    .replace(['<', '>'], "")
                    .replace(" - ", " -> ")
            );
            count += 1;
        }
        let all: usize = functions.0.values().map(Vec::len).sum();
        assert_eq!(all, count);
    }
}
