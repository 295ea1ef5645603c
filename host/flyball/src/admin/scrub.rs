//! Removes what looks like a secret from a text that leaves the machine. It is the last line of defence: what is known to
//! be a secret isn't in the text in the first place.

/// Stands for a secret.
const REMOVED: &str = "REMOVED";
/// The beginning of each JSON Web Token: `{"` in base64.
const TOKEN: &str = "eyJ";
/// The words before credentials in the `Authorization` header.
const SCHEMES: [&str; 2] = ["Bearer ", "Basic "];

/// Replaces private keys in PEM, JSON Web Tokens, credentials of `Authorization` headers, and the users of URLs.
pub(super) fn scrub(text: &str) -> String {
    let text = without_private_keys(text);
    let text = without(&text, TOKEN, |rest| {
        let token = word(rest, "._-");
        let is_token = token.bytes().filter(|byte| *byte == b'.').count() >= 2;
        is_token.then_some((0, token.len()))
    });
    let text = SCHEMES.iter().fold(text, |text, scheme| {
        without(&text, scheme, |rest| {
            let credentials = word(&rest[scheme.len()..], "._-~+/=");
            (!credentials.is_empty()).then_some((scheme.len(), credentials.len()))
        })
    });
    without(&text, "://", |rest| {
        let authority = &rest[3..];
        let end = authority.find(|c: char| "/?#\"'\\<>".contains(c) || c.is_whitespace());
        let authority = &authority[..end.unwrap_or(authority.len())];
        let user = authority.rfind('@')?;
        Some((3, user))
    })
}

/// Replaces, at each place of `mark`, the part that `secret` returns: where it begins and its length, in bytes from the
/// mark.
fn without(text: &str, mark: &str, secret: impl Fn(&str) -> Option<(usize, usize)>) -> String {
    let (mut kept, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(mark) {
        let (before, from) = rest.split_at(at);
        kept.push_str(before);
        let (begin, length) = secret(from).unwrap_or((mark.len(), 0));
        kept.push_str(&from[..begin]);
        if length > 0 {
            kept.push_str(REMOVED);
        }
        rest = &from[begin + length..];
    }
    kept + rest
}

fn without_private_keys(text: &str) -> String {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "-----END ";
    without(text, BEGIN, |rest| {
        let label = rest[BEGIN.len()..].split_once("-----")?.0;
        if !label.ends_with("PRIVATE KEY") {
            return None;
        }
        let begin = BEGIN.len() + label.len() + 5;
        // One that was cut off ends with the text.
        let end = rest.find(END).unwrap_or(rest.len());
        Some((begin, end.saturating_sub(begin)))
    })
}

/// The letters, digits and these characters at the beginning of a text.
fn word<'a>(text: &'a str, others: &str) -> &'a str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !others.contains(c));
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_replaced_and_the_rest_stays() {
        for (text, expected) in [
            ("a pod was created", "a pod was created"),
            (
                "token eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln_-x, then",
                "token REMOVED, then",
            ),
            ("eyJ is no token", "eyJ is no token"),
            (
                "Authorization: Bearer abc.def=, x",
                "Authorization: Bearer REMOVED, x",
            ),
            ("Bearer ", "Bearer "),
            (
                r#"{"url":"https://me:pass@db:5432/x?y"}"#,
                r#"{"url":"https://REMOVED@db:5432/x?y"}"#,
            ),
            ("see https://example.com/a@b", "see https://example.com/a@b"),
            (
                "key -----BEGIN EC PRIVATE KEY-----\\nMHc\\n-----END EC PRIVATE KEY-----\\n!",
                "key -----BEGIN EC PRIVATE KEY-----REMOVED-----END EC PRIVATE KEY-----\\n!",
            ),
            (
                "-----BEGIN PRIVATE KEY-----\nMIGH",
                "-----BEGIN PRIVATE KEY-----REMOVED",
            ),
            (
                "-----BEGIN CERTIFICATE-----\nMIIB",
                "-----BEGIN CERTIFICATE-----\nMIIB",
            ),
        ] {
            assert_eq!(scrub(text), expected);
        }
    }

    #[test]
    fn a_text_that_was_scrubbed_stays_as_it_is() {
        let text = "Bearer abc https://a:b@c -----BEGIN PRIVATE KEY-----x-----END PRIVATE KEY-----";
        let once = scrub(text);
        assert_eq!(scrub(&once), once);
    }
}
