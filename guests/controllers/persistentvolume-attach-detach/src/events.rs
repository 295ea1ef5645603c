//! The events about pods whose volumes are attached.
//!
//! Upstream: pkg/volume/util/operationexecutor/operation_generator.go: GenerateAttachVolumeFunc.
//! Upstream: pkg/volume/util/operationexecutor/operation_executor.go: generateVolumeMsg.

use flyball_sdk::prelude::*;

use crate::operations::Audience;
use crate::views::Pod;

const FAILED: &str = "FailedAttachVolume";
const SUCCEEDED: &str = "SuccessfulAttachVolume";

/// Reports that a volume has been attached. The blank at the end is stock's.
pub fn attached(host: &Host, audience: &Audience) {
    let Audience { disk, pods } = audience;
    let message = format!("AttachVolume.Attach succeeded for volume \"{disk}\" ");
    for pod in pods {
        let about = pod.reference(Pod::KIND);
        host.emit(Event::normal(&about, SUCCEEDED, &message));
    }
}

/// Reports that a volume could not be attached.
pub fn attach_failed(host: &Host, audience: &Audience, error: &str) {
    let Audience { disk, pods } = audience;
    let message = format!("AttachVolume.Attach failed for volume \"{disk}\" : {error}");
    for pod in pods {
        warn(host, pod, &message);
    }
}

/// Reports a problem to a pod.
pub fn warn(host: &Host, pod: &Meta, message: &str) {
    let about = pod.reference(Pod::KIND);
    host.emit(Event::warning(&about, FAILED, message));
}
