//! The errors of Kubernetes for malformed label selectors.
//!
//! Upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go: Parse, NewRequirement.
//! Upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go: LabelSelectorAsSelector, ParseToLabelSelector.
//! Upstream: staging/src/k8s.io/apimachinery/pkg/api/validate/content/kube.go: IsLabelKey, IsLabelValue.

use std::collections::BTreeSet;

use flyball_sdk::Raw;

use crate::Fields;

const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];
const SYMBOLS: [char; 7] = ['=', '!', '(', ')', ',', '>', '<'];
/// The maximum length of the name of a label, and of its value, in bytes.
const MAX_LENGTH: usize = 63;
/// The maximum length of the prefix of a label's key, in bytes.
const MAX_PREFIX: usize = 253;

/// Returns the error with which Kubernetes refuses to convert the text of a selector to a LabelSelector; `None` if it
/// converts it.
pub fn selector_error(selector: &str) -> Option<String> {
    let mut parser = Parser {
        items: items(selector),
        next: 0,
        operators: Vec::new(),
    };
    if let Err(error) = parser.selector() {
        return Some(format!(
            "couldn't parse the selector string \"{selector}\": {error}"
        ));
    }
    // Requirements are converted in the order of their keys.
    parser.operators.sort_by_key(|(key, _)| *key);
    let mut operators = parser.operators.iter().map(|(_, operator)| *operator);
    operators.find_map(|operator| match operator {
        "!=" => Some(r#""!=" is not a valid label selector operator"#.to_owned()),
        ">" => Some(r#""gt" isn't supported in label selectors"#.to_owned()),
        "<" => Some(r#""lt" isn't supported in label selectors"#.to_owned()),
        _ => None,
    })
}

/// Returns the error with which Kubernetes refuses a LabelSelector; `None` if it is valid or null.
pub fn label_selector_error(selector: &Raw) -> Option<String> {
    let Fields {
        match_labels,
        match_expressions,
    } = selector.parse().ok()??;
    let labels = match_labels
        .iter()
        .map(|(key, value)| check(key, Operator::Equality, &[value]));
    let expressions = match_expressions.iter().map(|expression| {
        let operator = match expression.operator.as_str() {
            "In" | "NotIn" => Operator::OneOf,
            "Exists" | "DoesNotExist" => Operator::Existence,
            other => return Err(format!("{other:?} is not a valid label selector operator")),
        };
        let values: Vec<&str> = expression.values.iter().map(String::as_str).collect();
        check(&expression.key, operator, &values)
    });
    labels.chain(expressions).find_map(Result::err)
}

/// An operator, as far as the rules for its values differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    OneOf,
    Existence,
    Equality,
    Comparison,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Word,
    In,
    NotIn,
    Open,
    Close,
    Comma,
    Not,
    Equality,
    Comparison,
    End,
}

/// A token and its text.
type Item<'a> = (Token, &'a str);

fn items(mut rest: &str) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    loop {
        rest = rest.trim_start_matches(BLANKS);
        let length = if rest.is_empty() {
            items.push((Token::End, ""));
            return items;
        } else if rest.starts_with("==") || rest.starts_with("!=") {
            2
        } else if rest.starts_with(SYMBOLS) {
            1
        } else {
            rest.find(|c| SYMBOLS.contains(&c) || BLANKS.contains(&c))
                .unwrap_or(rest.len())
        };
        let (text, after) = rest.split_at(length);
        let token = match text {
            "in" => Token::In,
            "notin" => Token::NotIn,
            "(" => Token::Open,
            ")" => Token::Close,
            "," => Token::Comma,
            "!" => Token::Not,
            "=" | "==" | "!=" => Token::Equality,
            ">" | "<" => Token::Comparison,
            _ => Token::Word,
        };
        items.push((token, text));
        rest = after;
    }
}

struct Parser<'a> {
    items: Vec<Item<'a>>,
    /// The index of the next item. The last item is read again and again.
    next: usize,
    /// The keys and operators of the requirements with two operands.
    operators: Vec<(&'a str, &'a str)>,
}

