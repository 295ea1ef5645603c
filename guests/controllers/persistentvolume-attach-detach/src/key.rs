//! The keys of the queue of nodes: `node-1`, `verification/node-1`, `all/drivers`. Names of nodes have no slash.

use flyball_sdk::Key;

/// What a key names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A node, whose volumes are attached and detached.
    Node(String),
    /// A node, whose attached volumes are verified.
    Verification(String),
    /// All nodes, periodically.
    All(Look),
}

/// A periodic look at all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The attached volumes of each are verified.
    Verification,
    /// All are woken if CSIDrivers have changed.
    Drivers,
    /// All are woken.
    Nodes,
}

const VERIFICATION: &str = "verification";
const ALL: &str = "all";

impl Item {
    /// Parses a key.
    pub fn parse(key: &Key) -> Self {
        let name = &key.name;
        let look = Look::ALL.into_iter().find(|look| look.name() == name);
        match (&*key.namespace, look) {
            (ALL, Some(look)) => Self::All(look),
            (VERIFICATION, _) => Self::Verification(name.clone()),
            _ => Self::Node(name.clone()),
        }
    }

    /// The key.
    pub fn key(&self) -> Key {
        match self {
            Self::Node(name) => Key::new("", name),
            Self::Verification(name) => Key::new(VERIFICATION, name),
            Self::All(look) => Key::new(ALL, look.name()),
        }
    }
}

impl Look {
    const ALL: [Self; 3] = [Self::Verification, Self::Drivers, Self::Nodes];

    fn name(self) -> &'static str {
        match self {
            Self::Verification => VERIFICATION,
            Self::Drivers => "drivers",
            Self::Nodes => "nodes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_parsed_as_they_were_written() {
        let mut items: Vec<Item> = Look::ALL.map(Item::All).into();
        items.extend([
            Item::Node("all".into()),
            Item::Verification("drivers".into()),
        ]);
        for item in items {
            let text = item.key().to_string();
            assert_eq!(Item::parse(&Key::parse(&text)), item, "{text}");
        }
    }
}
