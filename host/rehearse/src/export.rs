//! Takes calls out of the host: each line of a recording, without the data of Secrets unless it is asked for.

use flyball_recording::{Call, Header, file, secrets};

/// Why a call is not part of a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotExported {
    #[error(transparent)]
    TooMany(#[from] secrets::TooMany),
    /// A fault of the host, which wrote the line.
    #[error("the host can't read a call that it recorded: {0}")]
    Malformed(#[from] flyball_recording::Malformed),
    /// It grew, because what is hidden stands in another form.
    #[error("the call is too large for a recording")]
    TooLarge,
}

/// Returns a line that the host holds as a line of the recording with this header. Takes time in proportion to its
/// length, unless the recording has the data of Secrets.
///
/// # Errors
/// The call can't be exported without the data of Secrets.
pub fn export(header: &Header, line: &[u8]) -> Result<Vec<u8>, NotExported> {
    if header.with_secrets {
        return Ok(line.to_vec());
    }
    let mut call: Call = file::call(line)?;
    secrets::hide(&mut call, header.reads_secrets)?;
    file::call_line(&call).ok_or(NotExported::TooLarge)
}

/// Returns whether a line that the host holds is a reconcile of this key.
pub fn is_of_key(line: &[u8], key: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Line {
        call: flyball_recording::Input,
    }
    serde_json::from_slice::<Line>(line).is_ok_and(|line| line.call.key() == Some(key))
}

#[cfg(test)]
mod tests {
    use flyball_recording::{Ended, Input, Kept, Step, answer, asked};
    use serde_json::json;

    use super::*;

    fn line() -> Vec<u8> {
        let none: [&str; 0] = [];
        let asked = asked::lister_get("v1/Secret", "a", "s", &none);
        let answered = json!({"ok": {"object": {"data": {"password": "aHVudGVyMg=="}}}});
        let call = Call {
            call: Input::Reconcile {
                queue: "q".into(),
                key: "a/b".into(),
                attempt: 0,
            },
            digest: String::new(),
            began: String::new(),
            took_ms: 0.0,
            kept: Kept::Failed,
            hidden: 0,
            steps: vec![Step {
                import: asked.import.into(),
                asked: answer::write(&asked.arguments),
                answered: Some(answer::write(&answered)),
            }],
            ended: Ended::Done {},
        };
        file::call_line(&call).unwrap()
    }

    fn exported(with_secrets: bool) -> String {
        let header = Header {
            with_secrets,
            ..Header::default()
        };
        String::from_utf8(export(&header, &line()).unwrap()).unwrap()
    }

    #[test]
    fn a_call_leaves_the_host_with_the_data_of_secrets_only_if_it_is_asked_for() {
        assert!(exported(true).contains("aHVudGVyMg=="));
        let hidden = exported(false);
        assert!(hidden.contains("AAAAAAAAAA=="), "{hidden}");
        assert!(!hidden.contains("aHVudGVyMg=="));
        assert!(hidden.ends_with('\n'));
    }

    #[test]
    fn the_key_of_a_line_is_found() {
        assert!(is_of_key(&line(), "a/b"));
        assert!(!is_of_key(&line(), "a/c"));
        assert!(!is_of_key(b"{}", "a/c"));
    }
}
