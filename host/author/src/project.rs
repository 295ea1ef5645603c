//! A project of a controller, and its language.

use std::path::PathBuf;

/// The project of a controller.
#[derive(Clone, Debug)]
pub struct Project {
    pub dir: PathBuf,
    /// The name in the project's manifest. The component's file is named after it.
    pub name: String,
    pub language: Language,
    /// The rustup toolchain of a project in Rust; none is that of the environment or else the active one.
    pub toolchain: Option<String>,
    /// A virtual environment with componentize-py, for a project in Python. By default, the environment of the user or
    /// of the project.
    pub environment: Option<PathBuf>,
}

/// Programming language of a project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    #[default]
    Rust,
    Go,
    #[value(name = "typescript")]
    TypeScript,
    #[value(name = "javascript")]
    JavaScript,
    Python,
    C,
}

impl Language {
    /// The name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Go => "Go",
            Self::TypeScript => "TypeScript",
            Self::JavaScript => "JavaScript",
            Self::Python => "Python",
            Self::C => "C",
        }
    }
}
