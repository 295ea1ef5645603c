//! The changes of the slices of a Service.

use flyball_service_endpoints::slice::{Endpoint, EndpointPort, Slice};

/// The changes of the slices of one address type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub create: Vec<NewSlice>,
    pub update: Vec<ChangedSlice>,
    pub delete: Vec<Slice>,
    pub unchanged: Vec<Slice>,
    /// Number of endpoints that were in no slice.
    pub added: usize,
    /// Number of endpoints that leave a slice.
    pub removed: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewSlice {
    pub ports: Vec<EndpointPort>,
    pub endpoints: Vec<Endpoint>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangedSlice {
    /// The slice with its new endpoints, and its old metadata.
    pub slice: Slice,
    /// Whether the slice gets the labels of the Service.
    pub relabel: bool,
}

impl Plan {
    /// The endpoints of all slices that exist afterwards.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        let created = self.create.iter().flat_map(|slice| &slice.endpoints);
        let updated = (self.update.iter()).flat_map(|changed| &changed.slice.endpoints);
        let unchanged = self.unchanged.iter().flat_map(|slice| &slice.endpoints);
        created.chain(updated).chain(unchanged)
    }

    /// The number of slices that exist afterwards.
    pub fn slices(&self) -> usize {
        self.create.len() + self.update.len() + self.unchanged.len()
    }

    /// The lists of endpoints that are written.
    pub fn written(&mut self) -> impl Iterator<Item = &mut Vec<Endpoint>> {
        let created = self.create.iter_mut().map(|slice| &mut slice.endpoints);
        let updated = (self.update.iter_mut()).map(|changed| &mut changed.slice.endpoints);
        created.chain(updated)
    }

    /// Updates the unchanged slices for which the predicate holds, too.
    pub fn update_where(&mut self, mut must_change: impl FnMut(&Slice) -> bool) {
        for slice in std::mem::take(&mut self.unchanged) {
            if must_change(&slice) {
                self.update.push(ChangedSlice {
                    slice,
                    relabel: false,
                });
            } else {
                self.unchanged.push(slice);
            }
        }
    }
}
