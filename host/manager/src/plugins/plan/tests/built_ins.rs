//! Built-in controllers, and plugins in their place.

use super::*;

rows! {
    a_builtin_runs:
        nothing,
        World::builtin
        => ["open a built-in"], ["a built-in"];
    a_file_with_a_builtins_name_is_refused_and_the_builtin_goes_on:
        |world| {
            world.builtin();
            world.policy(GRANTS);
        },
        |world| {
            world.file("/a.wasm", a("1"));
            world.settle();
            world.state.noted.clear();
        }
        => ["note a: "], ["a built-in"];
    a_file_replaces_a_builtin_if_the_policy_says_so:
        |world| {
            world.builtin();
            world.file("/a.wasm", a("1"));
        },
        |world| world.policy(&format!("[plugins.a]\nreplaces-builtin = true\n{GRANTS}"))
        => ["open a 1"], ["a 1"];
    of_two_files_that_could_replace_a_builtin_neither_does:
        |world| {
            world.builtin();
            world.policy(&format!("[plugins.a]\nreplaces-builtin = true\n{GRANTS}"));
        },
        |world| {
            world.file("/a.wasm", a("1"));
            world.file("/b.wasm", a("2"));
        }
        => ["load /a.wasm", "load /b.wasm"], ["a built-in"];
    the_one_that_the_policy_names_replaces_a_builtin:
        |world| {
            world.builtin();
            let bound = "[plugins.a]\nreplaces-builtin = true\nfile = \"b.wasm\"\n";
            world.policy(&format!("{bound}{GRANTS}"));
        },
        |world| {
            world.file("/a.wasm", a("1"));
            world.file("/b.wasm", a("2"));
        }
        => ["load /a.wasm", "load /b.wasm"], ["a 2"];
    a_builtin_returns_once_what_replaces_it_is_removed:
        |world| {
            world.builtin();
            world.policy(&format!("[plugins.a]\nreplaces-builtin = true\n{GRANTS}"));
            world.file("/a.wasm", a("1"));
        },
        |world| world.files.clear()
        => ["forget /a.wasm"], ["a built-in"];
}
