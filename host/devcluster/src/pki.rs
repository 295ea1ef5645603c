//! The certificates, keys and kubeconfigs of one control plane. Each control plane has a separate certificate
//! authority.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};

/// The names of the servers for pods and tests. `10.0.0.1` is the service `kubernetes`.
const SERVER_NAMES: [&str; 6] = [
    "localhost",
    "127.0.0.1",
    "10.0.0.1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
];

/// The certificate authority, and the folder of its files.
pub(crate) struct Pki {
    dir: PathBuf,
    ca: CertifiedIssuer<'static, KeyPair>,
}

/// The files of a certificate and its key.
#[derive(Clone, Debug)]
pub(crate) struct CertificateFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Pki {
    /// Creates the certificate authority, and the key that signs service account tokens, in `dir`.
    pub(crate) fn create(dir: PathBuf) -> anyhow::Result<Self> {
        fs::create_dir(&dir)
            .with_context(|| format!("can't create {} for certificates", dir.display()))?;
        let mut params = named("flyball-controlplane", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let key = generate_key()?;
        let ca = CertifiedIssuer::self_signed(params, key)
            .context("can't sign the authority's certificate")?;
        let pki = Self { dir, ca };
        write(&pki.ca_file(), &pki.ca.pem())?;
        write(&pki.ca_key_file(), &pki.ca.key().serialize_pem())?;
        let tokens = generate_key()?;
        write(&pki.service_account_key_file(), &tokens.serialize_pem())?;
        write(
            &pki.service_account_public_key_file(),
            &tokens.public_key_pem(),
        )?;
        Ok(pki)
    }

    /// Issues the certificate of the servers on loopback. They also use it as a client certificate.
    pub(crate) fn server(&self) -> anyhow::Result<CertificateFiles> {
        let mut params = named("flyball-controlplane-server", None);
        params.subject_alt_names = CertificateParams::new(SERVER_NAMES.map(str::to_owned))
            .context("can't use the servers' names")?
            .subject_alt_names;
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        self.issue("server", params)
    }

    /// Issues the client certificate of a Kubernetes user, in an optional group. `name` is the name of the files.
    pub(crate) fn client(
        &self,
        name: &str,
        user: &str,
        group: Option<&str>,
    ) -> anyhow::Result<CertificateFiles> {
        let mut params = named(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(name, params)
    }

    /// Writes a kubeconfig for the API server at `url` with the credentials in `files`.
    pub(crate) fn kubeconfig(
        &self,
        name: &str,
        url: &str,
        files: &CertificateFiles,
    ) -> anyhow::Result<PathBuf> {
        let path = self.dir.join(format!("{name}.kubeconfig"));
        // JSON is also YAML.
        let text = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "flyball", "cluster": {"server": url, "certificate-authority": self.ca_file()}}],
            "users": [{"name": name, "user": {
                "client-certificate": files.certificate,
                "client-key": files.key,
            }}],
            "contexts": [{"name": "flyball", "context": {"cluster": "flyball", "user": name}}],
            "current-context": "flyball",
        });
        write(&path, &format!("{text:#}\n"))?;
        Ok(path)
    }

    pub(crate) fn ca_pem(&self) -> String {
        self.ca.pem()
    }

    pub(crate) fn ca_der(&self) -> Vec<u8> {
        self.ca.der().to_vec()
    }

    pub(crate) fn ca_file(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    pub(crate) fn ca_key_file(&self) -> PathBuf {
        self.dir.join("ca.key")
    }

    pub(crate) fn service_account_key_file(&self) -> PathBuf {
        self.dir.join("service-account.key")
    }

    pub(crate) fn service_account_public_key_file(&self) -> PathBuf {
        self.dir.join("service-account.pub")
    }

    fn issue(&self, name: &str, mut params: CertificateParams) -> anyhow::Result<CertificateFiles> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = generate_key()?;
        let certificate = params
            .signed_by(&key, &self.ca)
            .with_context(|| format!("can't sign the certificate of {name}"))?;
        let files = CertificateFiles {
            certificate: self.dir.join(format!("{name}.crt")),
            key: self.dir.join(format!("{name}.key")),
        };
        write(&files.certificate, &certificate.pem())?;
        write(&files.key, &key.serialize_pem())?;
        Ok(files)
    }
}

/// Kubernetes takes a client's user name from the common name, and its groups from the organizations. rcgen writes at
/// most one organization.
fn named(common_name: &str, organization: Option<&str>) -> CertificateParams {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    let mut params = CertificateParams::default();
    params.distinguished_name = name;
    params
}

/// Generates an ECDSA P-256 key. All parts accept these for TLS and for tokens, and the generation is fast.
fn generate_key() -> anyhow::Result<KeyPair> {
    KeyPair::generate().context("can't generate a key")
}

/// Writes a file that only its owner can read, since many of the files are private keys.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("can't write {}", path.display()))
}
