//! `/debug/pprof/`: profiles of the process in the format that `go tool pprof` reads.
//!
//! A profile of the heap needs another allocator, which takes more memory whether or not it is used
//! (`docs/serving.md`), so only builds with the feature `heap-profiles` have it. The profiles of goroutines, threads
//! and contention are Go's own.

mod format;
#[cfg(feature = "heap-profiles")]
mod heap;
mod sampler;
mod symbols;

use std::fmt::Write;

use bytes::Bytes;
use http::header::{CONTENT_DISPOSITION, HeaderName, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use tokio::time::Duration;

use crate::response::{FullResponse, response, text};

/// The default time for which the process is sampled.
const DEFAULT_SECONDS: u64 = 30;
/// The longest time of a profile, because a connection is closed at its maximum age.
const MAX_SECONDS: u64 = 300;

/// Responds to a request for a path under `/debug/pprof`.
pub(crate) async fn respond(
    method: &Method,
    path: &str,
    query: &str,
    body: impl Future<Output = Option<Bytes>>,
) -> FullResponse {
    match path {
        "" => index(),
        "profile" => profile(query).await,
        #[cfg(feature = "heap-profiles")]
        "heap" => heap::profile().await,
        "symbol" => {
            let asked = match *method {
                Method::POST => body.await.unwrap_or_default(),
                _ => Bytes::copy_from_slice(query.as_bytes()),
            };
            let looked_up = tokio::task::spawn_blocking(move || symbol(&asked)).await;
            text(StatusCode::OK, looked_up.unwrap_or_default())
        }
        _ => failed(StatusCode::NOT_FOUND, "Unknown profile"),
    }
}

/// Redirects to the index.
pub(crate) fn redirect() -> FullResponse {
    let to = "/debug/pprof/";
    let body = format!("<a href=\"{to}\">Found</a>.\n\n");
    let mut response = response(StatusCode::FOUND, "text/html; charset=utf-8", body);
    let to = HeaderValue::from_static(to);
    response.headers_mut().insert(LOCATION, to);
    response
}

fn index() -> FullResponse {
    let heap = match cfg!(feature = "heap-profiles") {
        true => "<p>\n<a href='heap'>heap</a>: memory in use, by where it was allocated\n</p>\n",
        false => "",
    };
    let page = format!(
        "<html>\n<head>\n<title>/debug/pprof/</title>\n</head>\n<body>\n/debug/pprof/<br>\n<p>\n\
         <a href='profile?seconds=30'>profile</a>: CPU time of the process, sampled for the given seconds; open it \
         with <code>go tool pprof</code>\n</p>\n{heap}</body>\n</html>\n"
    );
    response(StatusCode::OK, "text/html; charset=utf-8", page)
}

/// Samples the process for the seconds of the query.
async fn profile(query: &str) -> FullResponse {
    let asked = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "seconds");
    let seconds = asked.and_then(|(_, value)| value.parse().ok());
    let seconds = seconds.filter(|seconds| *seconds > 0);
    let seconds = seconds.unwrap_or(DEFAULT_SECONDS);
    if seconds > MAX_SECONDS {
        let reason = format!("profile duration exceeds {MAX_SECONDS} s");
        return failed(StatusCode::BAD_REQUEST, &reason);
    }
    let samples = match sampler::sample(Duration::from_secs(seconds)).await {
        Ok(samples) => samples,
        Err(error) => {
            let reason = format!("Could not enable CPU profiling: {error}");
            return failed(StatusCode::INTERNAL_SERVER_ERROR, &reason);
        }
    };
    let Ok(encoded) = tokio::task::spawn_blocking(move || format::encode(&samples)).await else {
        return failed(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the profile could not be written",
        );
    };
    download("attachment; filename=\"profile\"", encoded)
}

/// A profile that browsers save under the name in the header `Content-Disposition`.
fn download(disposition: &'static str, profile: Vec<u8>) -> FullResponse {
    let mut response = response(StatusCode::OK, "application/octet-stream", profile);
    let disposition = HeaderValue::from_static(disposition);
    response
        .headers_mut()
        .insert(CONTENT_DISPOSITION, disposition);
    response
}

/// Returns the names of functions, given their addresses as `0x1+0x2`.
fn symbol(asked: &[u8]) -> String {
    let mut answer = "num_symbols: 1\n".to_owned();
    for token in String::from_utf8_lossy(asked).split('+') {
        let digits = token.trim().trim_start_matches("0x");
        let address = usize::from_str_radix(digits, 16).unwrap_or_default();
        // The last function is the one that the others are inlined into.
        if let Some(symbol) = symbols::resolve(address).last().filter(|_| address != 0) {
            let _ = writeln!(answer, "{address:#x} {}", symbol.name);
        }
    }
    symbols::forget();
    answer
}

/// An error in the form that `go tool pprof` shows.
fn failed(code: StatusCode, reason: &str) -> FullResponse {
    let mut response = text(code, format!("{reason}\n"));
    let headers = response.headers_mut();
    headers.insert(
        HeaderName::from_static("x-go-pprof"),
        HeaderValue::from_static("1"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(path: &str, query: &str) -> FullResponse {
        respond(&Method::GET, path, query, async { None }).await
    }

    #[tokio::test]
    async fn profiles_that_only_go_has_are_unknown() {
        let heap = (!cfg!(feature = "heap-profiles")).then_some("heap");
        for name in ["goroutine", "cmdline", "trace"].into_iter().chain(heap) {
            let response = get(name, "").await;
            assert_eq!(response.status(), StatusCode::NOT_FOUND, "{name}");
            assert_eq!(response.headers()["x-go-pprof"], "1");
        }
        assert_eq!(get("", "").await.status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn a_profile_that_takes_too_long_is_refused() {
        let response = get("profile", "seconds=301").await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    }

    /// Calls nothing that is inlined: the debug information of this profile has the modules of such functions only.
    fn probe() -> u8 {
        7
    }

    #[test]
    fn the_name_of_a_function_is_found_by_its_address() {
        let address = probe as fn() -> u8 as usize;
        let answer = symbol(format!("{address:#x}+0x0").as_bytes());
        assert!(answer.starts_with("num_symbols: 1\n"), "{answer}");
        assert!(answer.contains("profiling::"), "{answer}");
        assert_eq!(answer.lines().count(), 2, "{answer}");
    }
}
