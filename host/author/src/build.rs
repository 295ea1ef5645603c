//! `flyball build`: finds a project and builds its component.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{Language, Project, embedded, tools};

impl Project {
    /// Finds the project's language and name. Fails if the folder has no project.
    pub fn open(dir: &Path) -> Result<Self> {
        let language = Language::detect(dir)?;
        let name = language.support().name(dir)?;
        let absolute = std::path::absolute(dir);
        Ok(Self {
            // An error that ends in `.` would not name the folder.
            dir: absolute.with_context(|| format!("can't find {}", dir.display()))?,
            name,
            language,
            toolchain: None,
            environment: None,
        })
    }

    /// The scratch folder of builds, which the templates keep out of git.
    pub fn work(&self) -> PathBuf {
        self.dir.join(self.language.support().work())
    }

    /// Fails with a list of the missing tools that a build needs.
    pub fn check_tools(&self) -> Result<()> {
        tools::require(&self.language.support().required_tools(self))
            .with_context(|| format!("can't build {}", self.dir.display()))
    }

    /// Builds the project, and returns the component. `work` is a scratch folder, whose content makes the next build
    /// quicker. Fails with a list of the missing tools before anything is built.
    pub fn build(&self, work: &Path) -> Result<Vec<u8>> {
        let support = self.language.support();
        self.check_tools()?;
        self.refresh_types()?;
        let wit = work.join("wit");
        embedded::write_all(&embedded::WIT, &wit)?;
        support.compile(self, &wit, work)
    }
}
