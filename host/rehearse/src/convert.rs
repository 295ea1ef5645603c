//! What guests ask the host, in the form of recordings.

use std::time::{SystemTime, UNIX_EPOCH};

use flyball_plugin::{
    Batch, CertificateTemplate, CloudError, ObjectReference, Operation, Read, SubjectKey, Write,
};
use flyball_recording::answer::{self, Time};
use flyball_recording::{Asked, Document, asked};
use flyball_types::{ApiError, Query};
use serde_json::{Value, json};

pub(crate) fn read(read: &Read) -> Asked {
    match read {
        Read::Get {
            kind,
            namespace,
            name,
            fields,
        } => asked::reader_get(kind, namespace, name, fields),
        Read::List {
            kind,
            namespace,
            parameters,
            fields,
        } => asked::reader_list(kind, namespace, parameters, fields),
        Read::Raw { path } => asked::reader_raw(path),
    }
}

pub(crate) fn batch(batch: &Batch) -> Asked {
    let writes = batch.writes.iter().map(|write| match write {
        Ok(write) => one_write(write),
        Err(error) => json!({"error": answer::Error::from(error)}),
    });
    asked::writer_run(writes.collect(), batch.slow_start, batch.stop_on_error)
}

fn one_write(write: &Write) -> Value {
    let target = &write.target;
    let common = asked::Write {
        kind: &target.kind,
        namespace: &target.namespace,
        name: &target.name,
        subresource: &target.subresource,
        options: &write.options,
        returns: &write.returns,
        ..asked::Write::default()
    };
    let write = match &write.operation {
        Operation::Create { object } => asked::Write {
            verb: "create",
            body: Some(object),
            ..common
        },
        Operation::Update {
            resource_version,
            change,
        } => asked::Write {
            verb: "update",
            resource_version,
            body: Some(change),
            ..common
        },
        Operation::UpdateStatus {
            resource_version,
            status,
            metadata,
        } => asked::Write {
            verb: "update-status",
            resource_version,
            body: Some(status),
            metadata,
            ..common
        },
        Operation::Patch { patch_type, patch } => asked::Write {
            verb: "patch",
            patch_type,
            body: Some(patch),
            ..common
        },
        Operation::Delete => asked::Write {
            verb: "delete",
            ..common
        },
        Operation::DeleteCollection {
            label_selector,
            field_selector,
        } => asked::Write {
            verb: "delete-collection",
            label_selector,
            field_selector,
            ..common
        },
    };
    write.value()
}

/// About how many bytes a batch holds.
pub(crate) fn size_of_batch(batch: &Batch) -> usize {
    let writes = batch.writes.iter().flatten().map(|write| {
        let target = &write.target;
        let texts = [
            &target.kind,
            &target.namespace,
            &target.name,
            &target.subresource,
        ];
        let body = write.operation.body_len();
        let texts: usize = texts.iter().map(|text| text.len()).sum();
        size_of::<Write>() + texts + body + write.options.len() + size_of_texts(&write.returns)
    });
    writes.sum()
}

/// About how many bytes a list of texts holds.
pub(crate) fn size_of_texts(texts: &[String]) -> usize {
    texts
        .iter()
        .map(|text| size_of::<String>() + text.len())
        .sum()
}

/// About how many bytes a query holds.
pub(crate) fn size_of_query(query: &Query) -> usize {
    let indexes = query
        .indexes
        .iter()
        .map(|(name, value)| name.len() + value.len());
    let uids = [&query.uid, &query.owner, &query.controller];
    let uids = uids.iter().map(|uid| uid.as_ref().map_or(0, String::len));
    let texts = query.kind.len() + query.namespace.len() + query.labels.len();
    size_of::<Query>() + texts + indexes.sum::<usize>() + uids.sum::<usize>()
}

/// About how many bytes a read holds.
pub(crate) fn size_of_read(read: &Read) -> usize {
    let texts = match read {
        Read::Get {
            kind,
            namespace,
            name,
            fields,
        } => kind.len() + namespace.len() + name.len() + size_of_texts(fields),
        Read::List {
            kind,
            namespace,
            parameters,
            fields,
        } => {
            let parameters = parameters
                .iter()
                .map(|(name, value)| name.len() + value.len());
            kind.len() + namespace.len() + parameters.sum::<usize>() + size_of_texts(fields)
        }
        Read::Raw { path } => path.len(),
    };
    size_of::<Read>() + texts
}

/// The bytes of an error, or those of a result.
pub(crate) fn size_of_result<T>(
    result: &Result<T, ApiError>,
    size: impl FnOnce(&T) -> usize,
) -> usize {
    match result {
        Ok(value) => size(value),
        Err(error) => error.message.len() + error.reason.len(),
    }
}

pub(crate) fn reference(object: &ObjectReference) -> Value {
    let ObjectReference {
        kind,
        namespace,
        name,
        uid,
    } = object;
    asked::reference(kind, namespace, name, uid)
}

/// The fields of a template in camelCase, with times in seconds since 1970.
pub(crate) fn template(template: &CertificateTemplate) -> Value {
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
    let key = match key {
        SubjectKey::PublicKey(der) => json!({"publicKey": Document::value(der)}),
        SubjectKey::Request(der) => json!({"request": Document::value(der)}),
    };
    json!({
        "key": key,
        "subject": subject,
        "dnsNames": dns_names,
        "emailAddresses": email_addresses,
        "ipAddresses": ip_addresses,
        "uris": uris,
        "keyUsages": key_usages,
        "extendedKeyUsages": extended_key_usages,
        "notBefore": time(*not_before).seconds,
        "notAfter": time(*not_after).seconds,
    })
}

pub(crate) fn time(time: SystemTime) -> Time {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Time {
        seconds: u32::try_from(since.as_secs()).unwrap_or(u32::MAX),
        nanoseconds: since.subsec_nanos(),
    }
}

pub(crate) fn cloud_error(error: &CloudError) -> answer::CloudError {
    let CloudError {
        kind,
        message,
        wrapped,
        retry_after_ms,
    } = error.clone();
    answer::CloudError {
        kind,
        message,
        wrapped,
        retry_after_ms,
    }
}

pub(crate) fn recorded_cloud_error(error: answer::CloudError) -> CloudError {
    let answer::CloudError {
        kind,
        message,
        wrapped,
        retry_after_ms,
    } = error;
    CloudError {
        kind,
        message,
        wrapped,
        retry_after_ms,
    }
}
