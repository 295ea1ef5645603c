//! The engine that compiles and runs plugins, with the settings that the host and the tools share.

use flyball_plugin::{Compiler, CompilerProcess, Engine, EngineError, EngineOptions};

use crate::user_folders;

/// Creates an engine that keeps compiled plugins in the user's cache folder. If the cache can't be used, each plugin is
/// compiled again, which is only slower.
pub(crate) fn engine(options: EngineOptions) -> Result<Engine, EngineError> {
    let options = EngineOptions {
        compiler: compiler(),
        ..options
    };
    let cached = EngineOptions {
        cache: user_folders::cache().map(|folder| folder.join("compiled")),
        ..options.clone()
    };
    Engine::new(cached).or_else(|error| {
        tracing::warn!("{error}; plugins are compiled again at each start");
        Engine::new(options)
    })
}

/// Returns where plugins are compiled: each in a child process, if this binary can be found.
fn compiler() -> Compiler {
    CompilerProcess::of_this_binary().map_or(Compiler::InProcess, Compiler::Process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_compiled_in_child_processes() {
        assert!(matches!(compiler(), Compiler::Process(_)));
    }
}
