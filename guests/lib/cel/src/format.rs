//! Checks the arguments of `format` against the clauses of its format string, if both are literals.
//!
//! In cel-go: ext/formatting.go: stringFormatValidator, stringFormatChecker, parseFormatString,
//! parseFormattingClause, parsePrecision.

use crate::ast::{Element, Expr, Kind, Literal};
use crate::source::Issue;
use crate::types::Type;

/// What is wrong with a call, and where if it is not the call itself.
type Problem = (Option<usize>, String);

/// Returns what is wrong. `types` are the types of the nodes by their numbers.
pub(crate) fn check(root: &Expr, types: &[Type]) -> Vec<Issue> {
    let mut issues = Vec::new();
    root.each(&mut |node| {
        if let Some((format, arguments)) = literal_call(node)
            && let Err((position, message)) = check_call(format, arguments, types)
        {
            let position = Some(position.unwrap_or(node.position));
            issues.push(Issue { position, message });
        }
        true
    });
    issues
}

/// Returns the format string and the arguments of a call of `format`.
fn literal_call(node: &Expr) -> Option<(&str, &[Element])> {
    let Kind::Call {
        target: Some(target),
        function,
        arguments,
    } = &node.kind
    else {
        return None;
    };
    match (&target.kind, function.as_str(), arguments.as_slice()) {
        (
            Kind::Literal(Literal::String(format)),
            "format",
            [
                Expr {
                    kind: Kind::List(arguments),
                    ..
                },
            ],
        ) => Some((format, arguments)),
        _ => None,
    }
}

fn check_call(format: &str, arguments: &[Element], types: &[Type]) -> Result<(), Problem> {
    let mut used = 0;
    let mut rest = format;
    while let Some(start) = rest.find('%') {
        let clause = &rest[start + 1..];
        if let Some(behind) = clause.strip_prefix('%') {
            rest = behind;
            continue;
        }
        if clause.is_empty() {
            return Err((None, "unexpected end of string".into()));
        }
        let Some(argument) = arguments.get(used) else {
            return Err((None, format!("index {used} out of range")));
        };
        used += 1;
        rest = check_clause(clause, &argument.value, types)?;
    }
    let given = arguments.len();
    if given > used {
        let message =
            format!("too many arguments supplied to string.format (expected {used}, got {given})");
        return Err((None, message));
    }
    Ok(())
}

/// Checks an argument against the clause at the start of a text. Returns the rest of the text.
fn check_clause<'f>(clause: &'f str, argument: &Expr, types: &[Type]) -> Result<&'f str, Problem> {
    let malformed = |problem: &str| {
        let message = format!("could not parse formatting clause: {problem}");
        (None, message)
    };
    let clause = without_precision(clause).map_err(|problem| malformed(&problem))?;
    let mut characters = clause.chars();
    let verb = characters.next().unwrap_or_default();
    let given = &types[argument.number];
    let accepts = |accepted: bool, who: &str| {
        let message = || {
            let given = runtime_name(given);
            format!("error during formatting: {who}, was given {given}")
        };
        match accepted || *given == Type::Dyn {
            true => Ok(()),
            false => Err((Some(argument.position), message())),
        }
    };
    let is_integer = matches!(given, Type::Int | Type::Uint);
    let is_decimal = matches!(given, Type::Double | Type::String);
    match verb {
        's' => check_string(argument, types)?,
        'd' => accepts(is_integer, "decimal clause can only be used on integers")?,
        'o' => accepts(is_integer, "octal clause can only be used on integers")?,
        'f' => accepts(is_decimal, "fixed-point clause can only be used on doubles")?,
        'e' => accepts(is_decimal, "scientific clause can only be used on doubles")?,
        'b' => accepts(
            is_integer || *given == Type::Bool,
            "only integers and bools can be formatted as binary",
        )?,
        'x' | 'X' => accepts(
            is_integer || matches!(given, Type::String | Type::Bytes),
            "only integers, byte buffers, and strings can be formatted as hex",
        )?,
        other => {
            let problem = format!("unrecognized formatting clause \"{other}\"");
            return Err(malformed(&problem));
        }
    }
    Ok(characters.as_str())
}

/// Returns what follows the precision at the start of a clause, such as `.2`.
fn without_precision(clause: &str) -> Result<&str, String> {
    let Some(precision) = clause.strip_prefix('.') else {
        return Ok(clause);
    };
    let behind = precision.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &precision[..precision.len() - behind.len()];
    let problem = match digits.parse::<i64>() {
        _ if behind.is_empty() => "could not find end of precision specifier".to_owned(),
        Ok(_) => return Ok(behind),
        Err(_) => {
            let what = if digits.is_empty() {
                "invalid syntax"
            } else {
                "value out of range"
            };
            format!(
                "error while converting precision to integer: strconv.Atoi: parsing \"{digits}\": {what}"
            )
        }
    };
    Err(format!("error while parsing precision: {problem}"))
}

/// Checks what is written as a string, and the parts of literals.
fn check_string(argument: &Expr, types: &[Type]) -> Result<(), Problem> {
    let given = &types[argument.number];
    let is_wrong = matches!(
        given,
        Type::Any | Type::Error | Type::Object(_) | Type::Opaque(..) | Type::Parameter(_)
    );
    if is_wrong {
        let given = runtime_name(given);
        let message = format!(
            "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given {given}"
        );
        return Err((Some(argument.position), message));
    }
    match &argument.kind {
        Kind::List(elements) => elements
            .iter()
            .try_for_each(|element| check_string(&element.value, types)),
        Kind::Map(entries) => entries.iter().try_for_each(|entry| {
            check_string(&entry.key, types)?;
            check_string(&entry.value, types)
        }),
        _ => Ok(()),
    }
}

/// Returns the name that the type of a value has when an expression is evaluated.
fn runtime_name(given: &Type) -> String {
    match given {
        Type::Null => "null_type".into(),
        Type::Duration => "google.protobuf.Duration".into(),
        Type::Timestamp => "google.protobuf.Timestamp".into(),
        Type::Any => "google.protobuf.Any".into(),
        Type::Wrapper(of) => runtime_name(of),
        other => {
            let text = other.to_string();
            text.split('(').next().unwrap_or_default().into()
        }
    }
}
