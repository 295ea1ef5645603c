//! Who may ask: links that are valid once, and the sessions of browsers that signed in.
//!
//! A session has two secrets. The browser keeps its ID in a cookie that no code of the page can read. The page keeps its
//! key, and sends it in a header. A cookie alone is not enough on loopback, since a browser sends it to every port of an
//! address, and another user may listen on one of them; the page's storage belongs to one port.

use std::collections::VecDeque;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{COOKIE, HeaderName, HeaderValue};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// The header with the key of a session.
pub(crate) const KEY: HeaderName = HeaderName::from_static("x-flyball-key");
/// How long a session lasts.
const SESSION: Duration = Duration::from_secs(12 * 3600);
/// The most sessions at once. A further one ends the oldest.
const MOST_SESSIONS: usize = 64;
/// How long a link that nobody opens is valid.
const LINK: Duration = Duration::from_secs(15 * 60);
/// The most links at once that nobody has opened. A further one ends the oldest.
const MOST_LINKS: usize = 8;

/// A hash of a secret: hashes are compared, so that the time that it takes tells nothing about the secret.
type Hash = [u8; 32];

/// The links that nobody has opened yet.
#[derive(Default)]
pub(crate) struct Links(Mutex<VecDeque<Link>>);

struct Link {
    token: Hash,
    until: Instant,
    /// It stays known after its use, so that a second use is noticed.
    is_used: bool,
}

/// Why a link opens nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LinkError {
    /// Somebody has opened it before.
    #[error("this link was opened before, and each is valid once: run `flyball dashboard` again")]
    Used,
    /// It is too old, or it never was a link of this server.
    #[error("this link is not valid, or not any more: run `flyball dashboard` again")]
    Unknown,
}

/// The sessions of browsers.
pub(crate) struct Sessions {
    cookie: String,
    /// The cookie is sent over HTTPS alone.
    is_secure: bool,
    open: Mutex<VecDeque<Session>>,
}

struct Session {
    id: Hash,
    key: Hash,
    until: Instant,
    /// The token of the user, which is reviewed again for each request; none on loopback.
    token: Option<HeaderValue>,
}

/// The secrets of a new session, for the browser alone.
pub(crate) struct Opened {
    /// The value of `Set-Cookie`.
    pub(crate) cookie: String,
    pub(crate) key: String,
}

impl Links {
    /// Returns the token of a new link.
    pub(crate) fn add(&self) -> String {
        let token = secret();
        let mut links = self.0.lock();
        if links.len() == MOST_LINKS {
            links.pop_front();
        }
        links.push_back(Link {
            token: hash(&token),
            until: Instant::now() + LINK,
            is_used: false,
        });
        token
    }

    /// Uses a link up.
    pub(crate) fn open(&self, token: &str) -> Result<(), LinkError> {
        let (token, now) = (hash(token), Instant::now());
        let mut links = self.0.lock();
        let link = links.iter_mut().find(|link| link.token == token);
        match link {
            Some(link) if link.is_used => Err(LinkError::Used),
            Some(link) if link.until > now => {
                link.is_used = true;
                Ok(())
            }
            _ => Err(LinkError::Unknown),
        }
    }
}

impl Sessions {
    /// The sessions of a server. Each server has a cookie of its own, since those on other ports of the same address
    /// would overwrite it.
    pub(crate) fn new(is_secure: bool) -> Self {
        let number: u32 = rand::random();
        Self {
            cookie: format!("flyball-dashboard-{number:08x}"),
            is_secure,
            open: Mutex::default(),
        }
    }

    /// Begins a session.
    pub(crate) fn begin(&self, token: Option<HeaderValue>) -> Opened {
        let (id, key) = (secret(), secret());
        let mut open = self.open.lock();
        let now = Instant::now();
        open.retain(|session| session.until > now);
        if open.len() == MOST_SESSIONS {
            open.pop_front();
        }
        open.push_back(Session {
            id: hash(&id),
            key: hash(&key),
            until: now + SESSION,
            token,
        });
        let secure = if self.is_secure { "; Secure" } else { "" };
        Opened {
            cookie: format!(
                "{}={id}; Path={}/; Max-Age={}; HttpOnly; SameSite=Strict{secure}",
                self.cookie,
                crate::ROOT,
                SESSION.as_secs()
            ),
            key,
        }
    }

