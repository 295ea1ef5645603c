//! Live reads, for cases in which the cache is not enough.

use flyball_types::ApiError;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::host::kind_of_release;
use crate::imports::{Imports, Read};
use crate::malformed::{self, parse};
use crate::view::View;

/// Objects per page of [`Live::each`]; the same as client-go's page size.
pub const PAGE: u32 = 500;

/// Live reads: [`Host::live`](crate::Host::live).
#[derive(Clone, Copy)]
pub struct Live<'a> {
    imports: &'a dyn Imports,
}

impl<'a> Live<'a> {
    pub(crate) fn new(imports: &'a dyn Imports) -> Self {
        Self { imports }
    }

    /// Reads an object; `None` if it does not exist.
    ///
    /// # Errors
    /// The request failed, or the object does not fit the view.
    pub fn get<T: View>(&self, namespace: &str, name: &str) -> Result<Option<T>, Error> {
        self.get_of(
            kind_of_release::<T>(self.imports),
            namespace,
            name,
            T::FIELDS,
        )
    }

    /// Does the same as [`get`](Self::get), for a kind that is only known at run time.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_of<T: DeserializeOwned>(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[&str],
    ) -> Result<Option<T>, Error> {
        let read = Read::Get {
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
            fields: owned(fields),
        };
        match self.one(read) {
            Ok(bytes) => parse(&bytes, kind, namespace, name).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Lists objects. `parameters` are the API's: `labelSelector`, `fieldSelector`, `limit`, …
    ///
    /// # Errors
    /// The request failed, or an object does not fit the view.
    pub fn list<T: View>(
        &self,
        namespace: &str,
        parameters: &[(&str, &str)],
    ) -> Result<LiveList<T>, Error> {
        self.list_of(
            kind_of_release::<T>(self.imports),
            namespace,
            parameters,
            T::FIELDS,
        )
    }

    /// Calls `visit` for each object of a kind in a namespace (empty: in all namespaces), with at most [`PAGE`] objects
    /// in memory. The kind may be known only at run time; for a view, pass its `KIND` and `FIELDS`.
    ///
    /// # Errors
    /// A request failed, an object is not a valid `T`, or `visit` failed, which ends the iteration.
    pub fn each<T: DeserializeOwned>(
        &self,
        kind: &str,
        namespace: &str,
        fields: &[&str],
        mut visit: impl FnMut(T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let limit = PAGE.to_string();
        let mut token = String::new();
        loop {
            let mut parameters = vec![("limit", limit.as_str())];
            if !token.is_empty() {
                parameters.push(("continue", &token));
            }
            let page: LiveList<T> = self.list_of(kind, namespace, &parameters, fields)?;
            page.items.into_iter().try_for_each(&mut visit)?;
            if page.metadata.continue_token.is_empty() {
                return Ok(());
            }
            token = page.metadata.continue_token;
        }
    }

    fn list_of<T: DeserializeOwned>(
        &self,
        kind: &str,
        namespace: &str,
        parameters: &[(&str, &str)],
        fields: &[&str],
    ) -> Result<LiveList<T>, Error> {
        let pair = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let bytes = self.one(Read::List {
            kind: kind.into(),
            namespace: namespace.into(),
            parameters: parameters.iter().map(pair).collect(),
            fields: owned(fields),
        })?;
        flyball_types::read(&bytes)
            .map_err(|error| malformed::list(kind, &bytes, malformed::misfit::<T>, error))
    }

    /// Returns the response to a GET of a path, such as `/apis/metrics.k8s.io/v1beta1/pods`. Needs the import `raw`.
    ///
    /// # Errors
    /// The request failed, or the response is not a valid `T`.
    pub fn raw<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let bytes = self.one(Read::Raw { path: path.into() })?;
        flyball_types::read(&bytes)
            .map_err(|error| Error::malformed(format!("the response to {path}"), error))
    }

    /// A batch of reads that the host runs concurrently.
    pub fn batch(&self) -> ReadBatch<'a> {
        ReadBatch {
            imports: self.imports,
            reads: Vec::new(),
        }
    }

    fn one(&self, read: Read) -> Result<Vec<u8>, ApiError> {
        self.imports
            .reader_run(vec![read])
            .pop()
            .unwrap_or_else(|| Err(ApiError::timeout("the host returned no result").of_read()))
    }
}

/// A batch of live reads: [`Live::batch`].
#[must_use = "a batch reads nothing until it is run"]
pub struct ReadBatch<'a> {
    imports: &'a dyn Imports,
    reads: Vec<Read>,
}

