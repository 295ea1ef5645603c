//! A cloud's provider and a controller that calls a cloud, from modules in the text format.

use std::path::Path;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Returns a provider that does what the method names, with this description. See `provider.wat`.
pub fn provider(description: &str) -> Vec<u8> {
    component(include_str!("provider.wat"), "cloud-provider", description)
}

/// Returns a controller that calls the method that its key names, with this description. See `cloud_caller.wat`.
pub fn caller(description: &str) -> Vec<u8> {
    component(
        include_str!("cloud_caller.wat"),
        "cloud-controller",
        description,
    )
}

fn component(module: &str, world: &str, description: &str) -> Vec<u8> {
    let quoted = description.replace('"', "\\\"");
    let module = module
        .replace("{{DESCRIPTION}}", &quoted)
        .replace("{{LENGTH}}", &description.len().to_string());
    let mut module = wat::parse_str(module).expect("the module is valid");
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
    let mut resolve = Resolve::default();
    resolve.push_dir(&wit).expect("the world is valid");
    let pushed = resolve.push_dir(wit.join("cloud"));
    let (package, _) = pushed.expect("the world of clouds is valid");
    let world = resolve.select_world(&[package], Some(world));
    let world = world.expect("the package has the world");
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .expect("the module takes the metadata");
    let encoder = ComponentEncoder::default().validate(true).module(&module);
    let component = encoder.and_then(|mut encoder| encoder.encode());
    component.expect("the module fits the world")
}
