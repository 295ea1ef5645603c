//! Prints types of custom resources as typed dictionaries, for Python: objects stay the dicts that the SDK reads.

use std::fmt::Write as _;

use super::{HEADER, Record, Type, is_identifier};

/// Names that can't be those of attributes.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// Prints a module with a typed dictionary for each record.
pub(crate) fn print(records: &[Record]) -> String {
    let mut out = format!(
        "# {HEADER} from crd.yaml, and by each build. Change crd.yaml instead.\n\
         \"\"\"The types of the custom resources. At runtime, they are dicts.\"\"\"\n\n\
         from __future__ import annotations\n\n\
         from typing import TYPE_CHECKING, Any, Literal, TypedDict\n\n\
         if TYPE_CHECKING:\n    from typing_extensions import NotRequired\n"
    );
    // A record's fields refer to records before it.
    for record in records.iter().rev() {
        out.push_str("\n\n");
        let is_name = |name: &str| is_identifier(name) && !KEYWORDS.contains(&name);
        match record.fields.iter().all(|field| is_name(&field.name)) {
            true => push_class(&mut out, record),
            false => push_call(&mut out, record),
        }
    }
    out
}

fn push_class(out: &mut String, record: &Record) {
    push(out, format_args!("class {}(TypedDict):\n", record.name));
    let doc = record.doc.trim().replace('\\', "\\\\").replace('"', "'");
    if !doc.is_empty() {
        let doc = doc.replace('\n', "\n    ").replace("    \n", "\n");
        push(out, format_args!("    \"\"\"{doc}\"\"\"\n\n"));
    }
    if record.is_resource {
        out.push_str("    apiVersion: str\n    kind: str\n    metadata: dict[str, Any]\n");
    }
    for field in &record.fields {
        for line in field.doc.trim().lines() {
            let line = format!("    #: {line}");
            push(out, format_args!("{}\n", line.trim_end()));
        }
        let of = shown(&field.of, field.is_nullable, field.is_present);
        push(out, format_args!("    {}: {of}\n", field.name));
    }
    if record.fields.is_empty() && !record.is_resource && doc.is_empty() {
        out.push_str("    pass\n");
    }
}

/// The form for fields whose names are none in Python. Its types are quoted, because they are evaluated.
fn push_call(out: &mut String, record: &Record) {
    let name = &record.name;
    push(
        out,
        format_args!("{name} = TypedDict(\n    \"{name}\",\n    {{\n"),
    );
    if record.is_resource {
        out.push_str(
            "        \"apiVersion\": str,\n        \"kind\": str,\n        \"metadata\": \"dict[str, Any]\",\n",
        );
    }
    for field in &record.fields {
        let of = shown(&field.of, field.is_nullable, field.is_present).replace('"', "'");
        push(out, format_args!("        {:?}: \"{of}\",\n", field.name));
    }
    out.push_str("    },\n)\n");
}

fn shown(of: &Type, is_nullable: bool, is_present: bool) -> String {
    let mut text = typed(of);
    if is_nullable {
        text += " | None";
    }
    match is_present {
        true => text,
        false => format!("NotRequired[{text}]"),
    }
}

fn typed(of: &Type) -> String {
    match of {
        Type::Text => "str".into(),
        Type::Integer => "int".into(),
        Type::Number => "float".into(),
        Type::Boolean => "bool".into(),
        Type::IntegerOrText => "int | str".into(),
        Type::Any => "Any".into(),
        Type::OneOf(texts) => {
            let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
            format!("Literal[{}]", quoted.join(", "))
        }
        Type::List(items) => format!("list[{}]", typed(items)),
        Type::Map(values) => format!("dict[str, {}]", typed(values)),
        Type::Record(name) => name.clone(),
    }
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string");
}
