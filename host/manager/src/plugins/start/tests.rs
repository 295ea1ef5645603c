//! Tests of the parts that a version shares with the previous version.

use std::collections::BTreeMap;

use flyball_policy::grant::Grant;

use super::*;
use crate::plugins::load::{LoadedPlugin, Origin};

fn version(is_builtin: bool, memo_schema: u32) -> Version {
    let description = flyball_types::description::Description {
        memo_schema,
        ..Default::default()
    };
    Version {
        plugin: LoadedPlugin {
            origin: Origin::BuiltIn("job-controller"),
            digest: String::new(),
            description: Arc::new(description),
            asks: Arc::default(),
            config: BTreeMap::new(),
        },
        grant: Grant {
            policy: Arc::default(),
            account: None,
            config: BTreeMap::new(),
            concurrency: 1,
            is_builtin,
        },
        file: String::new(),
    }
}

#[test]
fn a_plugin_in_the_place_of_a_built_in_shares_no_memo_with_it() {
    for (before, after) in [(true, false), (false, true)] {
        assert!(!keeps_memo(&version(after, 1), &version(before, 1)));
    }
    for is_builtin in [true, false] {
        assert!(keeps_memo(&version(is_builtin, 1), &version(is_builtin, 1)));
        assert!(!keeps_memo(
            &version(is_builtin, 2),
            &version(is_builtin, 1)
        ));
    }
}
