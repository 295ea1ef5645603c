//! Rollbacks.

use super::*;

rows! {
    a_rollback_loads_the_version_before_while_the_newer_one_goes_on:
        two_ran,
        |world| world.state.record.pin("a", "1", "2")
        => ["load kept 1"], ["a 1"];
    a_version_that_is_kept_and_still_loads_changes_nothing:
        two_ran,
        |world| {
            world.state.record.pin("a", "1", "2");
            let origin = Origin::File("/a.wasm".into());
            world.state.begin(&Action::LoadKept(origin, "1".into()));
        }
        => [], ["a 2"];
    a_version_that_is_lost_leaves_that_of_the_file_running:
        two_ran,
        |world| {
            world.contents.remove("1");
            world.state.record.pin("a", "1", "2");
        }
        => ["load kept 1"], ["a 2"];
    a_rollback_ends_when_the_file_changes:
        rolled_back,
        |world| world.file("/a.wasm", a("3"))
        => ["load /a.wasm"], ["a 3"];
    a_second_rollback_returns_to_the_file:
        rolled_back,
        |world| world.state.record.pin("a", "2", "2")
        => ["open a 2"], ["a 2"];
    a_rollback_outlasts_a_restart:
        |world| {
            rolled_back(world);
            world.settle();
            world.state = CurrentState {
                record: world.state.record.clone(),
                ..CurrentState::default()
            };
        },
        nothing
        => [], ["a 1"];
}
