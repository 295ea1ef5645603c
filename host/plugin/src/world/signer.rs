//! `signer`: signatures with keys of the host. While the host computes one, on a thread of its own, the call's thread runs
//! other calls. Afterwards the call is charged for it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::State;
use crate::bindings::flyball::controller::signer::{
    Attribute, CertificateTemplate, Error, Host, KeyUsages, SubjectKey,
};
use crate::bindings::flyball::controller::types::Time;
use crate::imports;

impl Host for State {
    async fn sign_jwt(
        &mut self,
        key: String,
        claims: Vec<u8>,
    ) -> wasmtime::Result<Result<String, Error>> {
        let imports = self.imports()?.clone();
        let signed = imports.signer_sign_jwt(key, claims).await;
        Ok(self.charged(signed))
    }

    async fn verify_jwt(
        &mut self,
        key: String,
        token: String,
    ) -> wasmtime::Result<Result<Vec<u8>, Error>> {
        let imports = self.imports()?.clone();
        let verified = imports.signer_verify_jwt(key, token).await;
        Ok(self.charged(verified))
    }

    async fn certificate_authority(
        &mut self,
        signer: String,
    ) -> wasmtime::Result<Result<Vec<Vec<u8>>, Error>> {
        let imports = self.imports()?.clone();
        let read = imports.signer_certificate_authority(signer).await;
        Ok(self.charged(read))
    }

    async fn sign_certificate(
        &mut self,
        signer: String,
        template: CertificateTemplate,
    ) -> wasmtime::Result<Result<Vec<u8>, Error>> {
        let imports = self.imports()?.clone();
        let signed = imports
            .signer_sign_certificate(signer, template.into())
            .await;
        Ok(self.charged(signed))
    }
}

impl State {
    /// Charges the call for work of the host, and returns its result.
    fn charged<T>(&self, work: imports::Metered<T>) -> Result<T, Error> {
        self.meter.charge(work.cpu_time);
        work.result.map_err(Error::from)
    }
}

impl From<CertificateTemplate> for imports::CertificateTemplate {
    fn from(template: CertificateTemplate) -> Self {
        let CertificateTemplate {
            key,
            subject,
            dns_names,
            email_addresses,
            ip_addresses,
            uris,
            key_usages,
            extended_key_usages,
            not_before,
            not_after,
        } = template;
        let attribute = |Attribute { oid, value }| (oid, value);
        let name = |attributes: Vec<Attribute>| attributes.into_iter().map(attribute).collect();
        Self {
            key: match key {
                SubjectKey::PublicKey(der) => imports::SubjectKey::PublicKey(der),
                SubjectKey::Request(der) => imports::SubjectKey::Request(der),
            },
            subject: subject.into_iter().map(name).collect(),
            dns_names,
            email_addresses,
            ip_addresses,
            uris,
            key_usages: bits(key_usages),
            extended_key_usages,
            not_before: system_time(not_before),
            not_after: system_time(not_after),
        }
    }
}

fn system_time(time: Time) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(time.seconds.into())
}

/// The bits of X.509's `KeyUsage`, in its order.
fn bits(usages: KeyUsages) -> u16 {
    let all = [
        KeyUsages::DIGITAL_SIGNATURE,
        KeyUsages::CONTENT_COMMITMENT,
        KeyUsages::KEY_ENCIPHERMENT,
        KeyUsages::DATA_ENCIPHERMENT,
        KeyUsages::KEY_AGREEMENT,
        KeyUsages::CERT_SIGN,
        KeyUsages::CRL_SIGN,
        KeyUsages::ENCIPHER_ONLY,
        KeyUsages::DECIPHER_ONLY,
    ];
    let set = |(bit, &usage)| u16::from(usages.contains(usage)) << bit;
    all.iter().enumerate().map(set).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usages_have_the_bits_of_x509() {
        assert_eq!(bits(KeyUsages::empty()), 0);
        assert_eq!(bits(KeyUsages::all()), 0b1_1111_1111);
        assert_eq!(bits(KeyUsages::CERT_SIGN), 1 << 5);
        let usual = KeyUsages::DIGITAL_SIGNATURE | KeyUsages::KEY_ENCIPHERMENT;
        assert_eq!(bits(usual), 0b101);
    }
}
