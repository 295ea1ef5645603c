//! JSON that passes through a controller untouched, such as a pod template.

use std::fmt;

use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::Error;

/// JSON that is kept as the text that came, and costs no parsing. `null` by default.
#[derive(Clone)]
pub struct Raw(Box<RawValue>);

impl Raw {
    /// The JSON of a value.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        Self(serde_json::value::to_raw_value(value).expect("a map with string keys is valid JSON"))
    }

    /// Its text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Whether it is `null`, or was absent.
    pub fn is_null(&self) -> bool {
        self.text() == "null"
    }

    /// Reads it as a `T`; none if it is null.
    ///
    /// # Errors
    /// It is not as `T` wants it.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        serde_json::from_str(self.text())
            .map_err(|error| Error::Malformed(std::any::type_name::<T>().to_owned(), error))
    }

    /// It as a tree.
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_str(self.text()).expect("a raw value is valid JSON")
    }
}

impl Default for Raw {
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Equal if the text is the same.
impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl From<serde_json::Value> for Raw {
    fn from(value: serde_json::Value) -> Self {
        Self::of(&value)
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}
