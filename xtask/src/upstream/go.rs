//! Splits Go sources into functions and other declarations.
//!
//! It relies on gofmt: a function begins with `func` in the first column, and ends with a brace in the first column or
//! on the same line.

use std::collections::BTreeMap;

/// A Go file.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// The functions with their doc comments, by name. A method's name is `(*T).m` or `T.m`, without type parameters.
    pub(super) functions: BTreeMap<String, String>,
    /// Everything else: imports, constants, variables and types.
    pub(super) declarations: String,
}

impl Source {
    pub(super) fn parse(text: &str) -> Self {
        let mut source = Self::default();
        let mut comment = String::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line.starts_with("//") {
                push_line(&mut comment, line);
                continue;
            }
            let comment = std::mem::take(&mut comment);
            let Some(name) = name(line) else {
                source.declare(&comment, line);
                continue;
            };
            // A file may have several functions `init`.
            let function = source.functions.entry(name).or_default();
            function.push_str(&comment);
            push_line(function, line);
            if !line.ends_with('}') {
                for line in lines.by_ref() {
                    push_line(function, line);
                    if line == "}" {
                        break;
                    }
                }
            }
        }
        source.declarations.push_str(&comment);
        source
    }

    /// Adds a line of other declarations. Consecutive blank lines become one, so that a function between two of them
    /// leaves no trace.
    fn declare(&mut self, comment: &str, line: &str) {
        self.declarations.push_str(comment);
        if !line.is_empty() || !self.declarations.ends_with("\n\n") {
            push_line(&mut self.declarations, line);
        }
    }

    /// Whether a function has this name, or a method of any type has it.
    pub(super) fn has_any(&self, name: &str) -> bool {
        self.functions
            .keys()
            .any(|key| key == name || method(key) == Some(name))
    }
}

/// The name of a method without its type; `None` for other functions.
pub(super) fn method(name: &str) -> Option<&str> {
    name.rsplit_once('.').map(|(_, method)| method)
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// The name of the function that begins on this line.
fn name(line: &str) -> Option<String> {
    let rest = line.strip_prefix("func ")?;
    let Some(method) = rest.strip_prefix('(') else {
        return Some(identifier(rest).to_owned());
    };
    let (receiver, rest) = method.split_once(')')?;
    let receiver = receiver.rsplit(' ').next()?;
    let name = identifier(rest.trim_start());
    Some(match receiver.strip_prefix('*') {
        Some(pointed) => format!("(*{}).{name}", identifier(pointed)),
        None => format!("{}.{name}", identifier(receiver)),
    })
}

/// The identifier at the beginning of a text.
fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"package sets

import "fmt"

// byAge sorts sets.
type byAge []*Set

func (o byAge) Len() int { return len(o) }

// Sync brings the set to its desired state. It is idempotent.
func (c *Controller[T]) Sync(
	key string,
) error {
	if key == "" {
		return fmt.Errorf("no key")
	}
	return nil
}

func New[T any](queue chan T) *Controller[T] {
	return nil
}

func init() {
	first()
}

func init() {
	second()
}

// A trailing comment.
"#;

    #[test]
    fn functions_and_methods_are_found_by_name() {
        let source = Source::parse(TEXT);
        let names: Vec<&str> = source.functions.keys().map(String::as_str).collect();
        assert_eq!(names, ["(*Controller).Sync", "New", "byAge.Len", "init"]);
    }

    #[test]
    fn a_function_has_its_doc_comment_and_its_whole_body() {
        let source = Source::parse(TEXT);
        let sync = &source.functions["(*Controller).Sync"];
        assert!(sync.starts_with("// Sync brings"), "{sync}");
        assert!(sync.ends_with("\treturn nil\n}\n"), "{sync}");
        assert_eq!(source.functions["byAge.Len"].lines().count(), 1);
    }

    #[test]
    fn functions_with_one_name_are_joined() {
        let init = &Source::parse(TEXT).functions["init"];
        assert!(init.contains("first()") && init.contains("second()"));
    }

    #[test]
    fn the_rest_of_a_file_is_its_declarations() {
        let rest = Source::parse(TEXT).declarations;
        assert!(rest.contains("// byAge sorts sets.\ntype byAge []*Set\n"));
        assert!(rest.ends_with("// A trailing comment.\n"));
        assert!(!rest.contains("func"), "{rest}");
    }

    #[test]
    fn declarations_do_not_depend_on_the_functions_between_them() {
        let with = "const a = 1\n\nfunc f() {\n}\n\n// b is next.\nconst b = 2\n";
        let without = "const a = 1\n\n// b is next.\nconst b = 2\n";
        assert_eq!(Source::parse(with).declarations, without);
        assert_eq!(Source::parse(without).declarations, without);
    }

    #[test]
    fn a_method_is_found_with_and_without_its_type() {
        let source = Source::parse(TEXT);
        for name in ["Len", "Sync", "New", "(*Controller).Sync"] {
            assert!(source.has_any(name), "{name}");
        }
        for name in ["len", "Controller", "c"] {
            assert!(!source.has_any(name), "{name}");
        }
    }
}
