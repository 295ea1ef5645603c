//! The flags of the HTTPS server.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use flyball_controllers::flag::{self, Flag};
use flyball_serving::{
    Algorithms, AuthenticationOptions, AuthorizationOptions, Certificate, NamedCertificate,
    RequestHeaderOptions, ServingOptions, TlsOptions,
};

use super::flags::{ConfigError, Flags};
use crate::config::ServingConfig;
use crate::{flags, kcm};

impl Flags<'_> {
    /// Returns the settings of the HTTPS server, and warnings for the operator; none if the port is 0.
    pub(super) fn serving(
        &self,
        is_ccm: bool,
    ) -> Result<Option<(ServingConfig, Vec<String>)>, ConfigError> {
        let port = u16::try_from(self.int("secure-port"));
        let port = port.map_err(|_| self.error("secure-port", "it must be between 0 and 65535"))?;
        if port == 0 {
            return Ok(None);
        }
        let address: IpAddr = self
            .raw("bind-address")
            .and_then(|text| text.parse().ok())
            .unwrap_or([0, 0, 0, 0].into());
        let certificate = self.certificate()?;
        let flagz = self.flagz(&certificate);
        let tls13_only = self.is_tls13_only()?;
        let http2 = !self.bool("disable-http2-serving");
        let (algorithms, warnings) = self.algorithms(http2, tls13_only)?;
        let streams = self.at_least("http2-max-streams-per-connection", 0)?;
        let config = ServingConfig {
            options: ServingOptions {
                address: SocketAddr::new(address, port),
                tls: TlsOptions {
                    certificate,
                    named: self.named_certificates()?,
                    algorithms,
                    tls13_only,
                    http2,
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
            tolerate_lookup_failure: self.bool("authentication-tolerate-lookup-failure"),
            dashboard: self.bool("dashboard"),
            profiling: self.bool("profiling"),
            flagz,
            configz: match is_ccm {
                true => kcm::shown::configz_of_clouds(|flag| self.uses(flag)),
                false => {
                    kcm::shown::configz(|flag| self.uses(flag), self.leader_migration()?.as_ref())
                }
            },
        };
        Ok(Some((config, warnings)))
    }

    fn certificate(&self) -> Result<Certificate, ConfigError> {
        let files = (
            self.path("tls-cert-file"),
            self.path("tls-private-key-file"),
        );
        match files {
            (Some(certificate), Some(key)) => Ok(Certificate::Files { certificate, key }),
            (None, None) => Ok(match self.path("cert-dir") {
                Some(folder) => Certificate::Folder(folder),
                None => Certificate::SelfSigned,
            }),
            (Some(_), None) => {
                Err(self.error("tls-cert-file", "--tls-private-key-file is missing"))
            }
            (None, Some(_)) => {
                Err(self.error("tls-private-key-file", "--tls-cert-file is missing"))
            }
        }
    }

    fn is_tls13_only(&self) -> Result<bool, ConfigError> {
        match self.raw("tls-min-version") {
            Some("" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12") | None => Ok(false),
            Some("VersionTLS13") => Ok(true),
            Some(other) => {
                let reason = format!("unknown tls version {other:?}");
                Err(self.error("tls-min-version", reason))
            }
        }
    }

    fn algorithms(
        &self,
        http2: bool,
        tls13_only: bool,
    ) -> Result<(Algorithms, Vec<String>), ConfigError> {
        let mut algorithms = Algorithms::default();
        let suites = self.list("tls-cipher-suites");
        let suites = algorithms
            .choose_suites(&suites, http2, tls13_only)
            .map_err(|reason| self.error("tls-cipher-suites", reason))?;
        let curves = self.list("tls-curve-preferences");
        let curves: Vec<i64> = curves
            .iter()
            .map(|text| flag::int(text, i32::MIN.into(), i32::MAX.into()).unwrap_or_default())
            .collect();
        let curves = algorithms
            .choose_curves(&curves)
            .map_err(|reason| self.error("tls-curve-preferences", reason))?;
        let old = ["VersionTLS10", "VersionTLS11"].map(str::to_owned);
        let old = old
            .into_iter()
            .filter(|version| self.raw("tls-min-version") == Some(version))
            .collect();
        let unsupported = [
            ("tls-cipher-suites", suites),
            ("tls-curve-preferences", curves),
            ("tls-min-version", old),
        ];
        let warnings = unsupported
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| {
                format!(
                    "--{name} names what Flyball does not support, and serves without: {}",
                    values.join(", ")
                )
            });
        Ok((algorithms, warnings.collect()))
    }

    /// Reads each `certificate,key` or `certificate,key:name,name`.
    fn named_certificates(&self) -> Result<Vec<NamedCertificate>, ConfigError> {
        let uses = self.0.get_many::<String>("tls-sni-cert-key");
        uses.into_iter()
            .flatten()
            .map(|text| {
                let (files, names) = match text.split_once(':') {
                    Some((files, names)) => (files, Some(names.trim())),
                    None => (text.as_str(), None),
                };
                if names == Some("") {
                    return Err("empty names list is not allowed");
                }
                let names = names.into_iter().flat_map(|names| names.split(','));
                let names = names.map(|name| name.trim().to_owned()).collect();
                let files: Vec<&str> = files.split(',').map(str::trim).collect();
                let [certificate, key] = files[..] else {
                    return Err("expected comma separated certificate and key file paths");
                };
                let certificate = Certificate::Files {
                    certificate: certificate.into(),
                    key: key.into(),
                };
                Ok(NamedCertificate { certificate, names })
            })
            .collect::<Result<_, _>>()
            .map_err(|reason| self.error("tls-sni-cert-key", reason))
    }

    /// The values of all flags by name. Configuration values of plugins may be secrets. As in kube-controller-manager, the
    /// flags of the certificate have the files that are used.
    fn flagz(&self, certificate: &Certificate) -> BTreeMap<String, String> {
        let mut all: BTreeMap<_, _> = flags::all()
            .map(|flag| (flag.name.to_owned(), self.shown(flag)))
            .collect();
        let flags = ["tls-cert-file", "tls-private-key-file"];
        for (flag, file) in flags
            .into_iter()
            .zip(certificate.files().into_iter().flatten())
        {
            all.insert(flag.to_owned(), file.display().to_string());
        }
        all
    }

    /// The values of the flags on the command line, as `/flagz` shows them.
    pub(super) fn given(&self) -> BTreeMap<String, String> {
        let given = flags::all().filter(|flag| self.is_given(flag.name));
        given
            .map(|flag| (flag.name.to_owned(), self.shown(flag)))
            .collect()
    }

    fn shown(&self, flag: &'static Flag) -> String {
        match flag.name {
            "help" => "false".to_owned(),
            "plugin-config" if self.is_given(flag.name) => "CLASSIFIED".to_owned(),
            _ => kcm::shown::text(flag.kind, &self.uses(flag)),
        }
    }

    /// All uses of a flag, or its default.
    fn uses(&self, flag: &Flag) -> Vec<&str> {
        let uses = self.0.get_many::<String>(flag.name);
        uses.into_iter().flatten().map(String::as_str).collect()
    }
}
