//! How the guests and the host are built: shared by the tasks, and by the program that measures.

pub mod build;
pub mod debian;
pub mod guests;
pub mod machine;
pub mod prerequisites;
pub mod run;
pub mod toolchain;
