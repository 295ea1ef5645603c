//! The messages of protobuf that expressions can name and create.
//!
//! In cel-go: common/types/types.go: checkedWellKnowns, and checker/checker.go: wellKnownTypes.

use std::rc::Rc;

use crate::types::Type;

/// Returns the type of a message's values.
pub(crate) fn message(name: &str) -> Option<Type> {
    let wrapper = |of| Type::Wrapper(Rc::new(of));
    Some(match name {
        "google.protobuf.BoolValue" => wrapper(Type::Bool),
        "google.protobuf.BytesValue" => wrapper(Type::Bytes),
        "google.protobuf.DoubleValue" | "google.protobuf.FloatValue" => wrapper(Type::Double),
        "google.protobuf.Int64Value" | "google.protobuf.Int32Value" => wrapper(Type::Int),
        "google.protobuf.UInt64Value" | "google.protobuf.UInt32Value" => wrapper(Type::Uint),
        "google.protobuf.StringValue" => wrapper(Type::String),
        "google.protobuf.Any" => Type::Any,
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.ListValue" => Type::list(Type::Dyn),
        "google.protobuf.Struct" => Type::map(Type::String, Type::Dyn),
        "google.protobuf.Value" => Type::Dyn,
        "google.protobuf.Empty" => Type::object(name),
        _ => return None,
    })
}

/// Returns the name of the message that is created for a type.
pub(crate) fn name_of(created: &Type) -> Option<&'static str> {
    Some(match created {
        Type::Any => "google.protobuf.Any",
        Type::Duration => "google.protobuf.Duration",
        Type::Timestamp => "google.protobuf.Timestamp",
        Type::Dyn => "google.protobuf.Value",
        Type::Null => "google.protobuf.NullValue",
        Type::List(element) if **element == Type::Dyn => "google.protobuf.ListValue",
        Type::Map(entry) if **entry == (Type::String, Type::Dyn) => "google.protobuf.Struct",
        Type::Wrapper(of) => match **of {
            Type::Bool => "google.protobuf.BoolValue",
            Type::Bytes => "google.protobuf.BytesValue",
            Type::Double => "google.protobuf.DoubleValue",
            Type::Int => "google.protobuf.Int64Value",
            Type::Uint => "google.protobuf.UInt64Value",
            _ => "google.protobuf.StringValue",
        },
        _ => return None,
    })
}

/// Returns the type of a message's field. The outer option says whether there is such a message.
pub(crate) fn field(message_name: &str, field: &str) -> Option<Option<Type>> {
    let values = message(message_name)?;
    Some(match (values, field) {
        (Type::Wrapper(of), "value") => Some((*of).clone()),
        (Type::Any, "type_url") | (Type::Dyn, "string_value") => Some(Type::String),
        (Type::Any, "value") => Some(Type::Bytes),
        (Type::Duration | Type::Timestamp, "seconds" | "nanos") => Some(Type::Int),
        (Type::List(_), "values") | (Type::Dyn, "list_value") => Some(Type::list(Type::Dyn)),
        (Type::Map(_), "fields") | (Type::Dyn, "struct_value") => {
            Some(Type::map(Type::String, Type::Dyn))
        }
        (Type::Dyn, "null_value") => Some(Type::Int),
        (Type::Dyn, "number_value") => Some(Type::Double),
        (Type::Dyn, "bool_value") => Some(Type::Bool),
        _ => None,
    })
}
