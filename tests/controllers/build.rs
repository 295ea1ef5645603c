//! Generates the table of the built-in controllers' functions from the host's table of controllers. Cargo finds
//! dependencies only by name, so `Cargo.toml` must name each controller's crate.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=Cargo.toml");
    let manifest = fs::read_to_string("Cargo.toml")?;
    let mut table = String::from("&[\n");
    for (controller, guest) in flyball_controllers::built_in() {
        let (name, folder) = (controller.name, guest.folder);
        let dependency = format!("{name} = {{ path = \"../../guests/controllers/{folder}\" }}");
        if !manifest.lines().any(|line| line == dependency) {
            println!(
                "cargo::error=the tests of the built-in controllers lack {name}: add to \
                 [dependencies] in tests/controllers/Cargo.toml the line {dependency}"
            );
        }
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