impl ReadBatch<'_> {
    /// Adds a read of an object.
    pub fn get<T: View>(self, namespace: &str, name: &str) -> Self {
        let kind = kind_of_release::<T>(self.imports).into();
        self.with(Read::Get {
            kind,
            namespace: namespace.into(),
            name: name.into(),
            fields: owned(T::FIELDS),
        })
    }

    pub fn with(mut self, read: Read) -> Self {
        self.reads.push(read);
        self
    }

    /// Runs the reads. Returns one result per read, in the order in which they were added. An empty batch makes no host
    /// call.
    pub fn run(self) -> Vec<Result<ReadResult, ApiError>> {
        if self.reads.is_empty() {
            return Vec::new();
        }
        let results = self.imports.reader_run(self.reads);
        results
            .into_iter()
            .map(|result| result.map(ReadResult))
            .collect()
    }
}

/// The result of a read in a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadResult(pub Vec<u8>);

impl ReadResult {
    /// Parses the result as a `T`.
    ///
    /// # Errors
    /// The result is not a valid `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        flyball_types::read(&self.0)
            .map_err(|error| Error::malformed("the result of a read", error))
    }
}

/// A list as the API server returns it.
#[derive(Clone, Debug, Deserialize)]
pub struct LiveList<T> {
    #[serde(default)]
    pub metadata: ListMeta,
    #[serde(default = "Vec::new")]
    pub items: Vec<T>,
}

/// The metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    /// The version that the list reflects.
    pub resource_version: String,
    /// The token of the next page; empty on the last page.
    #[serde(rename = "continue")]
    pub continue_token: String,
    /// How many objects follow after this page. `None` if the server doesn't say so: on the last page, and for lists by
    /// selectors.
    pub remaining_item_count: Option<i64>,
}

/// Appends a segment to the path of a [raw read](Live::raw), with escapes. The host refuses segments that contain a
/// slash or another character with a special meaning.
pub fn push_segment(path: &mut String, segment: &str) {
    path.push('/');
    escape(path, segment);
}

/// Appends a parameter to the path of a [raw read](Live::raw), with escapes; nothing if the value is empty.
pub fn push_parameter(path: &mut String, name: &str, value: &str) {
    if value.is_empty() {
        return;
    }
    path.push(if path.contains('?') { '&' } else { '?' });
    path.push_str(name);
    path.push('=');
    escape(path, value);
}

fn escape(path: &mut String, text: &str) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:*".contains(&byte) {
            path.push(byte.into());
        } else {
            path.push('%');
            path.push(DIGITS[usize::from(byte >> 4)].into());
            path.push(DIGITS[usize::from(byte & 15)].into());
        }
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::Cluster;

    fn pod(name: String) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "a"}})
    }

    #[test]
    fn segments_and_parameters_are_escaped() {
        let mut path = "/apis".to_owned();
        push_segment(&mut path, "a|b@c");
        push_parameter(&mut path, "labelSelector", "");
        push_parameter(&mut path, "labelSelector", "app in (a,b)");
        push_parameter(&mut path, "limit", "5");
        assert_eq!(
            path,
            "/apis/a%7Cb%40c?labelSelector=app%20in%20%28a%2Cb%29&limit=5"
        );
    }

    #[test]
    fn a_long_live_list_is_read_in_pages() {
        let count = 2 * PAGE + 1;
        let cluster = Cluster::with((0..count).map(|n| pod(format!("{n:04}"))));
        let mut names = Vec::new();
        let visit = |pod: Value| {
            names.push(pod["metadata"]["name"].as_str().unwrap().to_owned());
            Ok(())
        };
        let live = cluster.host().live();
        live.each("v1/Pod", "a", &["spec"], visit).unwrap();
        assert_eq!(
            names,
            (0..count).map(|n| format!("{n:04}")).collect::<Vec<_>>()
        );
        assert_eq!(
            cluster.live_reads(),
            ["list v1/Pod a", "list v1/Pod a", "list v1/Pod a"]
        );
    }

    #[test]
    fn a_batch_returns_its_results_in_the_order_of_its_reads() {
        let cluster = Cluster::with([pod("web".into())]);
        let get = |name: &str| Read::Get {
            kind: "v1/Pod".into(),
            namespace: "a".into(),
            name: name.into(),
            fields: vec!["metadata.name".into()],
        };
        let host = cluster.host();
        let batch = host.live().batch().with(get("lost")).with(get("web"));
        let results = batch.run();
        assert!(results[0].as_ref().unwrap_err().is_not_found());
        let found: Value = results[1].as_ref().unwrap().parse().unwrap();
        assert_eq!(found["metadata"]["name"], "web");
        assert_eq!(host.live().batch().run(), []);
    }
}
