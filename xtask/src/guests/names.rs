//! The names of the guests that are needed without any test: those of the host, and those of the demo.

/// Returns the names of the guests that are embedded in the host.
pub fn built_ins() -> impl Iterator<Item = &'static str> {
    flyball_controllers::built_in().map(|(controller, _)| controller.name)
}

/// A guest that the demo runs as a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guest {
    CloudSample,
    FakeKubelet,
    Greeter,
}

impl Guest {
    const ALL: [Self; 3] = [Self::CloudSample, Self::FakeKubelet, Self::Greeter];

    /// The name of the component.
    pub fn name(self) -> &'static str {
        match self {
            Self::CloudSample => "cloud-sample",
            Self::FakeKubelet => "fake-kubelet",
            Self::Greeter => "greeter",
        }
    }
}

/// Whether the guest of this name is embedded in the host, or one of the demo.
pub fn is_for_host(name: &str) -> bool {
    built_ins().any(|built_in| built_in == name)
        || Guest::ALL.iter().any(|guest| guest.name() == name)
}
