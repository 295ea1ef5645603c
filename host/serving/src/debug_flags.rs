//! `/debug/flags`: flags that may change while the process runs. There is one, `v`.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};

use crate::response::{FullResponse, response};

/// Sets the verbosity of the log.
pub type SetVerbosity = Arc<dyn Fn(i32) + Send + Sync>;

/// Responds to a request for `/debug/flags/v`, whose body is the new value.
pub(crate) async fn verbosity(
    method: &Method,
    body: impl Future<Output = Option<Bytes>>,
    set: &SetVerbosity,
) -> FullResponse {
    if method != Method::PUT {
        return plain(StatusCode::NOT_ACCEPTABLE, "unsupported http method");
    }
    let Some(body) = body.await else {
        return plain(StatusCode::BAD_REQUEST, "error reading request body");
    };
    match parse(&String::from_utf8_lossy(&body)) {
        Ok(level) => {
            set(level);
            let done = format!("successfully set klog.logging.verbosity to {level}");
            plain(StatusCode::OK, &done)
        }
        Err(reason) => plain(StatusCode::BAD_REQUEST, &reason),
    }
}

/// Reads a number as Go does, with its words in the error.
fn parse(text: &str) -> Result<i32, String> {
    let quoted = || format!("strconv.ParseUint: parsing {text:?}");
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{}: invalid syntax", quoted()));
    }
    text.parse()
        .map_err(|_| format!("{}: value out of range", quoted()))
}

/// The list of flags.
pub(crate) fn index() -> FullResponse {
    let page = "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\nflags:<br>\n<table>\n\
                <tr>v<br>\n</table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n";
    response(StatusCode::OK, "text/html; charset=utf-8", page)
}

fn plain(code: StatusCode, line: &str) -> FullResponse {
    response(code, "text/plain", format!("{line}\n"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI32, Ordering};

    use http_body_util::BodyExt;

    use super::*;

    async fn put(body: &str, method: Method) -> (StatusCode, String, i32) {
        let level = Arc::new(AtomicI32::new(-1));
        let seen = level.clone();
        let set: SetVerbosity = Arc::new(move |level| seen.store(level, Ordering::Relaxed));
        let body = Bytes::copy_from_slice(body.as_bytes());
        let response = verbosity(&method, async { Some(body) }, &set).await;
        let code = response.status();
        let text = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        (code, text, level.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn a_put_sets_the_verbosity_and_nothing_else_does() {
        let (code, text, level) = put("4", Method::PUT).await;
        let done = "successfully set klog.logging.verbosity to 4\n";
        assert_eq!((code, text.as_str(), level), (StatusCode::OK, done, 4));
        let (code, text, level) = put("4", Method::GET).await;
        let refused = "unsupported http method\n";
        assert_eq!(
            (code, text.as_str(), level),
            (StatusCode::NOT_ACCEPTABLE, refused, -1)
        );
    }

    #[tokio::test]
    async fn a_value_that_is_no_number_is_refused_in_the_words_of_go() {
        for (value, reason) in [
            ("high", "parsing \"high\": invalid syntax"),
            ("-1", "parsing \"-1\": invalid syntax"),
            ("", "parsing \"\": invalid syntax"),
            ("99999999999", "parsing \"99999999999\": value out of range"),
        ] {
            let (code, text, level) = put(value, Method::PUT).await;
            assert_eq!((code, level), (StatusCode::BAD_REQUEST, -1));
            assert_eq!(text, format!("strconv.ParseUint: {reason}\n"));
        }
    }
}
