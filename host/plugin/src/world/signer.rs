//! `signer`: signatures with keys of the host. While the host computes one, on a thread of its own, the call's thread
//! runs other calls. Afterwards the call is charged for it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::InstanceState;
use super::arguments::{self, Checked, name, names};
use crate::bindings::flyball::controller::signer::{
    Attribute, CertificateTemplate, Error, Host, KeyUsages, SubjectKey,
};
use crate::bindings::flyball::controller::types::Time;
use crate::imports;

impl Host for InstanceState {
    async fn sign_jwt(
        &mut self,
        key: String,
        claims: Vec<u8>,
    ) -> wasmtime::Result<Result<String, Error>> {
        match self.imports(name("the key", &key))?.cloned() {
            Ok(imports) => {
                let signed = imports.signer_sign_jwt(key, claims).await;
                Ok(self.charged(signed))
            }
            Err(error) => Ok(Err(error.into())),
        }
    }

    async fn verify_jwt(
        &mut self,
        key: String,
        token: String,
    ) -> wasmtime::Result<Result<Vec<u8>, Error>> {
        let checked = name("the key", &key).and_then(|()| arguments::token(&token));
        match self.imports(checked)?.cloned() {
            Ok(imports) => {
                let verified = imports.signer_verify_jwt(key, token).await;
                Ok(self.charged(verified))
            }
            Err(error) => Ok(Err(error.into())),
        }
    }

    async fn certificate_authority(
        &mut self,
        signer: String,
    ) -> wasmtime::Result<Result<Vec<Vec<u8>>, Error>> {
        match self.imports(name("the signer", &signer))?.cloned() {
            Ok(imports) => {
                let read = imports.signer_certificate_authority(signer).await;
                Ok(self.charged(read))
            }
            Err(error) => Ok(Err(error.into())),
        }
    }

    async fn sign_certificate(
        &mut self,
        signer: String,
        template: CertificateTemplate,
    ) -> wasmtime::Result<Result<Vec<u8>, Error>> {
        let checked = name("the signer", &signer).and_then(|()| checked_template(&template));
        match self.imports(checked)?.cloned() {
            Ok(imports) => {
                let template = template.into();
                let signed = imports.signer_sign_certificate(signer, template).await;
                Ok(self.charged(signed))
            }
            Err(error) => Ok(Err(error.into())),
        }
    }
}

impl InstanceState {
    /// Charges the call for work of the host, and returns its result.
    fn charged<T>(&self, work: imports::Metered<T>) -> Result<T, Error> {
        self.meter.charge(work.cpu_time);
        work.result.map_err(Error::from)
    }
}

fn checked_template(template: &CertificateTemplate) -> Checked {
    let CertificateTemplate {
        key: _,
        subject,
        dns_names,
        email_addresses,
        ip_addresses,
        uris,
        key_usages: _,
        extended_key_usages,
        not_before: _,
        not_after: _,
    } = template;
    for Attribute { oid, value } in subject.iter().flatten() {
        name("an attribute's type", oid)?;
        name("an attribute's value", value)?;
    }
    names("a DNS name", dns_names)?;
    names("an email address", email_addresses)?;
    names("an IP address", ip_addresses)?;
    names("an extended key usage", extended_key_usages)?;
    let mut uris = uris.iter();
    uris.try_for_each(|uri| arguments::uri("a URI", uri))
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
