//! Flags as in Go's pflag: their types and the syntax of their values.

use std::collections::BTreeMap;

use flyball_types::duration;

/// A flag of the command line.
#[derive(Debug, PartialEq)]
pub struct Flag {
    /// The name without dashes.
    pub name: &'static str,
    pub kind: Kind,
    /// The default, as pflag writes it.
    pub default: &'static str,
    pub effect: Effect,
}

/// The effect of a flag.
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// It has an effect; this is its help.
    Yes(&'static str),
    /// It is accepted and has no effect yet.
    NotYet,
    /// It has no effect yet, and these values ask for what Flyball does anyway.
    Already(&'static [&'static str]),
}

/// The type of a flag's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Int,
    Int32,
    Level,
    Float,
    Double,
    Duration,
    Ip,
    Text,
    Quantity,
    /// A list; each use of the flag adds to it.
    Texts,
    Ints,
    KeyPairs,
    Pairs,
    Gates,
    Modules,
    /// `--version` or `--version=raw`.
    Version,
}

pub const fn flag(name: &'static str, kind: Kind, default: &'static str, effect: Effect) -> Flag {
    Flag {
        name,
        kind,
        default,
        effect,
    }
}

impl Kind {
    /// The name of the type in pflag.
    pub fn go_type(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Int32 => "int32",
            Self::Level => "Level",
            Self::Float => "float32",
            Self::Double => "float64",
            Self::Duration => "duration",
            Self::Ip => "ip",
            Self::Text => "string",
            Self::Quantity => "quantity",
            Self::Texts => "stringSlice",
            Self::Ints => "int32Slice",
            Self::KeyPairs => "namedCertKey",
            Self::Pairs => "stringToString",
            Self::Gates => "colonSeparatedMultimapStringString",
            Self::Modules => "pattern=N,...",
            Self::Version => "version",
        }
    }

    /// Whether the value is optional. A value must then follow `=`.
    pub fn needs_no_value(self) -> bool {
        matches!(self, Self::Bool | Self::Version)
    }

    /// Whether each use of the flag adds to the earlier ones.
    pub fn is_list(self) -> bool {
        matches!(
            self,
            Self::Texts | Self::Ints | Self::KeyPairs | Self::Pairs | Self::Gates | Self::Modules
        )
    }

    /// Checks a value. The error says what is wrong with it.
    pub fn check(self, text: &str) -> Result<(), String> {
        match self {
            Self::Bool => bool(text).map(drop),
            Self::Int => int(text, i64::MIN, i64::MAX).map(drop),
            Self::Int32 | Self::Level => int(text, i32::MIN.into(), i32::MAX.into()).map(drop),
            Self::Float | Self::Double => float(text).map(drop),
            // Kubernetes takes negative durations too; `config/read/flags.rs` refuses them where one is used.
            Self::Duration => duration::parse_nanoseconds(text)
                .map(drop)
                .map_err(|error| error.to_string()),
            Self::Ip => text
                .parse::<std::net::IpAddr>()
                .map(drop)
                .map_err(|_| "it is not an IP address".to_owned()),
            Self::Ints => list(text)?
                .iter()
                .try_for_each(|item| Self::Int32.check(item)),
            Self::Texts => list(text).map(drop),
            Self::Pairs => map(text).map(drop),
            Self::Gates => pairs(text)?
                .iter()
                .try_for_each(|(_, value)| Self::Bool.check(value)),
            Self::Text | Self::Quantity | Self::KeyPairs | Self::Modules | Self::Version => Ok(()),
        }
    }
}

/// A boolean in the syntax of Go's `strconv.ParseBool`.
pub fn bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("it must be true or false".to_owned()),
    }
}