impl<'a> Parser<'a> {
    fn operator(&mut self) -> Item<'a> {
        let item = self.items[self.next];
        self.next = (self.next + 1).min(self.items.len() - 1);
        item
    }

    /// The next item where no operator is expected. There, `in` and `notin` are words.
    fn peek(&self) -> Item<'a> {
        match self.items[self.next] {
            (Token::In | Token::NotIn, text) => (Token::Word, text),
            item => item,
        }
    }

    fn take(&mut self) -> Item<'a> {
        let item = self.peek();
        self.operator();
        item
    }

    fn selector(&mut self) -> Result<(), String> {
        loop {
            match self.peek() {
                (Token::Word | Token::Not, _) => {}
                (Token::End, _) => return Ok(()),
                (_, text) => {
                    return Err(format!(
                        "found '{text}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
            self.requirement()
                .map_err(|error| format!("unable to parse requirement: {error}"))?;
            match self.take() {
                (Token::End, _) => return Ok(()),
                (Token::Comma, _) => {}
                (_, text) => {
                    return Err(format!("found '{text}', expected: ',' or 'end of string'"));
                }
            }
            let (token, text) = self.peek();
            if !matches!(token, Token::Word | Token::Not) {
                return Err(format!("found '{text}', expected: identifier after ','"));
            }
        }
    }

    fn requirement(&mut self) -> Result<(), String> {
        let (mut token, mut key) = self.take();
        let is_negated = token == Token::Not;
        if is_negated {
            (token, key) = self.take();
        }
        if token != Token::Word {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let problems = key_problems(key);
        if !problems.is_empty() {
            let problems = problems.join("; ");
            return Err(format!("<nil>: Invalid value: {key:?}: {problems}"));
        }
        if is_negated || matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok(());
        }
        let (operator, text) = self.operator();
        let (operator, values) = match operator {
            Token::In | Token::NotIn => (Operator::OneOf, self.values()?),
            Token::Equality => (Operator::Equality, self.value()?),
            Token::Comparison => (Operator::Comparison, self.value()?),
            _ => {
                return Err(format!(
                    "found '{text}', expected: in, notin, =, ==, !=, gt, lt"
                ));
            }
        };
        self.operators.push((key, text));
        check(key, operator, &Vec::from_iter(values))
    }

    fn value(&mut self) -> Result<BTreeSet<&'a str>, String> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok([""].into());
        }
        match self.take() {
            (Token::Word, value) => Ok([value].into()),
            (_, text) => Err(format!("found '{text}', expected: identifier")),
        }
    }

    fn values(&mut self) -> Result<BTreeSet<&'a str>, String> {
        match self.take() {
            (Token::Open, _) => {}
            (_, text) => return Err(format!("found '{text}' expected: '('")),
        }
        let mut values = BTreeSet::new();
        match self.peek() {
            (Token::Word | Token::Comma, _) => {}
            (Token::Close, _) => {
                self.take();
                return Ok([""].into());
            }
            (_, text) => return Err(format!("found '{text}', expected: ',', ')' or identifier")),
        }
        loop {
            let (token, text) = self.take();
            let (next, after) = self.peek();
            match (token, next) {
                (Token::Word, Token::Comma | Token::Close) => drop(values.insert(text)),
                (Token::Word, _) => return Err(format!("found '{after}', expected: ',' or ')'")),
                (Token::Comma, _) => {
                    if values.is_empty() || matches!(next, Token::Comma | Token::Close) {
                        values.insert("");
                    }
                }
                _ => return Err(format!("found '{text}', expected: ',', or identifier")),
            }
            if next == Token::Close {
                self.take();
                return Ok(values);
            }
        }
    }
}

