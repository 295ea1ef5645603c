//! The texts in the source of a guest: its string literals that read like a message or a reason.
//!
//! Which of them reach an event, a condition or a status can't be told without following values through the code, so
//! all of them count, except those in places from which nothing reaches the API server (see [`Literals`]).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use serde::Deserialize;
use syn::visit::{self, Visit};

/// Macros whose texts end in the log, or in a panic.
const LOGGED: [&str; 12] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "debug",
    "debug_assert",
    "error",
    "info",
    "panic",
    "trace",
    "unreachable",
    "warn",
    "write",
];
/// Functions whose first argument is only for the log: errors that end a reconcile, and the reasons why something can't
/// happen.
const ERRORS: [&str; 9] = [
    "config",
    "doing",
    "expect",
    "feature_enabled",
    "invalid_config",
    "malformed",
    "metric",
    "setting",
    "terminal",
];
/// Constants with the keys of the configuration and their descriptions.
const SETTINGS: &str = "KEYS";

/// Returns the texts in the source of a crate, without its tests. Placeholders are as they are written.
///
/// # Panics
/// A file can't be read or parsed.
pub fn in_crate(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in sources(&folder.join("src")) {
        let source = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("can't read {}: {error}", path.display()));
        found.extend(
            in_source(&source)
                .unwrap_or_else(|error| panic!("can't parse {}: {error}", path.display())),
        );
    }
    found
}

/// Returns the texts in the source of a file.
///
/// # Errors
/// It is not Rust.
pub fn in_source(source: &str) -> syn::Result<BTreeSet<String>> {
    let mut literals = Literals::default();
    literals.visit_file(&syn::parse_file(source)?);
    Ok(literals.found)
}

/// The source files in a folder, without tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("can't read {}: {error}", folder.display()));
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.expect("an entry of a folder").path()) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        match stem == "tests" || stem.ends_with("_tests") {
            true => {}
            false if path.is_dir() => found.extend(sources(&path)),
            false if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            false => {}
        }
    }
    found
}

/// Collects literals. It leaves out tests, attributes with their docs, macros that log or panic, the descriptions of
/// settings and of metrics, and errors that end a reconcile.
#[derive(Default)]
struct Literals {
    found: BTreeSet<String>,
}

impl Literals {
    fn note(&mut self, text: &str) {
        if is_message(text) || is_reason(text) {
            self.found.insert(text.to_owned());
        }
    }

    fn note_tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.note_tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    if let syn::Lit::Str(text) = syn::Lit::new(literal) {
                        self.note(&text.value());
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }
}

impl<'a> Visit<'a> for Literals {
    fn visit_attribute(&mut self, _: &'a syn::Attribute) {}

    fn visit_item(&mut self, item: &'a syn::Item) {
        let attributes = match item {
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Const(item) if item.ident == SETTINGS => return,
            _ => return visit::visit_item(self, item),
        };
        let is_test = |attribute: &syn::Attribute| {
            let is_test = attribute
                .parse_args::<syn::Ident>()
                .is_ok_and(|name| name == "test");
            attribute.path().is_ident("cfg") && is_test
        };
        if !attributes.iter().any(is_test) {
            visit::visit_item(self, item);
        }
    }

    fn visit_macro(&mut self, called: &'a syn::Macro) {
        if !LOGGED.contains(&&*last_name(&called.path)) {
            self.note_tokens(called.tokens.clone());
        }
    }

    fn visit_expr_call(&mut self, call: &'a syn::ExprCall) {
        let syn::Expr::Path(function) = &*call.func else {
            return visit::visit_expr_call(self, call);
        };
        if !ERRORS.contains(&&*last_name(&function.path)) {
            visit::visit_expr_call(self, call);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        if ERRORS.contains(&&*call.method.to_string()) {
            self.visit_expr(&call.receiver);
        } else {
            visit::visit_expr_method_call(self, call);
        }
    }

    fn visit_lit_str(&mut self, literal: &'a syn::LitStr) {
        self.note(&literal.value());
    }
}

/// The last name in a path: `info` of `flyball_sdk::info`.
fn last_name(path: &syn::Path) -> String {
    let last = path.segments.last();
    last.map(|segment| segment.ident.to_string())
        .unwrap_or_default()
}

/// Whether a literal reads like a message: it has several words.
fn is_message(text: &str) -> bool {
    text.trim().contains(' ') && letters(text) >= 3
}

/// The number of letters outside of placeholders.
fn letters(text: &str) -> usize {
    let parts = parts(text);
    let letters = parts.iter().flat_map(|part| part.chars());
    letters
        .filter(|character| character.is_alphabetic())
        .count()
}

/// Whether a literal reads like a reason: one word that begins with a capital letter.
fn is_reason(text: &str) -> bool {
    let word = parts(text).concat();
    text.starts_with(|first: char| first.is_ascii_uppercase())
        && word
            .chars()
            .all(|character| character.is_ascii_alphanumeric())
        && word.chars().any(|character| character.is_ascii_lowercase())
}

/// The parts of a format string between its placeholders.
pub fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let is_doubled = characters.peek() == Some(&character);
        match character {
            '{' if !is_doubled => {
                while characters.next().is_some_and(|character| character != '}') {}
                parts.push(String::new());
            }
            '{' | '}' if is_doubled => {
                characters.next();
                parts.last_mut().expect("at least one part").push(character);
            }
            other => parts.last_mut().expect("at least one part").push(other),
        }
    }
    parts
}

