//! Files that come, change and go.

use super::*;

rows! {
    a_new_file_is_loaded:
        |world| world.policy(GRANTS),
        |world| world.file("/a.wasm", a("1"))
        => ["load /a.wasm"], ["a 1"];
    a_changed_file_is_loaded_and_takes_over:
        one_runs,
        |world| world.file("/a.wasm", a("2"))
        => ["load /a.wasm"], ["a 2"];
    of_a_half_written_file_the_version_before_goes_on:
        one_runs,
        |world| world.lay("/a.wasm", Err("can't load the plugin /a.wasm".into()))
        => ["load /a.wasm"], ["a 1"];
    a_removed_file_stops_its_plugin:
        one_runs,
        |world| world.remove("/a.wasm")
        => ["forget /a.wasm"], [];
    a_renamed_file_is_no_other_version:
        one_runs,
        |world| {
            world.files.clear();
            world.file("/b.wasm", a("1"));
        }
        => ["forget /a.wasm", "load /b.wasm"], ["a 1"];
    files_of_an_unreadable_folder_go_on_and_the_folder_is_noted:
        one_runs,
        |world| drop(world.unreadable.insert("/".into(), "no such file".into()))
        => ["note Folder(\"/\"): no such file"], ["a 1"];
    of_two_files_with_one_name_the_one_that_runs_stays:
        |world| {
            world.policy(GRANTS);
            world.file("/b.wasm", a("1"));
        },
        |world| {
            world.file("/a.wasm", a("2"));
            world.settle();
            // Other content of the newcomer makes no difference.
            world.file("/a.wasm", a("3"));
        }
        => ["load /a.wasm"], ["a 1"];
    of_two_files_with_one_name_the_one_that_ran_last_starts:
        |world| {
            let two = a("2");
            let asks = Asks::of(&two.description);
            let versions = world.state.record.after("a", two.file(), "2.0", "2", asks);
            world.state.record.set("a", versions);
            world.policy(GRANTS);
        },
        |world| {
            world.file("/a.wasm", a("1"));
            world.file("/b.wasm", a("2"));
        }
        => ["load /a.wasm", "load /b.wasm"], ["a 2"];
    the_other_of_two_files_takes_over_once_the_first_is_removed:
        |world| {
            world.policy(GRANTS);
            world.file("/a.wasm", a("1"));
            world.file("/b.wasm", a("2"));
        },
        |world| world.remove("/a.wasm")
        => ["forget /a.wasm"], ["a 2"];
    of_two_files_with_one_name_neither_starts:
        |world| world.policy(GRANTS),
        |world| {
            world.file("/a.wasm", a("1"));
            world.file("/b.wasm", a("2"));
        }
        => ["load /a.wasm", "load /b.wasm"], [];
    of_two_files_with_one_name_the_one_that_the_policy_names_starts:
        |world| world.policy(&format!("[plugins.a]\nfile = \"b.wasm\"\n{GRANTS}")),
        |world| {
            world.file("/a.wasm", a("1"));
            world.file("/b.wasm", a("2"));
        }
        => ["load /a.wasm", "load /b.wasm"], ["a 2"];
    of_two_files_with_one_name_the_one_with_the_digest_of_the_policy_starts:
        |world| {
            let digest = "0".repeat(64);
            world.policy(&format!("[plugins.a]\ndigest = \"sha256:{digest}\"\n{GRANTS}"));
        },
        |world| {
            world.file("/a.wasm", a("1"));
            world.file("/b.wasm", a(&"0".repeat(64)));
        }
        => ["load /a.wasm", "load /b.wasm"],
           ["a 0000000000000000000000000000000000000000000000000000000000000000"];
    a_running_plugin_stays_with_its_file_until_the_policy_names_another:
        |world| {
            one_runs(world);
            world.settle();
            world.file("/b.wasm", a("2"));
        },
        |world| world.policy(&format!("[plugins.a]\nfile = \"b.wasm\"\n{GRANTS}"))
        => ["open a 2", "note a: /b.wasm and /a.wasm both hold"], ["a 2"];
    two_files_with_the_same_content_are_one_plugin:
        |world| world.policy(GRANTS),
        |world| {
            world.file("/a.wasm", a("1"));
            world.file("/b.wasm", a("1"));
        }
        => ["load /a.wasm", "load /b.wasm"], ["a 1"];
    a_file_that_runs_as_another_plugin_does_not_take_a_name_over:
        |world| {
            world.policy(&format!("{GRANTS}{}", GRANTS.replace(".a.", ".b.")));
            world.file("/a.wasm", plugin("b", "2", r#""create""#));
            world.file("/z.wasm", a("1"));
        },
        |world| world.file("/a.wasm", a("3"))
        => ["load /a.wasm"], ["a 1"];
    a_renamed_file_is_the_one_that_ran_last:
        |world| {
            one_runs(world);
            world.settle();
            world.file("/0.wasm", a("2"));
        },
        |world| {
            world.remove("/a.wasm");
            world.file("/b.wasm", a("1"));
        }
        => ["forget /a.wasm", "load /b.wasm"], ["a 1"];
    a_file_that_the_policy_names_starts_under_no_other_name:
        |world| world.policy(&format!("[plugins.a]\nfile = \"a.wasm\"\n{GRANTS}")),
        |world| {
            world.file("/b.wasm", a("1"));
            world.settle();
            world.state.noted.clear();
        }
        => ["note a: pending: the policy for `a` applies only to the file a.wasm"], [];
    a_plugin_that_controllers_disables_does_not_run:
        |world| {
            one_runs(world);
            world.disabled = "a";
        },
        nothing
        => [], [];
}