    /// Returns the token of the session that a request belongs to: `Some(None)` for a session without one, none without
    /// a session.
    pub(crate) fn find(&self, headers: &HeaderMap) -> Option<Option<HeaderValue>> {
        let (id, key) = self.secrets(headers)?;
        let now = Instant::now();
        let open = self.open.lock();
        let mut open = open.iter().filter(|session| session.until > now);
        let session = open.find(|session| session.id == id && session.key == key)?;
        Some(session.token.clone())
    }

    /// Ends the session that a request belongs to.
    pub(crate) fn end(&self, headers: &HeaderMap) {
        if let Some((id, key)) = self.secrets(headers) {
            let mut open = self.open.lock();
            open.retain(|session| session.id != id || session.key != key);
        }
    }

    fn secrets(&self, headers: &HeaderMap) -> Option<(Hash, Hash)> {
        let key = headers.get(KEY)?.to_str().ok()?;
        let cookies = headers.get_all(COOKIE).iter();
        let cookies = cookies.filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|value| value.split(';'));
        let id = pairs.find_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.cookie).then_some(value)
        })?;
        Some((hash(id), hash(key)))
    }
}

/// Returns 256 random bits as text.
fn secret() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}

fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(opened: &Opened, key: &str) -> HeaderMap {
        let cookie = opened.cookie.split(';').next().expect("a pair");
        let value = |text: &str| HeaderValue::from_str(text).expect("a header");
        HeaderMap::from_iter([
            (COOKIE, value(&format!("other=1; {cookie}"))),
            (KEY, value(key)),
        ])
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_is_valid_once_and_for_a_while() {
        let links = Links::default();
        let (first, second) = (links.add(), links.add());
        assert_eq!(links.open("guessed"), Err(LinkError::Unknown));
        assert_eq!(links.open(&first), Ok(()));
        assert_eq!(links.open(&first), Err(LinkError::Used));
        tokio::time::advance(LINK).await;
        assert_eq!(links.open(&second), Err(LinkError::Unknown));
        assert_eq!(links.open(&first), Err(LinkError::Used));
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_needs_its_cookie_and_its_key_and_ends() {
        let sessions = Sessions::new(true);
        let opened = sessions.begin(Some(HeaderValue::from_static("Bearer a")));
        for part in ["HttpOnly", "SameSite=Strict", "Secure", "Path=/dashboard/"] {
            assert!(opened.cookie.contains(part), "{}", opened.cookie);
        }
        let own = headers(&opened, &opened.key);
        let token = sessions.find(&own).expect("a session");
        assert_eq!(token.expect("a token"), "Bearer a");

        let mut without_key = own.clone();
        without_key.remove(KEY);
        let mut without_cookie = own.clone();
        without_cookie.remove(COOKIE);
        let other = sessions.begin(None);
        let mixed = headers(&opened, &other.key);
        for refused in [&without_key, &without_cookie, &mixed] {
            assert!(sessions.find(refused).is_none(), "{refused:?}");
        }
        assert!(Sessions::new(true).find(&own).is_none(), "another server's");

        sessions.end(&own);
        assert!(sessions.find(&own).is_none());
        let other = headers(&other, &other.key);
        assert!(sessions.find(&other).is_some());
        tokio::time::advance(SESSION).await;
        assert!(sessions.find(&other).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_sessions_is_bounded() {
        let sessions = Sessions::new(false);
        let first = sessions.begin(None);
        let first = headers(&first, &first.key);
        (1..MOST_SESSIONS).for_each(|_| drop(sessions.begin(None)));
        assert!(sessions.find(&first).is_some());
        drop(sessions.begin(None));
        assert!(sessions.find(&first).is_none());
        assert_eq!(sessions.open.lock().len(), MOST_SESSIONS);
    }
}