/// Whether a text is this format string filled in. It may be a part of the text if it isn't a reason, because messages are
/// composed.
pub fn is_of(text: &str, pattern: &str) -> bool {
    let parts = parts(pattern);
    let is_whole = is_reason(pattern);
    let mut rest = text;
    for (index, part) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        let at = match (is_whole, index, is_last) {
            (true, 0, _) => rest.starts_with(part.as_str()).then_some(0),
            (true, _, true) => rest
                .ends_with(part.as_str())
                .then(|| rest.len() - part.len()),
            _ => rest.find(part.as_str()),
        };
        match at {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    !is_whole || rest.is_empty()
}

/// Replaces numbers by `N`, as in the texts of stock.
pub fn mask(text: &str) -> String {
    let mut masked = String::new();
    for character in text.chars() {
        match character {
            '0'..='9' if masked.ends_with('N') => {}
            '0'..='9' => masked.push('N'),
            other => masked.push(other),
        }
    }
    masked
}

/// The texts of a guest that stock writes in no scenario: `texts.toml` in its folder.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    #[serde(rename = "without-golden")]
    groups: Vec<Group>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    /// Why no golden has these texts.
    reason: String,
    texts: BTreeSet<String>,
}

impl Listed {
    /// # Errors
    /// The text is not such a list.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }
}

/// Compares the texts of a guest with those of stock, whose numbers are masked, and with the list. Returns what is wrong.
pub fn problems(
    texts: &BTreeSet<String>,
    stock: &BTreeSet<String>,
    listed: &Listed,
) -> Vec<String> {
    let mut problems = Vec::new();
    let mut all = BTreeSet::new();
    for group in &listed.groups {
        if group.reason.split_whitespace().count() < 3 {
            problems.push(format!(
                "the reason {:?} in texts.toml is no reason",
                group.reason
            ));
        }
        all.extend(&group.texts);
    }
    for text in texts {
        let pattern = mask(text);
        let is_of_stock = stock.iter().any(|one| is_of(one, &pattern));
        match (is_of_stock, all.contains(text)) {
            (false, false) => problems.push(format!(
                "stock never wrote {text:?}: play a scenario in which it does, or list the text in texts.toml with the \
                 reason why that can't be"
            )),
            (true, true) => problems.push(format!("stock wrote {text:?}: remove it from texts.toml")),
            (true, false) | (false, true) => {}
        }
    }
    let unused = all.into_iter().filter(|text| !texts.contains(*text));
    problems.extend(
        unused.map(|text| format!("the source has no {text:?}: remove it from texts.toml")),
    );
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(texts: &[&str]) -> BTreeSet<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn texts_are_found_wherever_they_can_reach_the_api_server() {
        let source = r#"
            //! The module says something.
            const REASON: &str = "TooManyPods";
            /// The docs say something.
            fn notify(host: &Host) {
                info!(host, "this is only logged");
                let message = format!("Created pod: {}", name("left pod"));
                host.emit(Event::normal(about, "SuccessfulCreate", &message)).expect("the host is there");
                json!({"reason": "Down", "message": "It is down."});
                read().doing(|| format!("reading it"))?;
                match x { Some("it failed") => {} }
            }
            #[cfg(test)]
            mod tests { const TEXT: &str = "this is a test"; }
        "#;
        let expected = set(&[
            "Created pod: {}",
            "Down",
            "It is down.",
            "SuccessfulCreate",
            "TooManyPods",
            "it failed",
            "left pod",
        ]);
        assert_eq!(in_source(source).unwrap(), expected);
    }

    #[test]
    fn a_format_string_matches_its_texts() {
        for (pattern, text, expected) in [
            ("Created pod: {}", "Created pod: web-*", true),
            ("Created pods: {}", "Created pod: web-*", false),
            (
                "is progressing.",
                "ReplicaSet \"web\" is progressing.",
                true,
            ),
            ("{} of {}", "N of N", true),
            ("braces {{x}} stay", "braces {x} stay", true),
            ("Failed{verb}", "FailedCreate", true),
            ("Failed{verb}", "HasFailedCreate", false),
            ("Failed", "FailedCreate", false),
        ] {
            assert_eq!(is_of(text, pattern), expected, "{pattern:?} and {text:?}");
        }
    }

    #[test]
    fn a_new_text_a_stale_entry_and_an_unused_one_are_problems() {
        let listed = Listed::parse(
            "[[without-golden]]\nreason = \"Only a broken node does that.\"\ntexts = [\"it is listed\", \"it was written\", \"it is unused\"]",
        );
        let texts = set(&[
            "it is new",
            "it is listed",
            "it was written",
            "the number {}",
        ]);
        let stock = set(&["it was written", "the number N"]);
        let problems = problems(&texts, &stock, &listed.unwrap());
        let starts = [
            "stock never wrote \"it is new\"",
            "stock wrote \"it was written\"",
            "the source has no \"it is unused\"",
        ];
        assert_eq!(problems.len(), starts.len(), "{problems:?}");
        for (problem, start) in problems.iter().zip(starts) {
            assert!(problem.starts_with(start), "{problem}");
        }
    }

    #[test]
    fn an_entry_needs_a_reason() {
        let listed = Listed::parse("[[without-golden]]\nreason = \"none\"\ntexts = []").unwrap();
        assert_eq!(problems(&set(&[]), &set(&[]), &listed).len(), 1);
    }
}
