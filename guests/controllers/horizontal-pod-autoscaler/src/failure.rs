//! The text of errors in events and conditions: the same as kube-controller-manager's.

use flyball_sdk::prelude::*;

/// The text of a failed raw read of a resource, and of one object unless `name` is empty. If the answer has no message
/// of the API, for example because the server does not serve the path, the text is the one of Kubernetes' client.
pub fn of_read(error: &Error, resource: &str, name: &str) -> String {
    let Some(api) = error.api() else {
        return error.to_string();
    };
    // The host's words for such an answer.
    let is_bare = api.message.starts_with("GET /") && api.message.contains(" was answered with ");
    if !is_bare {
        return api.message.clone();
    }
    let text = match api.status {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        _ => return api.message.clone(),
    };
    let space = if name.is_empty() { "" } else { " " };
    format!("{text} (get {resource}{space}{name})")
}

/// The text of an error. For an API error, it is the server's message.
pub fn of(error: &Error) -> String {
    error
        .api()
        .map_or_else(|| error.to_string(), |error| error.message.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_a_message_has_the_text_of_the_client() {
        let text = |status, message: &str, name| {
            let error = ApiError::of_server(status, "", message);
            of_read(&error.into(), "pods.metrics.k8s.io", name)
        };
        let bare = "GET /apis/x was answered with 404 Not Found: 404 page not found";
        assert_eq!(
            text(404, bare, ""),
            "the server could not find the requested resource (get pods.metrics.k8s.io)"
        );
        assert_eq!(
            text(503, bare, "*"),
            "the server is currently unable to handle the request (get pods.metrics.k8s.io *)"
        );
        assert_eq!(text(404, "no such thing", ""), "no such thing");
        assert_eq!(text(418, bare, ""), bare);
    }
}
