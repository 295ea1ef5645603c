//! Takes the dependents away from an owner that leaves them behind, and then lets it go.

use flyball_sdk::Reference;
use flyball_sdk::prelude::*;

use crate::node::{self, Node};
use crate::{ORPHAN, write};

/// Sees to the object that a key names, if it is such an owner.
pub fn orphan(host: &Host, named: &Reference) -> Result<Outcome, Error> {
    let held = node::observed(host, &named.uid)?;
    let Some(owner) = held.filter(Node::leaves_dependents) else {
        return Ok(Outcome::Done);
    };
    let dependents = node::dependents(host, &named.uid)?;
    write::disown_all(host, &dependents, &owner.metadata.uid)?;
    write::remove_finalizer(host, &owner, ORPHAN)?;
    Ok(Outcome::Done)
}
