//! The page of the world, `docs/world.md`, is generated from the comments in `wit/`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use wit_parser::{
    Docs, Function, FunctionKind, Handle, Interface, InterfaceId, Resolve, Type, TypeDef,
    TypeDefKind, TypeId, TypeOwner, WorldItem,
};

const INTRODUCTION: &str = "# The world\n\n\
    Every plugin is compiled against one world, the WIT package in `wit/`. This page is that package with its comments, interface\n\
    by interface. The SDKs wrap it in each language's own way; you need this page if you write an SDK, use a language without one,\n\
    or wonder what exactly a function promises. It is generated from `wit/`: `BLESS=1 cargo test --workspace --test world`\n\
    writes it.\n";

#[test]
fn the_page_of_the_world_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = page(&root.join("wit"));
    assert!(page.matches("\n### ").count() > 50, "{page}");
    let path: PathBuf = root.join("docs/world.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &page).expect("it is written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/world.md is out of date: BLESS=1 writes it"
    );
}

fn page(wit: &Path) -> String {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit).expect("the world is valid");
    let package = &resolve.packages[package];
    let world = &resolve.worlds[package.worlds["controller"]];
    let of = |items: &mut dyn Iterator<Item = &WorldItem>| -> Vec<InterfaceId> {
        items
            .filter_map(|item| match item {
                WorldItem::Interface { id, .. } => Some(*id),
                _ => None,
            })
            .collect()
    };
    let (imports, exports) = (
        of(&mut world.imports.values()),
        of(&mut world.exports.values()),
    );
    let mut page = INTRODUCTION.to_owned();
    writeln!(page, "\n## `{}`\n", package.name).expect("a string");
    prose(&mut page, &world.docs);
    let (exported, imported) = ("A plugin exports", "The host offers");
    for (what, ids) in [(imported, &imports), (exported, &exports)] {
        let names: Vec<String> = ids
            .iter()
            .filter_map(|id| resolve.interfaces[*id].name.as_ref())
            .map(|name| format!("[`{name}`](#interface-{name})"))
            .collect();
        writeln!(page, "{what}: {}.\n", names.join(", ")).expect("a string");
    }
    for id in exports.into_iter().chain(imports) {
        interface(&mut page, &resolve, id);
    }
    page.trim_end().to_owned() + "\n"
}

fn interface(page: &mut String, resolve: &Resolve, id: InterfaceId) {
    let found: &Interface = &resolve.interfaces[id];
    let name = found.name.as_deref().expect("each interface has a name");
    writeln!(page, "## Interface `{name}`\n").expect("a string");
    prose(page, &found.docs);
    for (name, type_id) in &found.types {
        let definition = &resolve.types[*type_id];
        if is_imported(resolve, definition, id) {
            continue;
        }
        item(
            page,
            name,
            &declaration(resolve, name, definition),
            &definition.docs,
        );
        let methods = found
            .functions
            .values()
            .filter(|function| resource_of(function) == Some(*type_id));
        for function in methods {
            function_item(page, resolve, function, &format!("{name}."));
        }
    }
    let free = found
        .functions
        .values()
        .filter(|function| resource_of(function).is_none());
    for function in free {
        function_item(page, resolve, function, "");
    }
}

/// Whether the type is one that the interface uses of another one.
fn is_imported(resolve: &Resolve, definition: &TypeDef, id: InterfaceId) -> bool {
    match definition.kind {
        TypeDefKind::Type(Type::Id(other)) => {
            resolve.types[other].owner != TypeOwner::Interface(id)
        }
        _ => false,
    }
}

fn resource_of(function: &Function) -> Option<TypeId> {
    match function.kind {
        FunctionKind::Method(id) | FunctionKind::Static(id) | FunctionKind::Constructor(id) => {
            Some(id)
        }
        _ => None,
    }
}

