//! Prints types of custom resources as interfaces, for TypeScript, and for JavaScript with types in comments.

use std::fmt::Write as _;

use super::{HEADER, Record, Type, is_identifier};

/// Prints a module with an interface for each record.
pub(crate) fn print(records: &[Record]) -> String {
    let mut out = format!(
        "// {HEADER} from crd.yaml, and by each build. Change crd.yaml instead.\n\n\
         import type {{ KubernetesObject }} from \"@flyball/sdk\";\n"
    );
    for record in records {
        out.push('\n');
        push_doc(&mut out, "", &record.doc);
        let base = if record.is_resource {
            " extends KubernetesObject"
        } else {
            ""
        };
        push(
            &mut out,
            format_args!("export interface {}{base} {{\n", record.name),
        );
        for field in &record.fields {
            push_doc(&mut out, "  ", &field.doc);
            let name = match is_identifier(&field.name) {
                true => field.name.clone(),
                false => format!("{:?}", field.name),
            };
            let mark = if field.is_present { "" } else { "?" };
            let null = if field.is_nullable { " | null" } else { "" };
            push(
                &mut out,
                format_args!("  {name}{mark}: {}{null};\n", shown(&field.of)),
            );
        }
        if record.is_open {
            out.push_str("  [field: string]: any;\n");
        }
        out.push_str("}\n");
    }
    out
}

fn shown(of: &Type) -> String {
    match of {
        Type::Text => "string".into(),
        Type::Integer | Type::Number => "number".into(),
        Type::Boolean => "boolean".into(),
        Type::IntegerOrText => "number | string".into(),
        Type::Any => "any".into(),
        Type::OneOf(texts) => {
            let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
            quoted.join(" | ")
        }
        Type::List(items) => match &**items {
            Type::OneOf(_) | Type::IntegerOrText => format!("({})[]", shown(items)),
            items => format!("{}[]", shown(items)),
        },
        Type::Map(values) => format!("Record<string, {}>", shown(values)),
        Type::Record(name) => name.clone(),
    }
}

fn push_doc(out: &mut String, indent: &str, doc: &str) {
    let doc = doc.replace("*/", "*\u{200b}/");
    let lines: Vec<&str> = doc.trim().lines().collect();
    match lines[..] {
        [] => {}
        [line] => push(out, format_args!("{indent}/** {line} */\n")),
        _ => {
            push(out, format_args!("{indent}/**\n"));
            for line in lines {
                let line = format!("{indent} * {line}");
                push(out, format_args!("{}\n", line.trim_end()));
            }
            push(out, format_args!("{indent} */\n"));
        }
    }
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string");
}
