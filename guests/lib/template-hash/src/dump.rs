//! Prints a pod template as `spew` prints the Go value of it, with the settings of `dump.ForHash` in `k8s.io/utils`.
//!
//! The value is the one that kube-controller-manager has decoded from protobuf. There, an empty list or map is the same as an
//! absent one, and a quantity is always there. The server's JSON leaves out only what the value has as nil, zero or empty. Fields
//! that the types don't have are ignored, as by Go's decoder.

use std::fmt;

use flyball_sdk::Time;
use flyball_sdk::prelude::*;

use crate::quantity::Quantity;
use crate::table::{Field, Shape, Special, Table};

/// Seconds between the beginning of the year 1, from which Go counts, and of 1970.
const YEAR_1: i64 = 62_135_596_800;

/// A pod template that is displayed as Go's dump of it. Values of other types than the API's are taken as absent.
pub(crate) struct Dump<'a>(pub(crate) &'a Value);

impl fmt::Display for Dump<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = Table::new();
        Printer { table: &table, out }.typed("v1.PodTemplateSpec", self.0)
    }
}

struct Printer<'a, 'f> {
    table: &'a Table,
    out: &'a mut fmt::Formatter<'f>,
}

impl Printer<'_, '_> {
    /// Prints a value after the name of its type.
    fn typed(&mut self, name: &str, value: &Value) -> fmt::Result {
        write!(self.out, "({name})")?;
        self.untyped(name, value)
    }

    /// Prints a value. The elements of lists and maps are printed without types, but not the fields in them.
    fn untyped(&mut self, name: &str, value: &Value) -> fmt::Result {
        match self.table.shape(name) {
            Shape::Pointer(_) if value.is_null() => write!(self.out, "<nil>"),
            Shape::Pointer(target) => self.untyped(target, value),
            Shape::List(element) => self.list(element, value),
            Shape::Map(element) => self.map(element, value),
            Shape::Struct(fields) => self.structure(fields, value),
            Shape::Text => self.out.write_str(value.as_str().unwrap_or_default()),
            Shape::Integer => write!(self.out, "{}", value.as_i64().unwrap_or_default()),
            Shape::Boolean => write!(self.out, "{}", value.as_bool().unwrap_or_default()),
            Shape::Special(special) => self.special(special, value),
        }
    }

    fn list(&mut self, element: &str, value: &Value) -> fmt::Result {
        let Some(items) = value.as_array().filter(|items| !items.is_empty()) else {
            return write!(self.out, "<nil>");
        };
        let mut before = "[";
        for item in items {
            self.out.write_str(before)?;
            self.untyped(element, item)?;
            before = " ";
        }
        write!(self.out, "]")
    }

    fn map(&mut self, element: &str, value: &Value) -> fmt::Result {
        let Some(entries) = value.as_object().filter(|entries| !entries.is_empty()) else {
            return write!(self.out, "<nil>");
        };
        // Sorted by bytes, independent of serde_json's map order.
        let mut entries: Vec<_> = entries.iter().collect();
        entries.sort_unstable_by_key(|&(key, _)| key);
        let mut before = "map[";
        for (key, value) in entries {
            write!(self.out, "{before}{key}:")?;
            self.untyped(element, value)?;
            before = " ";
        }
        write!(self.out, "]")
    }

    fn structure(&mut self, fields: &str, value: &Value) -> fmt::Result {
        let mut before = "{";
        for Field {
            name,
            json,
            go_type,
        } in Field::all(fields)
        {
            write!(self.out, "{before}{name}:")?;
            let field = match json {
                Some(json) => value.get(&*json).unwrap_or(&Value::Null),
                // Its fields are among those of the struct that it is in.
                None => value,
            };
            self.typed(go_type, field)?;
            before = " ";
        }
        write!(self.out, "}}")
    }

    fn special(&mut self, special: Special, value: &Value) -> fmt::Result {
        match special {
            Special::FieldsV1 => self.fields_v1(value),
            Special::IntOrString => self.int_or_string(value),
            Special::Quantity => write!(self.out, "{}", quantity(value)),
            Special::Time => self.time(value),
        }
    }

    /// Prints the JSON of managed fields, as a list of bytes.
    fn fields_v1(&mut self, value: &Value) -> fmt::Result {
        let mut before = "{Raw:([]uint8)[";
        for byte in value.to_string().bytes() {
            write!(self.out, "{before}{byte}")?;
            before = " ";
        }
        write!(self.out, "]}}")
    }

    fn int_or_string(&mut self, value: &Value) -> fmt::Result {
        let (kind, text) = value.as_str().map_or((0, ""), |text| (1, text));
        let number = value.as_i64().unwrap_or_default();
        write!(
            self.out,
            "{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}"
        )
    }

    /// Prints a time. Go holds it with the zone of the process, which is UTC in a container. The time zero has no zone.
    fn time(&mut self, value: &Value) -> fmt::Result {
        let time = value.as_str().and_then(|text| text.parse::<Time>().ok());
        let seconds = time.map_or(0, |time| time.seconds + YEAR_1);
        write!(
            self.out,
            "{{Time:(time.Time){{wall:(uint64)0 ext:(int64){seconds} loc:(*time.Location)"
        )?;
        match time {
            Some(_) => write!(
                self.out,
                "{{name:(string)UTC zone:([]time.zone)<nil> tx:([]time.zoneTrans)<nil> extend:(string) \
                 cacheStart:(int64)0 cacheEnd:(int64)0 cacheZone:(*time.zone)<nil>}}}}}}"
            ),
            None => write!(self.out, "<nil>}}}}"),
        }
    }
}

/// The quantity of a JSON value. An absent one is `0` in protobuf.
fn quantity(value: &Value) -> Quantity {
    match value {
        Value::String(text) => Quantity::parse(text).unwrap_or_default(),
        Value::Number(number) => Quantity::parse(&number.to_string()).unwrap_or_default(),
        _ => Quantity::parse("0").unwrap_or_default(),
    }
}