/// An integer in Go's syntax, which includes `0x10`, `0b1`, `0o7`, `07` and `_` between digits.
pub fn int(text: &str, min: i64, max: i64) -> Result<i64, String> {
    let (negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let digits = digits.to_ascii_lowercase().replace('_', "");
    let radices = [("0x", 16), ("0b", 2), ("0o", 8)];
    let prefixed = radices
        .iter()
        .find_map(|(prefix, radix)| Some((digits.strip_prefix(prefix)?, *radix)));
    let octal = || {
        digits
            .strip_prefix('0')
            .filter(|rest| !rest.is_empty())
            .map(|rest| (rest, 8))
    };
    let (digits, radix) = prefixed.or_else(octal).unwrap_or((&digits, 10));
    if digits.starts_with(['-', '+']) {
        return Err("it is not an integer".to_owned());
    }
    let value =
        i128::from_str_radix(digits, radix).map_err(|_| "it is not an integer".to_owned())?;
    let value = if negative { -value } else { value };
    match i64::try_from(value) {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        _ => Err(format!("it must be between {min} and {max}")),
    }
}

pub fn float(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|value: &f64| value.is_finite())
        .ok_or_else(|| "it is not a number".to_owned())
}

/// The items of a comma-separated list. An item in double quotes may contain commas.
pub fn list(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let (mut items, mut item, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                item.push('"');
            }
            '"' if quoted || item.is_empty() => quoted = !quoted,
            ',' if !quoted => items.push(std::mem::take(&mut item)),
            c => item.push(c),
        }
    }
    items.push(item);
    if quoted {
        Err("it has an unclosed double quote".to_owned())
    } else {
        Ok(items)
    }
}

/// The items of a map from text to text. If there is only one `=`, all before it is the key and all behind it the
/// value, with their commas.
pub fn map(text: &str) -> Result<BTreeMap<String, String>, String> {
    match text.matches('=').count() {
        0 if text.is_empty() => Ok(BTreeMap::new()),
        0 => Err(format!("{text} must be formatted as key=value")),
        1 => {
            let pair = text.trim_matches('"').split_once('=');
            let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
            Ok(pair.map(owned).into_iter().collect())
        }
        _ => list(text)?
            .into_iter()
            .map(|item| match item.split_once('=') {
                Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
                None => Err(format!("{item} must be formatted as key=value")),
            })
            .collect(),
    }
}

/// The `key=value` items of a list.
pub fn pairs(text: &str) -> Result<BTreeMap<String, String>, String> {
    let pair = |item: String| match item.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
        None => Err(format!("{item:?} is not key=value")),
    };
    list(text)?
        .into_iter()
        .filter(|item| !item.trim().is_empty())
        .map(pair)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_booleans_are_parsed_as_in_go() {
        assert_eq!(int("-0x10", -100, 100), Ok(-16));
        assert_eq!(int("010", 0, 100), Ok(8));
        assert_eq!(int("1_000", 0, 10_000), Ok(1000));
        assert!(
            ["", "-", "--1", "0x", "1.0", "2147483648"]
                .iter()
                .all(|text| Kind::Int32.check(text).is_err())
        );
        assert_eq!((bool("T"), bool("0")), (Ok(true), Ok(false)));
        assert!(bool("yes").is_err());
        assert!(float("NaN").is_err());
    }

    #[test]
    fn lists_are_parsed_as_in_go() {
        assert_eq!(list(""), Ok(vec![]));
        assert_eq!(list("*,-a"), Ok(vec!["*".to_owned(), "-a".to_owned()]));
        assert_eq!(
            list("\"a,\"\"b\",c"),
            Ok(vec!["a,\"b".to_owned(), "c".to_owned()])
        );
        assert!(list("\"a").is_err());
        let of = |text| map(text).unwrap().into_iter().collect::<Vec<_>>();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(of("a,b=c,d"), [pair("a,b", "c,d")]);
        assert_eq!(
            of("\"a,b=c,d\",\"e,f=g\""),
            [pair("a,b", "c,d"), pair("e,f", "g")]
        );
        assert_eq!(map("a").unwrap_err(), "a must be formatted as key=value");
        assert!(Kind::Gates.check("A=true,kube:B=false").is_ok());
        assert!(Kind::Gates.check("A=maybe").is_err());
        assert!(Kind::Ints.check("1,x").is_err());
    }
}
