//! The kind of a type as a constant.

use std::marker::PhantomData;

use k8s_openapi::Resource;

/// The longest text of a kind. The longest of Kubernetes's own has 65 bytes.
const MAX: usize = 256;

/// Returns the kind of a type, as in `apps/v1/Deployment`.
pub(super) const fn of<K: Resource>() -> &'static str {
    Joined::<K>::TEXT
}

struct Joined<K>(PhantomData<K>);

impl<K: Resource> Joined<K> {
    const BUFFER: &'static [u8; MAX] = &join(K::API_VERSION, K::KIND);
    const TEXT: &'static str = {
        let (text, _) = Self::BUFFER.split_at(K::API_VERSION.len() + 1 + K::KIND.len());
        match std::str::from_utf8(text) {
            Ok(text) => text,
            Err(_) => panic!("two texts and a slash are a text"),
        }
    };
}

/// Returns `API_VERSION/KIND`, filled up with zeros.
const fn join(api_version: &str, kind: &str) -> [u8; MAX] {
    let mut joined = [0; MAX];
    let (version, kind) = (api_version.as_bytes(), kind.as_bytes());
    assert!(
        version.len() + 1 + kind.len() <= MAX,
        "the kind is too long"
    );
    let mut at = 0;
    while at < version.len() {
        joined[at] = version[at];
        at += 1;
    }
    joined[at] = b'/';
    let mut from = 0;
    while from < kind.len() {
        joined[at + 1 + from] = kind[from];
        from += 1;
    }
    joined
}
