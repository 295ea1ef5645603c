//! The bindings of the SDK for Rust, `guests/sdk/rust/src/wasm/bindings.rs`, and of its crate for clouds are generated
//! from `wit/`. They are part of the SDK, so that plugins are built without their generator, which takes longer to compile
//! than the SDK.

use std::path::Path;

use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_core::{Files, WorldGenerator};
use wit_bindgen_rust::Opts;

#[test]
fn the_bindings_of_the_sdk_are_up_to_date() {
    let options = Opts {
        export_macro_name: Some("export_controller".into()),
        default_bindings_module: Some("flyball_sdk::wasm::bindings".into()),
        ..Opts::default()
    };
    check("rust", &["wit"], "controller", options);
}

#[test]
fn the_bindings_of_clouds_are_up_to_date() {
    let options = Opts {
        export_macro_name: Some("export_cloud".into()),
        default_bindings_module: Some("flyball_cloud::wasm::bindings".into()),
        ..Opts::default()
    };
    check("rust-cloud", &["wit", "wit/cloud"], "sdk", options);
}

/// Compares the bindings of a crate with those of a world in the last of the packages.
fn check(sdk: &str, packages: &[&str], world: &str, options: Opts) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let bindings = generate(&root, packages, world, options);
    assert!(bindings.contains("pub trait Guest"), "{bindings}");
    let path = root.join(format!("guests/sdk/{sdk}/src/wasm/bindings.rs"));
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

fn generate(root: &Path, packages: &[&str], world: &str, options: Opts) -> String {
    let mut resolve = Resolve::default();
    let pushed = packages.iter().map(|folder| {
        let pushed = resolve.push_dir(root.join(folder));
        pushed.expect("the world is valid").0
    });
    let package = pushed.last().expect("there is a package");
    let world = resolve
        .select_world(&[package], Some(world))
        .expect("the package has the world");
    let options = Opts {
        format: true,
        pub_export_macro: true,
        ..options
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
