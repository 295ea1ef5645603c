//! The bindings of the SDK for Rust, `guests/sdk/rust/src/wasm/bindings.rs`, are generated from `wit/`. They are part
//! of the SDK, so that plugins are built without their generator, which takes longer to compile than the SDK.

use std::path::Path;

use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_core::{Files, WorldGenerator};
use wit_bindgen_rust::Opts;

#[test]
fn the_bindings_of_the_sdk_are_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let bindings = generate(&root.join("wit"));
    assert!(bindings.contains("pub trait Guest"), "{bindings}");
    let path = root.join("guests/sdk/rust/src/wasm/bindings.rs");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &bindings).expect("it is written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == bindings,
        "{} is out of date: BLESS=1 writes it",
        path.display()
    );
}

fn generate(wit: &Path) -> String {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit).expect("the world is valid");
    let world = resolve
        .select_world(&[package], Some("controller"))
        .expect("the package has the world");
    let options = Opts {
        format: true,
        pub_export_macro: true,
        export_macro_name: Some("export_controller".into()),
        default_bindings_module: Some("flyball_sdk::wasm::bindings".into()),
        ..Opts::default()
    };
    let mut files = Files::default();
    options
        .build()
        .generate(&mut resolve, world, &mut files)
        .expect("the world has bindings");
    let [(_, bindings)] = files.iter().collect::<Vec<_>>()[..] else {
        panic!("the bindings are one file");
    };
    String::from_utf8(bindings.to_vec()).expect("they are text")
}
