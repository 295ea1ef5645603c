//! Numbered paths as a tree. Paths with a common beginning share it, so that an object is searched for all of them at
//! once (`search.rs`).

use crate::Step;
use crate::mask::entry_or;
use crate::path::Filter;
use crate::search::Pattern;

/// The paths that lead through one place of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    /// The numbers of the paths that end here.
    ends: Vec<usize>,
    /// Sorted by name, and `filtered` by filter.
    fields: Vec<(Box<str>, Tree)>,
    each: Option<Box<Tree>>,
    filtered: Vec<(Filter, Tree)>,
}

impl Tree {
    /// Adds a path from here on.
    pub(crate) fn add(&mut self, number: usize, steps: &[Step]) {
        let Some((step, rest)) = steps.split_first() else {
            self.ends.push(number);
            return;
        };
        let below = match step {
            Step::Field(name) => entry_or(&mut self.fields, name, Self::default),
            Step::Each => self.each.get_or_insert_default(),
            Step::Where(filter) => entry_or(&mut self.filtered, filter, Self::default),
        };
        below.add(number, rest);
    }

    /// Estimates the bytes that it holds.
    pub(crate) fn size(&self) -> usize {
        let field = |(name, tree): &(Box<str>, Self)| name.len() + tree.size();
        let filtered = |(filter, tree): &(Filter, Self)| filter.size() + tree.size();
        size_of::<Self>()
            + size_of_val(&*self.ends)
            + self.fields.iter().map(field).sum::<usize>()
            + self.each.iter().map(|tree| tree.size()).sum::<usize>()
            + self.filtered.iter().map(filtered).sum::<usize>()
    }
}

impl Pattern for &Tree {
    fn ends(self) -> impl Iterator<Item = usize> {
        self.ends.iter().copied()
    }

    fn continues(self) -> bool {
        !self.fields.is_empty() || self.each.is_some() || !self.filtered.is_empty()
    }

    fn fields(self) -> usize {
        self.fields.len()
    }

    fn field(self, name: &str) -> Option<Self> {
        let own = self.fields.iter().find(|(own, _)| **own == *name);
        own.map(|(_, below)| below)
    }

    fn each(self) -> Option<Self> {
        self.each.as_deref()
    }

    fn filtered<'f>(self) -> impl Iterator<Item = (&'f Filter, Self)>
    where
        Self: 'f,
    {
        self.filtered.iter().map(|(filter, below)| (filter, below))
    }
}
