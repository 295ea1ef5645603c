//! The paths whose values the indexes and the subscribers of one cache read. Equal paths are one, however many read it,
//! and the values of all are found in one search of an object (see `change.rs`).

use flyball_types::{FieldPath, PathSet};

/// Paths with numbers, which stay while somebody reads the path.
#[derive(Default)]
pub(crate) struct SharedPaths {
    /// By number, with the count of readers.
    readers: Vec<Option<(FieldPath, usize)>>,
    set: PathSet,
}

impl SharedPaths {
    /// Adds a reader of a path, and returns the path's number.
    pub(crate) fn add(&mut self, path: &FieldPath) -> usize {
        let is_it =
            |own: &Option<(FieldPath, usize)>| own.as_ref().is_some_and(|own| own.0 == *path);
        if let Some(number) = self.readers.iter().position(is_it) {
            if let Some((_, readers)) = &mut self.readers[number] {
                *readers += 1;
            }
            return number;
        }
        let free = self.readers.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.readers.push(None);
            self.readers.len() - 1
        });
        self.readers[number] = Some((path.clone(), 1));
        self.build();
        number
    }

    /// Removes a reader of the path with this number.
    pub(crate) fn remove(&mut self, number: usize) {
        if let Some((_, readers)) = &mut self.readers[number] {
            *readers -= 1;
            if *readers == 0 {
                self.readers[number] = None;
                self.build();
            }
        }
    }

    fn build(&mut self) {
        let paths = self.readers.iter();
        let paths = paths.map(|own| own.as_ref().map(|(path, _)| path.clone()));
        self.set = PathSet::numbered(paths);
    }

    /// The paths by their numbers.
    pub(crate) fn set(&self) -> &PathSet {
        &self.set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_paths_share_a_number_until_nobody_reads_them() {
        let path = |text: &str| text.parse::<FieldPath>().unwrap();
        let mut paths = SharedPaths::default();
        let (a, b) = (paths.add(&path("a")), paths.add(&path("b")));
        assert_eq!((paths.add(&path("a")), a == b), (a, false));
        let finds = |paths: &SharedPaths, number: usize| {
            let json = br#"{"a":1,"b":2,"c":3}"#;
            let found = paths.set().find(json);
            found.values(number, json).next().map(str::to_owned)
        };
        assert_eq!(finds(&paths, b).as_deref(), Some("2"));
        paths.remove(a);
        assert_eq!(finds(&paths, a).as_deref(), Some("1"));
        paths.remove(a);
        assert_eq!(finds(&paths, a), None);
        assert_eq!(paths.add(&path("c")), a);
        assert_eq!(finds(&paths, a).as_deref(), Some("3"));
    }
}
