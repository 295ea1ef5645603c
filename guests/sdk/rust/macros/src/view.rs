//! Parses a struct and its `#[view(...)]` attributes, and checks its paths.

use flyball_types::{FieldPath, Kind, Step};
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Fields, Ident, LitInt, LitStr, Result, Type};

use crate::tree::Tree;

/// A struct that derives `View`.
pub(crate) struct View<'a> {
    pub(crate) name: &'a Ident,
    pub(crate) kind: String,
    /// The kind in earlier releases, after the minor number of the last one that has it.
    pub(crate) former: Vec<(u32, String)>,
    pub(crate) fields: Vec<Field<'a>>,
    /// The merged paths of all fields.
    pub(crate) tree: Tree,
}

/// A field of the struct and its path.
pub(crate) struct Field<'a> {
    pub(crate) name: &'a Ident,
    pub(crate) ty: &'a Type,
    pub(crate) path: String,
    /// Whether the path has a `[*]`, so that the field holds many values.
    pub(crate) is_many: bool,
    /// The full paths below `path` that are read, if the attribute has `fields`.
    pub(crate) narrowed: Option<Vec<String>>,
}

impl<'a> View<'a> {
    pub(crate) fn parse(input: &'a DeriveInput) -> Result<Self> {
        if !input.generics.params.is_empty() {
            return Err(Error::new(input.generics.span(), "a view can't be generic"));
        }
        let named = match &input.data {
            Data::Struct(data) => match &data.fields {
                Fields::Named(named) => &named.named,
                _ => return Err(no_named_fields(input)),
            },
            _ => return Err(no_named_fields(input)),
        };
        let (kind, former) = parse_kinds(input)?;
        let mut fields = Vec::new();
        let mut tree = Tree::default();
        for (slot, field) in named.iter().enumerate() {
            let name = field.ident.as_ref().expect("the field is named");
            let (path, narrowed) = parse_field(name, &field.attrs)?;
            let steps = parse_path(&path)?;
            tree.insert(&path, steps.steps(), slot)?;
            fields.push(Field {
                name,
                ty: &field.ty,
                path: path.value(),
                is_many: steps.steps().contains(&Step::Each),
                narrowed,
            });
        }
        Ok(Self {
            name: &input.ident,
            kind,
            former,
            fields,
            tree,
        })
    }
}

fn no_named_fields(input: &DeriveInput) -> Error {
    Error::new(
        input.ident.span(),
        "a view is a struct with named fields: each has its own path",
    )
}

/// Parses the kind and the former ones in the struct's `#[view(kind = "...", until(36, "..."))]`.
fn parse_kinds(input: &DeriveInput) -> Result<(String, Vec<(u32, String)>)> {
    let mut kind = None;
    let mut former = Vec::new();
    for attribute in view_attributes(&input.attrs) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("kind") {
                set_once(
                    &mut kind,
                    checked_kind(&meta.value()?.parse()?)?,
                    &meta.path,
                )
            } else if meta.path.is_ident("until") {
                let content;
                syn::parenthesized!(content in meta.input);
                let minor: LitInt = content.parse()?;
                content.parse::<syn::Token![,]>()?;
                former.push((minor.base10_parse()?, checked_kind(&content.parse()?)?));
                Ok(())
            } else {
                Err(meta.error("unknown attribute of a view; there are `kind` and `until`"))
            }
        })?;
    }
    let kind = kind.ok_or_else(|| {
        let message = "the view has no kind: add `#[view(kind = \"apps/v1/Deployment\")]`";
        Error::new(input.ident.span(), message)
    })?;
    Ok((kind, former))
}

fn checked_kind(literal: &LitStr) -> Result<String> {
    let parsed: std::result::Result<Kind, _> = literal.value().parse();
    parsed.map_err(|error| Error::new(literal.span(), error))?;
    Ok(literal.value())
}

/// Parses the path and the `fields(...)` of a field.
fn parse_field(name: &Ident, attributes: &[Attribute]) -> Result<(LitStr, Option<Vec<String>>)> {
    let mut path: Option<LitStr> = None;
    let mut below: Option<Vec<LitStr>> = None;
    for attribute in view_attributes(attributes) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("path") {
                set_once(&mut path, meta.value()?.parse()?, &meta.path)
            } else if meta.path.is_ident("fields") {
                let content;
                syn::parenthesized!(content in meta.input);
                let list = content
                    .parse_terminated(<LitStr as syn::parse::Parse>::parse, syn::Token![,])?;
                set_once(&mut below, list.into_iter().collect(), &meta.path)
            } else {
                Err(meta.error("unknown attribute of a field; there are `path` and `fields`"))
            }
        })?;
    }
    let path = path.ok_or_else(|| {
        let message = "the field has no path: add `#[view(path = \"spec.replicas\")]`";
        Error::new(name.span(), message)
    })?;
    let narrowed = below.map(|below| narrow(&path, &below)).transpose()?;
    Ok((path, narrowed))
}

/// Returns the full paths of fields below `path`.
fn narrow(path: &LitStr, below: &[LitStr]) -> Result<Vec<String>> {
    if below.is_empty() && path.value() != "metadata" {
        let message = "`fields()` reads nothing here; only of `metadata` the name, namespace, UID \
                       and resource version are always read";
        return Err(Error::new(path.span(), message));
    }
    let mut whole: Vec<String> = Vec::new();
    for literal in below {
        let below = literal.value();
        let _: FieldPath = parse_path(literal)?;
        let separator = if below.starts_with('[') { "" } else { "." };
        let joined = format!("{}{separator}{below}", path.value());
        if whole.contains(&joined) {
            return Err(Error::new(
                literal.span(),
                format!("`{below}` is named twice"),
            ));
        }
        whole.push(joined);
    }
    Ok(whole)
}

fn parse_path(literal: &LitStr) -> Result<FieldPath> {
    let path: FieldPath = literal
        .value()
        .parse()
        .map_err(|error| Error::new(literal.span(), error))?;
    if path.steps().is_empty() {
        let message = "a view has no field for the whole object: name the paths that it reads";
        return Err(Error::new(literal.span(), message));
    }
    Ok(path)
}

fn view_attributes(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("view"))
}

fn set_once<T>(place: &mut Option<T>, value: T, name: &syn::Path) -> Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::new(name.span(), "the attribute is given twice")),
    }
}
