//! The flags of the HTTPS server.

use std::net::{IpAddr, SocketAddr};

use flyball_serving::{
    AuthenticationOptions, AuthorizationOptions, Certificate, RequestHeaderOptions, ServingOptions,
    TlsOptions,
};

use super::ConfigError;
use super::flags::Flags;
use crate::config::ServingConfig;

impl Flags<'_> {
    pub(super) fn serving(&self) -> Result<Option<ServingConfig>, ConfigError> {
        let port = u16::try_from(self.int("secure-port"));
        let port = port.map_err(|_| self.error("secure-port", "it must be between 0 and 65535"))?;
        if port == 0 {
            return Ok(None);
        }
        let address: IpAddr = self
            .raw("bind-address")
            .and_then(|text| text.parse().ok())
            .unwrap_or([0, 0, 0, 0].into());
        let certificate = match (
            self.path("tls-cert-file"),
            self.path("tls-private-key-file"),
        ) {
            (Some(certificate), Some(key)) => Certificate::Files { certificate, key },
            (None, None) => Certificate::SelfSigned,
            (Some(_), None) => {
                return Err(self.error("tls-cert-file", "--tls-private-key-file is missing"));
            }
            (None, Some(_)) => {
                return Err(self.error("tls-private-key-file", "--tls-cert-file is missing"));
            }
        };
        let tls13_only = match self.raw("tls-min-version") {
            Some("" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12") | None => false,
            Some("VersionTLS13") => true,
            Some(_) => {
                return Err(
                    self.error("tls-min-version", "it must be VersionTLS12 or VersionTLS13")
                );
            }
        };
        let streams = self.at_least("http2-max-streams-per-connection", 0)?;
        Ok(Some(ServingConfig {
            options: ServingOptions {
                address: SocketAddr::new(address, port),
                tls: TlsOptions {
                    certificate,
                    tls13_only,
                    http2: !self.bool("disable-http2-serving"),
                },
                http2_max_streams: if streams == 0 { 100 } else { streams },
            },
            authentication: AuthenticationOptions {
                client_ca_file: self.path("client-ca-file"),
                request_header: RequestHeaderOptions {
                    client_ca_file: self.path("requestheader-client-ca-file"),
                    allowed_names: self.list("requestheader-allowed-names"),
                    username_headers: self.list("requestheader-username-headers"),
                    uid_headers: self.list("requestheader-uid-headers"),
                    group_headers: self.list("requestheader-group-headers"),
                    extra_headers_prefix: self.list("requestheader-extra-headers-prefix"),
                },
                token_ttl: self.duration("authentication-token-webhook-cache-ttl")?,
            },
            authentication_kubeconfig: self.path("authentication-kubeconfig"),
            skip_lookup: self.bool("authentication-skip-lookup"),
            authorization: AuthorizationOptions {
                always_allow_paths: self.list("authorization-always-allow-paths"),
                allowed_ttl: self.duration("authorization-webhook-cache-authorized-ttl")?,
                denied_ttl: self.duration("authorization-webhook-cache-unauthorized-ttl")?,
            },
            authorization_kubeconfig: self.path("authorization-kubeconfig"),
        }))
    }
}
