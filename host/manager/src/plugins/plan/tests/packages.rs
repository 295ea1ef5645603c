//! Packages of a registry.

use super::*;

fn package(world: &mut World) {
    let source = format!("[plugins.a]\nsource = \"{PACKAGE}\"\n{GRANTS}");
    world.policy(&source);
    world.contents.insert(PACKAGE.into(), Ok(a("1")));
}

rows! {
    a_package_that_the_policy_names_is_pulled:
        nothing, package
        => ["pull oci://example.com/a@sha256:0000"], ["a 1"];
    a_package_that_the_policy_names_no_more_stops:
        package,
        |world| world.policy(GRANTS)
        => ["forget oci://example.com/a@sha256:0000"], [];
    a_package_of_a_disabled_plugin_is_not_pulled:
        |world| {
            package(world);
            world.disabled = "a";
        },
        nothing
        => [], [];
}
