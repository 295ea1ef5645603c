//! Many distinct plugins with the same code.

use std::fs;
use std::path::Path;

use flyball_plugin::digest;

/// Links the only compiled file in `cache` to the names that the host would use for that many variants. So the code is
/// compiled and stored once, but each variant maps a file of its own name, as distinct plugins do.
pub(crate) fn spread(cache: &Path, wasm: &[u8], count: usize) {
    let compiled = fs::read_dir(cache).unwrap().next().unwrap().unwrap().path();
    let name = compiled.file_name().unwrap().to_str().unwrap().to_owned();
    let rest = name.strip_prefix(&digest(wasm)).unwrap();
    for number in 0..count {
        let name = format!("{}{rest}", digest(&variant(wasm, number)));
        fs::hard_link(&compiled, cache.join(name)).unwrap();
    }
}

/// The component with an additional custom section, which gives it another digest.
pub(crate) fn variant(wasm: &[u8], number: usize) -> Vec<u8> {
    let text = format!("{number:08}");
    let mut section = vec![0, 1 + 1 + text.len() as u8, 1, b'n'];
    section.extend(text.as_bytes());
    [wasm, &section].concat()
}
