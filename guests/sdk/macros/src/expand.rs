//! Generates the impls of a view.

use flyball_types::Filter;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use crate::tree::Tree;
use crate::view::{Field, View};

pub(crate) fn expand(view: &View) -> TokenStream {
    let View {
        name, kind, fields, ..
    } = view;
    let paths: Vec<&String> = fields.iter().map(|field| &field.path).collect();
    let is_narrowed = fields.iter().any(|field| field.narrowed.is_some());
    // Rows contain whole values, so a view that narrows a path can't be read from them.
    let columns = if is_narrowed { &[][..] } else { &paths };
    let read = fields.iter().flat_map(|field| match &field.narrowed {
        None => std::slice::from_ref(&field.path),
        Some(below) => below,
    });
    let count = fields.len();
    let has_filters = view.tree.has_filters();
    let tree = node(&view.tree);
    let arms = fields.iter().enumerate().map(fill);
    quote! {
        #[automatically_derived]
        const _: () = {
            use ::flyball_sdk::view::derive;

            impl ::flyball_sdk::view::View for #name {
                const KIND: &'static str = #kind;
                const FIELDS: &'static [&'static str] = &[#(#read),*];
                const COLUMNS: &'static [&'static str] = &[#(#columns),*];
            }

            impl derive::Slots for #name {
                const COUNT: usize = #count;
                const PATHS: &'static [&'static str] = &[#(#paths),*];
                const HAS_FILTERS: bool = #has_filters;
                const TREE: derive::Node = #tree;

                fn fill<'de, D: derive::Deserializer<'de>>(
                    &mut self,
                    slot: usize,
                    value: D,
                ) -> ::core::result::Result<(), D::Error> {
                    match slot {
                        #(#arms)*
                        _ => ::core::unreachable!(),
                    }
                    ::core::result::Result::Ok(())
                }
            }

            impl<'de> derive::Deserialize<'de> for #name {
                fn deserialize<D: derive::Deserializer<'de>>(
                    deserializer: D,
                ) -> ::core::result::Result<Self, D::Error> {
                    derive::collect(deserializer)
                }
            }
        };
    }
}

/// The match arm that fills a field. It has the span of the field's type, so that errors about the
/// type point there.
fn fill((slot, Field { name, ty, .. }): (usize, &Field)) -> TokenStream {
    let span = Span::call_site().located_at(ty.span());
    quote_spanned! {span=>
        #slot => self.#name = derive::value_or_default::<#ty, D>(value)?,
    }
}

fn node(tree: &Tree) -> TokenStream {
    match tree {
        Tree::Slot { slot, .. } => quote!(derive::Node::Slot(#slot)),
        Tree::Object(fields) => {
            let fields = fields.iter().map(|(name, below)| {
                let below = node(below);
                quote!((#name, #below))
            });
            quote!(derive::Node::Object(&[#(#fields),*]))
        }
        Tree::List(elements) => {
            let elements = elements.iter().map(|(Filter { field, value }, below)| {
                let below = node(below);
                quote!((#field, #value, #below))
            });
            quote!(derive::Node::List(&[#(#elements),*]))
        }
    }
}
