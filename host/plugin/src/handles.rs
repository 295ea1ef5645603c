//! The handles that a guest holds on the host's side: cursors, and batches of reads and of writes. The bindings name
//! these types.
#![allow(
    unreachable_pub,
    reason = "the bindings name these types in public, in a private module"
)]

use flyball_types::ApiError;

use crate::imports::{Batch, Cursor, Read};

/// A cursor that a guest holds.
pub struct OpenCursor {
    /// The cursor; none once the call that opened it has ended.
    pub(crate) rest: Option<Box<dyn Cursor>>,
    /// Bytes that it holds.
    pub(crate) staged: usize,
}

/// A batch to which a guest adds items one by one, and which it then runs.
#[derive(Default)]
pub struct Staged<T> {
    pub(crate) items: T,
    /// Bytes that the items hold.
    pub(crate) bytes: usize,
    /// True once the call that created the batch has ended.
    pub(crate) ended: bool,
}

/// A batch of reads. A read whose arguments are too long fails without being sent.
pub type ReadBatch = Staged<Vec<Result<Read, ApiError>>>;

pub type WriteBatch = Staged<Batch>;

impl OpenCursor {
    /// Drops the snapshot at the end of the call.
    pub(crate) fn end(&mut self) {
        *self = Self {
            rest: None,
            staged: 0,
        };
    }
}

impl<T: Default> Staged<T> {
    /// Empties the batch at the end of the call.
    pub(crate) fn end(&mut self) {
        *self = Self {
            ended: true,
            ..Self::default()
        };
    }
}
