//! The text of errors in events and conditions: the same as kube-controller-manager's.

use flyball_sdk::prelude::*;

/// The text of a failed raw read of a resource, and of one object unless `name` is empty. If the answer is no object of
/// the API, for example because a proxy answered for the server, the text is the one of Kubernetes' client.
pub fn of_read(error: &Error, resource: &str, name: &str) -> String {
    let Some(api) = error.api() else {
        return error.to_string();
    };
    let Some(body) = plain_body(&api.message) else {
        return api.message.clone();
    };
    let text = match api.status {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 | 415 => body.to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        406 if body.is_empty() || body == UNREADABLE => {
            "the server was unable to respond with a content type that the client supports"
                .to_owned()
        }
        406 => body.to_owned(),
        409 => "the server reported a conflict".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => {
            "the server has received too many requests and has asked us to try again later".to_owned()
        }
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
                .to_owned()
        }
        500.. => {
            format!("an error on the server ({body:?}) has prevented the request from succeeding")
        }
        other => format!(
            "the server responded with the status code {other} but did not return more information"
        ),
    };
    let space = if name.is_empty() { "" } else { " " };
    format!("{text} (get {resource}{space}{name})")
}

/// Stands for a body that is not text.
const UNREADABLE: &str = "unknown";

/// Returns the body of an answer that is no object of the API, from the host's message about it.
fn plain_body(message: &str) -> Option<&str> {
    let (request, answer) = message.split_once(" was answered with ")?;
    if !request.starts_with("GET /") {
        return None;
    }
    let body = answer.split_once(": ").map_or("", |(_, body)| body.trim());
    // Kubernetes' client shows text only, and knows JSON by its content type.
    Some(if body.starts_with(['{', '[']) {
        UNREADABLE
    } else {
        body
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_a_message_has_the_text_of_the_client() {
        let text = |status, answer: &str, name| {
            let message = format!("GET /apis/x was answered with {status} Something: {answer}");
            let error = ApiError::of_server(status, "", message);
            of_read(&error.into(), "pods.metrics.k8s.io", name)
        };
        assert_eq!(
            text(404, "404 page not found", ""),
            "the server could not find the requested resource (get pods.metrics.k8s.io)"
        );
        assert_eq!(
            text(503, "busy", "*"),
            "the server is currently unable to handle the request (get pods.metrics.k8s.io *)"
        );
        assert_eq!(
            text(502, "no \"backend\"\n", ""),
            r#"an error on the server ("no \"backend\"") has prevented the request from succeeding (get pods.metrics.k8s.io)"#
        );
        assert_eq!(
            text(500, r#"{"a": 1}"#, ""),
            r#"an error on the server ("unknown") has prevented the request from succeeding (get pods.metrics.k8s.io)"#
        );
        assert_eq!(
            text(403, "not you\n", ""),
            "not you (get pods.metrics.k8s.io)"
        );
        assert_eq!(
            text(418, "", ""),
            "the server responded with the status code 418 but did not return more information (get pods.metrics.k8s.io)"
        );
    }

    #[test]
    fn a_message_of_the_server_stays() {
        let error = ApiError::of_server(404, "NotFound", "no such thing");
        assert_eq!(of_read(&error.into(), "pods", "web"), "no such thing");
    }
}
