//! `#[derive(View)]`. `flyball-sdk` re-exports it and documents it at its trait `View`.
//!
//! `view.rs` parses and checks the struct, `tree.rs` merges its paths into one tree, `expand.rs`
//! generates the impls.

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

mod expand;
#[cfg(test)]
mod tests;
mod tree;
mod view;

/// Derives `View`. The documentation is at `flyball_sdk::View`.
#[proc_macro_derive(View, attributes(view))]
pub fn derive_view(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let view = view::View::parse(&input);
    view.map_or_else(syn::Error::into_compile_error, |view| expand::expand(&view))
        .into()
}
