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
    a_plugin_that_controllers_disables_does_not_run:
        |world| {
            one_runs(world);
            world.disabled = "a";
        },
        nothing
        => [], [];
}
