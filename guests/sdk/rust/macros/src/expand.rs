//! Generates the impls of a view.

use flyball_types::Filter;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use crate::tree::Tree;
use crate::view::{Field, View};

pub(crate) fn expand(view: &View) -> TokenStream {
    let View {
        name,
        kind,
        former,
        fields,
        ..
    } = view;
    let former = former.iter().map(|(minor, kind)| quote!((#minor, #kind)));
    let former: Vec<TokenStream> = former.collect();
    let paths: Vec<&String> = fields.iter().map(|field| &field.path).collect();
    let is_narrowed = fields.iter().any(|field| field.narrowed.is_some());
    // Rows contain whole values, so a view that narrows a path can't be read from them.
    let columns = if is_narrowed { &[][..] } else { &paths };
    let read = fields.iter().flat_map(|field| match &field.narrowed {
        None => std::slice::from_ref(&field.path),
        Some(below) => below,
    });
    let count = fields.len();
    let (has_filters, has_many) = (view.tree.has_filters(), view.tree.has_many());
    let tree = node(&view.tree, false);
    let arms = fields.iter().enumerate().map(fill);
    let push = has_many.then(|| push(fields));
    quote! {
        #[automatically_derived]
        const _: () = {
            use ::flyball_sdk::view::derive;

            impl ::flyball_sdk::view::View for #name {
                const KIND: &'static str = #kind;
                const FORMER: &'static [(u32, &'static str)] = &[#(#former),*];
                const FIELDS: &'static [&'static str] = &[#(#read),*];
                const COLUMNS: &'static [&'static str] = &[#(#columns),*];
            }

            impl derive::Slots for #name {
                const COUNT: usize = #count;
                const PATHS: &'static [&'static str] = &[#(#paths),*];
                const HAS_FILTERS: bool = #has_filters;
                const HAS_MANY: bool = #has_many;
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

                #push
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
fn fill((slot, field): (usize, &Field)) -> TokenStream {
    let Field {
        name, ty, is_many, ..
    } = field;
    let span = Span::call_site().located_at(ty.span());
    match is_many {
        false => quote_spanned! {span=>
            #slot => self.#name = derive::value_or_default::<#ty, D>(value)?,
        },
        true => quote_spanned! {span=>
            #slot => self.#name = derive::values::<#ty, D>(value)?,
        },
    }
}

/// The function that adds a value to a field whose path has a `[*]`.
fn push(fields: &[Field]) -> TokenStream {
    let many = fields.iter().enumerate().filter(|(_, field)| field.is_many);
    let arms = many.map(|(slot, Field { name, ty, .. })| {
        let span = Span::call_site().located_at(ty.span());
        quote_spanned! {span=>
            #slot => derive::push::<#ty, D>(&mut self.#name, value),
        }
    });
    quote! {
        fn push<'de, D: derive::Deserializer<'de>>(
            &mut self,
            slot: usize,
            value: D,
        ) -> ::core::result::Result<(), D::Error> {
            match slot {
                #(#arms)*
                _ => ::core::unreachable!(),
            }
        }
    }
}

/// `is_many` is whether the tree is below a `[*]`.
fn node(tree: &Tree, is_many: bool) -> TokenStream {
    match tree {
        Tree::Slot { slot, .. } if is_many => quote!(derive::Node::Element(#slot)),
        Tree::Slot { slot, .. } => quote!(derive::Node::Slot(#slot)),
        Tree::Object(fields) => {
            let fields = fields.iter().map(|(name, below)| {
                let below = node(below, is_many);
                quote!((#name, #below))
            });
            quote!(derive::Node::Object(&[#(#fields),*]))
        }
        Tree::List(elements) => {
            let elements = elements.iter().map(|(Filter { field, value }, below)| {
                let below = node(below, is_many);
                quote!((#field, #value, #below))
            });
            quote!(derive::Node::List(&[#(#elements),*]))
        }
        Tree::Each(below) => {
            let below = node(below, true);
            quote!(derive::Node::Each(&#below))
        }
    }
}
