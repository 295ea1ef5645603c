//! The User-Agents of requests. The API server calls the manager of the fields that a request writes after the part
//! before the first slash.

use flyball_serving::KUBERNETES;

/// The built-in without a service account, and the name of its client in kube-controller-manager.
const TOKENS: (&str, &str) = ("serviceaccount-token-controller", "tokens-controller");

/// Returns the User-Agent of the host's own requests and of dropped-in plugins. It names this process and the request's
/// purpose.
pub fn own(holder_identity: &str, purpose: &str) -> String {
    format!("{} {purpose}", this_process(holder_identity))
}

/// Returns the User-Agent that a component of Kubernetes gives a client of this name, followed by this process.
pub(crate) fn of_component(holder_identity: &str, component: &str, client: &str) -> String {
    // client-go writes `unknown` if the binary doesn't know its commit.
    format!(
        "{component}/v{KUBERNETES} ({}/{}) kubernetes/unknown/{client} {}",
        std::env::consts::OS,
        architecture(),
        this_process(holder_identity)
    )
}

/// Returns the name of a built-in's client in kube-controller-manager: `account` is the service account that its
/// requests are made as, with its namespace. Without one, the client has the name of the account that the built-in
/// `named` has in its policy.
pub fn client(
    plugin: &str,
    account: Option<&(String, String)>,
    named: Option<&(String, String)>,
) -> String {
    match (account, named) {
        (Some((namespace, name)), _) => format!("system:serviceaccount:{namespace}:{name}"),
        (None, Some((_, name))) => name.clone(),
        (None, None) if plugin == TOKENS.0 => TOKENS.1.to_owned(),
        (None, None) => plugin.to_owned(),
    }
}

fn this_process(holder_identity: &str) -> String {
    format!("flyball/{} ({holder_identity})", env!("CARGO_PKG_VERSION"))
}

/// Go's name of the machine's architecture.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_built_in_has_the_user_agent_that_kube_controller_manager_gives_it() {
        let account = (
            "kube-system".to_owned(),
            "generic-garbage-collector".to_owned(),
        );
        let agent = |account, named| {
            let client = client("garbage-collector-controller", account, named);
            of_component("host_1", "kube-controller-manager", &client)
        };
        let start = format!("kube-controller-manager/v1.37.2 (linux/{})", architecture());
        let end = format!("flyball/{} (host_1)", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            agent(Some(&account), Some(&account)),
            format!(
                "{start} kubernetes/unknown/system:serviceaccount:kube-system:generic-garbage-collector {end}"
            )
        );
        assert_eq!(
            agent(None, Some(&account)),
            format!("{start} kubernetes/unknown/generic-garbage-collector {end}")
        );
        let tokens = client("serviceaccount-token-controller", None, None);
        assert_eq!(tokens, "tokens-controller");
    }
}