/// Checks a requirement of a selector.
///
/// # Errors
/// The key or a value is invalid, or the values don't fit the operator.
fn check(key: &str, operator: Operator, values: &[&str]) -> Result<(), String> {
    let mut errors = Vec::new();
    let mut add = |field: &str, value: &str, problems: &[String]| {
        if !problems.is_empty() {
            let problems = problems.join("; ");
            errors.push(format!("{field}: Invalid value: {value}: {problems}"));
        }
    };
    add("key", &format!("{key:?}"), &key_problems(key));
    let problem = match operator {
        Operator::OneOf if values.is_empty() => Some((
            "null".to_owned(),
            "for 'in', 'notin' operators, values set can't be empty",
        )),
        Operator::Existence if !values.is_empty() => {
            let values: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
            let problem = "values set must be empty for exists and does not exist";
            Some((format!("[{}]", values.join(",")), problem))
        }
        _ => None,
    };
    if let Some((values, problem)) = problem {
        add("values", &values, &[problem.to_owned()]);
    }
    for (index, value) in values.iter().enumerate() {
        if operator == Operator::Comparison && value.parse::<i64>().is_err() {
            let problem = "for 'Gt', 'Lt' operators, the value must be an integer";
            add(
                &format!("values[{index}]"),
                &format!("{value:?}"),
                &[problem.to_owned()],
            );
        }
    }
    for (index, value) in values.iter().enumerate() {
        let field = format!("values[{index}][{key}]");
        add(&field, &format!("{value:?}"), &value_problems(value));
    }
    match &errors[..] {
        [] => Ok(()),
        [only] => Err(only.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

/// The rule for the name of a label, with examples.
const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                         alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                         validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
/// The rule for the value of a label, with examples.
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
                          '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
                          'my_value',  or '12345', regex used for validation is \
                          '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
/// The rule for the prefix of a label's key, with an example.
const PREFIX_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
                           '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex \
                           used for validation is \
                           '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

fn key_problems(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > MAX_PREFIX {
                    problems.push(format!(
                        "prefix part must be no more than {MAX_PREFIX} bytes"
                    ));
                }
                if !is_subdomain(prefix) {
                    problems.push(format!("prefix part {PREFIX_RULE}"));
                }
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_LENGTH {
        problems.push(format!("name part must be no more than {MAX_LENGTH} bytes"));
    }
    if !is_name(name) {
        problems.push(format!("name part {NAME_RULE}"));
    }
    problems
}

fn value_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > MAX_LENGTH {
        problems.push(format!("must be no more than {MAX_LENGTH} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        problems.push(VALUE_RULE.to_owned());
    }
    problems
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c))
}

fn is_subdomain(text: &str) -> bool {
    let is_safe = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.split('.').all(|part| {
        part.starts_with(is_safe)
            && part.ends_with(is_safe)
            && part.chars().all(|c| is_safe(c) || c == '-')
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn valid_selectors_have_no_error() {
        for selector in [
            "",
            " ",
            "a",
            "!a",
            "a=",
            "a=b,c=d",
            "a==b",
            "a in (b,,c)",
            "a in ()",
            "a in (,)",
            "in in (in)",
            "a.b/c notin (d)",
        ] {
            assert_eq!(selector_error(selector), None, "{selector}");
        }
    }

    #[test]
    fn a_malformed_selector_has_the_error_of_kubernetes() {
        for (selector, error) in [
            (
                ",",
                "found ',', expected: !, identifier, or 'end of string'",
            ),
            ("a,", "found '', expected: identifier after ','"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            (
                "!",
                "unable to parse requirement: found '', expected: identifier",
            ),
            (
                "a is b",
                "unable to parse requirement: found 'is', expected: in, notin, =, ==, !=, gt, lt",
            ),
            (
                "a in b",
                "unable to parse requirement: found 'b' expected: '('",
            ),
            (
                "a in (b",
                "unable to parse requirement: found '', expected: ',' or ')'",
            ),
            (
                "a in (",
                "unable to parse requirement: found '', expected: ',', ')' or identifier",
            ),
            (
                "a in (b,",
                "unable to parse requirement: found '', expected: ',', or identifier",
            ),
            (
                "a>b",
                "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ] {
            let error = format!("couldn't parse the selector string \"{selector}\": {error}");
            assert_eq!(selector_error(selector), Some(error));
        }
    }

    #[test]
    fn some_operators_are_not_those_of_a_label_selector() {
        for (selector, error) in [
            ("a!=b", r#""!=" is not a valid label selector operator"#),
            ("b!=c,a>5", r#""gt" isn't supported in label selectors"#),
            ("a<1", r#""lt" isn't supported in label selectors"#),
        ] {
            assert_eq!(selector_error(selector).as_deref(), Some(error));
        }
    }

    #[test]
    fn invalid_keys_and_values_are_explained() {
        let error = selector_error("-a").unwrap_or_default();
        assert!(
            error.contains("unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of"),
            "{error}"
        );
        let error = selector_error("a in (b-,c-)").unwrap_or_default();
        assert!(
            error.contains("unable to parse requirement: [values[0][a]: Invalid value: \"b-\": a valid label must be"),
            "{error}"
        );
        let error = selector_error("A./b").unwrap_or_default();
        assert!(
            error.contains("\"A./b\": prefix part a lowercase RFC 1123 subdomain must consist of"),
            "{error}"
        );
    }

    #[test]
    fn an_invalid_label_selector_is_explained() {
        let error = |selector: Value| label_selector_error(&Raw::from(selector));
        let of = |expression: Value| error(json!({"matchExpressions": [expression]}));
        assert_eq!(error(Value::Null), None);
        assert_eq!(error(json!({"matchLabels": {"a": "b"}})), None);
        assert_eq!(
            of(json!({"key": "a", "operator": "In", "values": ["b"]})),
            None
        );
        assert_eq!(
            of(json!({"key": "a", "operator": "Like"})).as_deref(),
            Some("\"Like\" is not a valid label selector operator")
        );
        assert_eq!(
            of(json!({"key": "a", "operator": "In"})).as_deref(),
            Some(
                "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
            )
        );
        assert_eq!(
            of(json!({"key": "a", "operator": "Exists", "values": ["b", "c"]})).as_deref(),
            Some(
                "values: Invalid value: [\"b\",\"c\"]: values set must be empty for exists and does not exist"
            )
        );
        let long = of(json!({"key": "a", "operator": "In", "values": ["x".repeat(64)]}));
        assert_eq!(
            long.unwrap_or_default().split(": ").last(),
            Some("must be no more than 63 bytes")
        );
    }
}
