//! The files of the page, which the binary holds, and the headers that they are served with.

use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Response};

/// A file of the page.
pub(crate) struct Asset {
    pub(crate) content_type: &'static str,
    pub(crate) body: &'static str,
}

/// The files by their paths below the root of the dashboard. The page itself has an empty path.
const ASSETS: &[(&str, Asset)] = &[
    ("", html(include_str!("../assets/index.html"))),
    ("style.css", css(include_str!("../assets/style.css"))),
    ("icon.svg", svg(include_str!("../assets/icon.svg"))),
    ("app.js", script(include_str!("../assets/app.js"))),
    ("causes.js", script(include_str!("../assets/causes.js"))),
    ("chart.js", script(include_str!("../assets/chart.js"))),
    ("dom.js", script(include_str!("../assets/dom.js"))),
    ("format.js", script(include_str!("../assets/format.js"))),
    ("live.js", script(include_str!("../assets/live.js"))),
    ("object.js", script(include_str!("../assets/object.js"))),
    ("plugin.js", script(include_str!("../assets/plugin.js"))),
    ("plugins.js", script(include_str!("../assets/plugins.js"))),
    (
        "rehearsal.js",
        script(include_str!("../assets/rehearsal.js")),
    ),
    ("signin.js", script(include_str!("../assets/signin.js"))),
    ("table.js", script(include_str!("../assets/table.js"))),
];

/// Nothing but the dashboard's own files and requests; no frames, no forms that lead elsewhere, and no text that becomes
/// code. Styles that a script sets on an element are not affected.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

const fn html(body: &'static str) -> Asset {
    Asset {
        content_type: "text/html; charset=utf-8",
        body,
    }
}

const fn css(body: &'static str) -> Asset {
    Asset {
        content_type: "text/css; charset=utf-8",
        body,
    }
}

const fn svg(body: &'static str) -> Asset {
    Asset {
        content_type: "image/svg+xml",
        body,
    }
}

const fn script(body: &'static str) -> Asset {
    Asset {
        content_type: "text/javascript; charset=utf-8",
        body,
    }
}

/// Returns the file with this path below the root.
pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    let found = ASSETS.iter().find(|(name, _)| *name == path);
    found.map(|(_, asset)| asset)
}

/// Sets the headers that every response of the dashboard has.
pub(crate) fn protect<B>(response: &mut Response<B>, content_type: &'static str) {
    let all = [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        // The page is small and its server near; another version of the host has another page at the same address.
        (CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (HeaderName::from_static("x-frame-options"), "DENY"),
    ];
    let headers: &mut HeaderMap = response.headers_mut();
    for (name, value) in all {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn each_file_in_the_folder_is_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let files = std::fs::read_dir(folder).expect("the folder").map(|file| {
            let name = file.expect("a file").file_name();
            name.into_string().expect("a name")
        });
        let served = ASSETS.iter().map(|(path, _)| match *path {
            "" => "index.html".to_owned(),
            path => path.to_owned(),
        });
        let (files, served): (BTreeSet<_>, BTreeSet<_>) = (files.collect(), served.collect());
        assert_eq!(files, served);
    }

    #[test]
    fn no_file_names_another_server() {
        for (path, asset) in ASSETS {
            let links = asset.body.match_indices("://");
            for (at, _) in links {
                let from = asset.body.floor_char_boundary(at.saturating_sub(16));
                let to = asset
                    .body
                    .ceil_char_boundary((at + 40).min(asset.body.len()));
                let found = &asset.body[from..to];
                assert!(
                    found.contains("http://www.w3.org/2000/svg"),
                    "{path}: {found}"
                );
            }
        }
    }
}
