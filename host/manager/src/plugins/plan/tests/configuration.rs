//! Changes of the configuration.

use super::*;

fn configured(value: &str) -> String {
    format!("[plugins.a]\nconfig = {{ {value} }}\n{GRANTS}")
}

rows! {
    a_plugin_describes_itself_with_the_operators_configuration_before_it_is_opened:
        nothing,
        |world| {
            world.policy(&configured("key = \"x\""));
            world.file("/a.wasm", a("1"));
            for action in world.plan().actions {
                world.state.begin(&action);
                world.finish(action);
            }
        }
        => ["describe /a.wasm with x"], ["a 1 x"];
    a_plugin_describes_itself_again_when_its_configuration_changes:
        |world| {
            world.policy(&configured("key = \"x\""));
            world.file("/a.wasm", a("1"));
        },
        |world| world.policy(&configured("key = \"y\""))
        => ["describe /a.wasm with y"], ["a 1 y"];
    a_configuration_that_it_cannot_describe_itself_with_leaves_the_one_before:
        |world| {
            world.policy(&configured("key = \"x\""));
            world.file("/a.wasm", a("1"));
        },
        |world| world.policy(&configured("broken = \"y\""))
        => ["describe /a.wasm with y"], ["a 1 x"];
    a_failed_configuration_is_noted_and_not_tried_again:
        |world| {
            world.policy(&configured("broken = \"x\""));
            world.file("/a.wasm", a("1"));
        },
        |world| world.state.noted.clear()
        => ["note a: it did not describe itself"], [];
    a_corrected_configuration_is_tried:
        |world| {
            world.policy(&configured("broken = \"x\""));
            world.file("/a.wasm", a("1"));
        },
        |world| world.policy(&configured("key = \"y\""))
        => ["describe /a.wasm with y"], ["a 1 y"];
    what_is_revoked_is_in_force_before_a_new_configuration_is_described:
        |world| {
            world.policy(&configured("key = \"x\""));
            world.file("/a.wasm", a("1"));
        },
        |world| world.policy(&configured("key = \"y\"").replace(", \"create\"", ""))
        => ["describe /a.wasm with y", "stop a"], ["a 1 y"];
    a_file_that_the_policy_is_not_for_is_shown_no_configuration:
        nothing,
        |world| {
            let digest = "0".repeat(64);
            let policy = configured("key = \"x\"");
            let header = format!("[plugins.a]\ndigest = \"sha256:{digest}\"");
            world.policy(&policy.replace("[plugins.a]", &header));
            world.file("/a.wasm", a("1"));
            world.settle();
            world.state.noted.clear();
        }
        => ["note a: pending: the policy for"], [];
    an_unsigned_file_does_not_run_in_place_of_the_package_that_the_policy_names:
        |world| {
            one_runs(world);
            world.settle();
            world.contents.insert(PACKAGE.into(), Ok(a("2")));
            world.policy(&format!("[plugins.a]\nsource = \"{PACKAGE}\"\n{GRANTS}"));
            world.files.clear();
        },
        |world| world.state.record.pin("a", "1", "2")
        => [], ["a 2"];
    a_version_that_is_rolled_back_to_describes_itself_with_the_configuration:
        |world| {
            two_ran(world);
            world.settle();
            world.policy(&configured("key = \"x\""));
        },
        |world| world.state.record.pin("a", "1", "2")
        => ["load kept 1"], ["a 1 x"];
}