fn function_item(page: &mut String, resolve: &Resolve, function: &Function, prefix: &str) {
    let is_method = matches!(function.kind, FunctionKind::Method(_));
    let is_constructor = matches!(function.kind, FunctionKind::Constructor(_));
    let parameters: Vec<String> = function
        .params
        .iter()
        .skip(usize::from(is_method))
        .map(|parameter| format!("{}: {}", parameter.name, type_text(resolve, &parameter.ty)))
        .collect();
    let result = match &function.result {
        Some(result) if !is_constructor => format!(" -> {}", type_text(resolve, result)),
        _ => String::new(),
    };
    let name = if is_constructor {
        "constructor"
    } else {
        function.item_name()
    };
    let signature = format!("{name}: func({}){result}", parameters.join(", "));
    item(page, &format!("{prefix}{name}"), &signature, &function.docs);
}

fn item(page: &mut String, name: &str, code: &str, docs: &Docs) {
    writeln!(page, "### `{name}`\n\n```wit\n{code}\n```\n").expect("a string");
    prose(page, docs);
}

fn prose(page: &mut String, docs: &Docs) {
    if let Some(text) = &docs.contents {
        writeln!(page, "{}\n", text.trim_end()).expect("a string");
    }
}

/// The declaration of a type, with the comments of its parts.
fn declaration(resolve: &Resolve, name: &str, definition: &TypeDef) -> String {
    let part = |docs: &Docs, text: String| {
        let comment: String = docs
            .contents
            .iter()
            .flat_map(|text| text.trim_end().lines())
            .map(|line| format!("    /// {line}").trim_end().to_owned() + "\n")
            .collect();
        format!("{comment}    {text},\n")
    };
    let with = |name: &str, inner: &Option<Type>| match inner {
        Some(inner) => format!("{name}({})", type_text(resolve, inner)),
        None => name.to_owned(),
    };
    let parts: String = match &definition.kind {
        TypeDefKind::Record(record) => record
            .fields
            .iter()
            .map(|field| {
                part(
                    &field.docs,
                    format!("{}: {}", field.name, type_text(resolve, &field.ty)),
                )
            })
            .collect(),
        TypeDefKind::Variant(variant) => variant
            .cases
            .iter()
            .map(|case| part(&case.docs, with(&case.name, &case.ty)))
            .collect(),
        TypeDefKind::Enum(cases) => cases
            .cases
            .iter()
            .map(|case| part(&case.docs, case.name.clone()))
            .collect(),
        TypeDefKind::Flags(flags) => flags
            .flags
            .iter()
            .map(|flag| part(&flag.docs, flag.name.clone()))
            .collect(),
        TypeDefKind::Resource => return format!("resource {name}"),
        _ => return format!("type {name} = {}", definition_text(resolve, definition)),
    };
    format!("{} {name} {{\n{parts}}}", definition.kind.as_str())
}

fn type_text(resolve: &Resolve, found: &Type) -> String {
    match found {
        Type::Id(id) => {
            let definition = &resolve.types[*id];
            match &definition.name {
                Some(name) => name.clone(),
                None => definition_text(resolve, definition),
            }
        }
        Type::String => "string".into(),
        primitive => format!("{primitive:?}").to_lowercase(),
    }
}

/// The text of a type without a name.
fn definition_text(resolve: &Resolve, definition: &TypeDef) -> String {
    let text = |found: &Type| type_text(resolve, found);
    let maybe = |found: &Option<Type>| found.as_ref().map_or("_".to_owned(), text);
    match &definition.kind {
        TypeDefKind::List(inner) => format!("list<{}>", text(inner)),
        TypeDefKind::Option(inner) => format!("option<{}>", text(inner)),
        TypeDefKind::Result(result) => match (&result.ok, &result.err) {
            (None, None) => "result".into(),
            (ok, None) => format!("result<{}>", maybe(ok)),
            (ok, err) => format!("result<{}, {}>", maybe(ok), maybe(err)),
        },
        TypeDefKind::Tuple(tuple) => {
            let all: Vec<String> = tuple.types.iter().map(text).collect();
            format!("tuple<{}>", all.join(", "))
        }
        TypeDefKind::Handle(Handle::Own(id)) => text(&Type::Id(*id)),
        TypeDefKind::Handle(Handle::Borrow(id)) => format!("borrow<{}>", text(&Type::Id(*id))),
        TypeDefKind::Type(inner) => text(inner),
        kind => panic!("the page has no text for a {}", kind.as_str()),
    }
}
