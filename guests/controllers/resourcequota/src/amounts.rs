//! Lists of quantities: the limits of a quota, and the usage by objects.
//!
//! Upstream: staging/src/k8s.io/apiserver/pkg/quota/v1/resources.go: Equals, Max, Add.

use std::collections::BTreeMap;

use flyball_sdk::Quantity;
use flyball_sdk::quantity::QuantityError;
use serde::{Deserialize, Serialize};

/// Quantities by the name of the resource, such as `cpu`.
pub type ResourceList = BTreeMap<String, Quantity>;

/// Quantities of a quota, as they are written there.
pub type Amounts = BTreeMap<String, Amount>;

/// A quantity and its notation. The API keeps some notations that are not canonical, and a limit is
/// copied into the status as it is. Equality compares values.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Amount {
    text: String,
    quantity: Quantity,
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.quantity == other.quantity
    }
}

impl TryFrom<String> for Amount {
    type Error = QuantityError;

    fn try_from(text: String) -> Result<Self, QuantityError> {
        let quantity = text.parse()?;
        Ok(Self { text, quantity })
    }
}

impl From<Amount> for String {
    fn from(amount: Amount) -> Self {
        amount.text
    }
}

impl From<Quantity> for Amount {
    fn from(quantity: Quantity) -> Self {
        Self {
            text: quantity.to_string(),
            quantity,
        }
    }
}

/// One object.
pub fn one() -> Quantity {
    Quantity::of_units(1)
}

/// Adds each quantity of `other` to the quantity with the same name.
pub fn add(list: &mut ResourceList, other: &ResourceList) {
    for (name, quantity) in other {
        add_one(list, name, *quantity);
    }
}

/// Adds a quantity to the quantity with the same name.
pub fn add_one(list: &mut ResourceList, name: &str, quantity: Quantity) {
    match list.get_mut(name) {
        Some(own) => *own = *own + quantity,
        None => drop(list.insert(name.into(), quantity)),
    }
}

/// Raises each quantity to the one with the same name in `other`, if that one is greater.
pub fn raise(list: &mut ResourceList, other: &ResourceList) {
    for (name, quantity) in other {
        match list.get_mut(name) {
            Some(own) if *own >= *quantity => {}
            Some(own) => *own = *quantity,
            None => drop(list.insert(name.clone(), *quantity)),
        }
    }
}
