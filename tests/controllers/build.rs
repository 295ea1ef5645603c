//! Generates the table of the built-in controllers' functions from the host's table of controllers. The compiler reports a
//! controller whose crate is missing in `Cargo.toml`.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let mut table = String::from("&[\n");
    for (controller, guest) in flyball_controllers::built_in() {
        let (name, folder) = (controller.name, guest.folder);
        let krate = name.replace('-', "_");
        writeln!(
            table,
            "    Subject {{ name: {name:?}, folder: {folder:?}, exported: {krate}::EXPORTED }},"
        )
        .map_err(io::Error::other)?;
    }
    table.push_str("]\n");
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("subjects.rs"), table)
}
