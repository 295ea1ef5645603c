//! The types of expressions.
//!
//! In cel-go: common/types/types.go: Type, IsEquivalentType, IsAssignableType, and checker/format.go:
//! FormatCELType.

use std::fmt;
use std::rc::Rc;

/// The name of the type of optional values.
pub(crate) const OPTIONAL: &str = "optional_type";

/// The type of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A value whose type is only known when the expression is evaluated.
    Dyn,
    /// `google.protobuf.Any`. It is checked like [`Dyn`](Self::Dyn).
    Any,
    /// The type of an expression with an error that has been reported.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Rc<Type>),
    /// The types of the keys and of the values.
    Map(Rc<(Type, Type)>),
    /// The type of a type. Without a parameter, the type of all types.
    Type(Option<Rc<Type>>),
    /// A type with fields, by name: see [`Environment`](crate::Environment).
    Object(Rc<str>),
    /// A type that only functions know, with its parameters.
    Opaque(Rc<str>, Rc<[Type]>),
    /// A primitive value or null.
    Wrapper(Rc<Type>),
    /// A parameter in the signature of a function, or a type that is still to be found.
    Parameter(Rc<str>),
}

impl Type {
    pub fn list(element: Self) -> Self {
        Self::List(Rc::new(element))
    }

    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Rc::new((key, value)))
    }

    pub fn object(name: &str) -> Self {
        Self::Object(name.into())
    }

    pub(crate) fn of_type(of: Self) -> Self {
        Self::Type(Some(Rc::new(of)))
    }

    pub(crate) fn optional(value: Self) -> Self {
        Self::Opaque(OPTIONAL.into(), Rc::new([value]))
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any)
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        self.is_dyn() || *self == Self::Error
    }

    /// Whether null has this type. Values of object types can be null because messages can be absent.
    pub(crate) fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Opaque(..)
                | Self::Object(_)
                | Self::Any
                | Self::Duration
                | Self::Timestamp
                | Self::Wrapper(_)
                | Self::Null
        )
    }

    /// Returns the type of the value if this is the type of an optional value, and otherwise the type itself. The flag
    /// says which.
    pub(crate) fn unwrap_optional(&self) -> (&Self, bool) {
        match self {
            Self::Opaque(name, parameters) if **name == *OPTIONAL => (&parameters[0], true),
            other => (other, false),
        }
    }

    /// The parameters, in the order of cel-go.
    pub(crate) fn parameters(&self) -> Vec<&Self> {
        match self {
            Self::List(element) => vec![element],
            Self::Map(entry) => vec![&entry.0, &entry.1],
            Self::Type(Some(of)) => vec![of],
            Self::Opaque(_, parameters) => parameters.iter().collect(),
            _ => Vec::new(),
        }
    }
}

/// Writes the type as in cel-go's errors.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Dyn => "dyn",
            Self::Any => "any",
            Self::Error => "!error!",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "duration",
            Self::Timestamp => "timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Object(name) | Self::Opaque(name, _) | Self::Parameter(name) => name,
            Self::Wrapper(of) => return write!(f, "wrapper({of})"),
        };
        f.write_str(name)?;
        let parameters = self.parameters();
        if parameters.is_empty() {
            return Ok(());
        }
        write!(f, "({})", joined(parameters))
    }
}

/// Returns types as a list in the text of an error.
pub(crate) fn joined<'t>(types: impl IntoIterator<Item = &'t Type>) -> String {
    let texts: Vec<_> = types.into_iter().map(Type::to_string).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_written_as_in_errors_of_cel_go() {
        let pods = Type::map(Type::String, Type::list(Type::object("Pod")));
        for (given, text) in [
            (pods, "map(string, list(Pod))"),
            (Type::of_type(Type::Timestamp), "type(timestamp)"),
            (Type::Type(None), "type"),
            (Type::optional(Type::Null), "optional_type(null)"),
            (Type::Opaque("net.IP".into(), Rc::new([])), "net.IP"),
            (Type::Wrapper(Rc::new(Type::Int)), "wrapper(int)"),
            (Type::list(Type::Error), "list(!error!)"),
        ] {
            assert_eq!(given.to_string(), text);
        }
    }

    #[test]
    fn only_optional_types_are_unwrapped() {
        let optional = Type::optional(Type::Int);
        assert_eq!(optional.unwrap_optional(), (&Type::Int, true));
        let list = Type::list(Type::Int);
        assert_eq!(list.unwrap_optional(), (&list, false));
    }
}
