//! Guests from modules in the text format.

use std::path::Path;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The controller's world, and the parts of WASI that a guest needs to sleep.
const WORLD: &str = "
    package test:sleeper@1.0.0;
    world sleeper {
        include flyball:controller/controller@0.2.0;
        import wasi:io/poll@0.2.0;
        import wasi:clocks/monotonic-clock@0.2.0;
    }
    package wasi:io@0.2.0 {
        interface poll { resource pollable; poll: func(in: list<borrow<pollable>>) -> list<u32>; }
    }
    package wasi:clocks@0.2.0 {
        interface monotonic-clock {
            use wasi:io/poll@0.2.0.{pollable};
            subscribe-duration: func(when: u64) -> pollable;
        }
    }";

/// Imports of a module that sleeps: `$after` returns a pollable, and `$poll` waits for a list of them.
pub const SLEEP: &str = r#"
    (import "wasi:io/poll@0.2.0" "poll" (func $poll (param i32 i32 i32)))
    (import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $after (param i64) (result i32)))"#;

/// Instructions that sleep for an hour. They use the memory from 64 on.
pub const FOR_AN_HOUR: &str = "
    (i32.store (i32.const 64) (call $after (i64.const 3600000000000)))
    (call $poll (i32.const 64) (i32.const 1) (i32.const 128))";

/// Returns a controller with this description whose reconciles return at once, or trap.
///
/// # Panics
/// The description can't be a text of the module.
pub fn probe(description: &str, traps: bool) -> Vec<u8> {
    let module = include_str!("probe.wat")
        .replace("{{DESCRIPTION}}", &description.replace('"', "\\\""))
        .replace("{{LENGTH}}", &description.len().to_string())
        .replace("{{END}}", if traps { "unreachable" } else { "" });
    component(&module)
}

/// Builds a component from the module of a guest, which may have the imports [`SLEEP`].
///
/// # Panics
/// The module is not valid, or does not fit the world.
pub fn component(module: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
    resolve.push_dir(wit).expect("the world is valid");
    let package = resolve.push_str("sleeper.wit", WORLD);
    let package = package.expect("the world is valid");
    let world = resolve.select_world(&[package], Some("sleeper"));
    let world = world.expect("the package has the world");
    let mut module = wat::parse_str(module).expect("the module is valid");
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .expect("the module takes the metadata");
    let encoder = ComponentEncoder::default().module(&module);
    let component = encoder.and_then(|mut encoder| encoder.encode());
    component.expect("the module fits the world")
}
