//! Lists the pods of an owner and reads five fields of each, as a controller does to count them.

use flyball_sdk::prelude::*;

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
struct Pod {
    #[view(path = "metadata.name")]
    name: String,
    #[view(path = "spec.nodeName")]
    node: String,
    #[view(path = "status.phase")]
    phase: String,
    #[view(path = "status.conditions[type=Ready].status")]
    ready: String,
    #[view(path = "status.podIP")]
    address: String,
}

/// Counts pods. A key is `COUNT/UID`: the reconcile fails unless COUNT pods of this owner are ready.
/// Other keys are ignored.
pub struct Scan;

export!(Scan);

impl Controller for Scan {
    fn describe() -> Description {
        describe("scan", env!("CARGO_PKG_VERSION"))
            .watch(watch::<Pod>().enqueue(Mapping::itself()))
            .queue("scan")
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let Ok(wanted) = request.key.namespace.parse::<u32>() else {
            return Ok(Outcome::Done);
        };
        let mut ready = 0;
        host.list::<Pod>()
            .controller(&request.key.name)
            .each(|pod| {
                let is_placed =
                    !pod.name.is_empty() && !pod.node.is_empty() && !pod.address.is_empty();
                ready += u32::from(is_placed && pod.phase == "Running" && pod.ready == "True");
                Ok(())
            })?;
        if ready == wanted {
            Ok(Outcome::Done)
        } else {
            Err(Error::terminal(format!("{ready} pods are ready")))
        }
    }
}
