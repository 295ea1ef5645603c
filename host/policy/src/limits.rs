//! The limits that the operator sets for a plugin, and the notation of amounts.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

/// Limits of one plugin. A limit that is not set has the host's default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct LimitPolicy {
    /// CPU time of one call, as in `1s` or `250ms`.
    #[serde(
        deserialize_with = "duration",
        serialize_with = "write_duration",
        skip_serializing_if = "Option::is_none"
    )]
    pub cpu: Option<Duration>,
    /// Time of one call, waiting included.
    #[serde(
        deserialize_with = "duration",
        serialize_with = "write_duration",
        skip_serializing_if = "Option::is_none"
    )]
    pub wall: Option<Duration>,
    /// Memory of one instance, as in `256Mi`.
    #[serde(
        deserialize_with = "bytes",
        serialize_with = "write_bytes",
        skip_serializing_if = "Option::is_none"
    )]
    pub memory: Option<u64>,
    /// Memory of all instances together.
    #[serde(
        deserialize_with = "bytes",
        serialize_with = "write_bytes",
        skip_serializing_if = "Option::is_none"
    )]
    pub total_memory: Option<u64>,
    /// Cores that all calls together may use on average, as in `0.25`; 0 for no limit.
    #[serde(
        deserialize_with = "cores",
        serialize_with = "write_cores",
        skip_serializing_if = "Option::is_none"
    )]
    pub cpu_share: Option<u32>,
    /// Number of instances, and so of concurrent calls. By default, the number that its concurrency needs.
    pub instances: Option<u32>,
    /// Size of the answer of one import, as in `64Mi`.
    #[serde(
        deserialize_with = "bytes",
        serialize_with = "write_bytes",
        skip_serializing_if = "Option::is_none"
    )]
    pub answer: Option<u64>,
    /// Bytes that one call may pass to the host: an argument, an outcome, and all queries and batches together.
    #[serde(
        deserialize_with = "bytes",
        serialize_with = "write_bytes",
        skip_serializing_if = "Option::is_none"
    )]
    pub staged: Option<u64>,
    /// Bytes that the host may hold for all calls together: cursors, batches, and answers while they are read.
    #[serde(
        deserialize_with = "bytes",
        serialize_with = "write_bytes",
        skip_serializing_if = "Option::is_none"
    )]
    pub held: Option<u64>,
    /// Connections of `wasi:http` that all calls together may have open.
    pub connections: Option<u32>,
    /// Size of the memo.
    #[serde(
        deserialize_with = "bytes",
        serialize_with = "write_bytes",
        skip_serializing_if = "Option::is_none"
    )]
    pub memo: Option<u64>,
    /// Memory of the last failed, trapped and slow calls, and as much for the calls that run; 0 to record none.
    #[serde(
        deserialize_with = "bytes",
        serialize_with = "write_bytes",
        skip_serializing_if = "Option::is_none"
    )]
    pub recordings: Option<u64>,
    /// Keys in a queue up to which the guest may add more by itself; 0 for no limit. Changes of objects always add
    /// their keys.
    pub queued_keys: Option<u32>,
    /// Lines of the log per second, on average; 0 for no limit.
    pub log_lines_per_second: Option<f64>,
    /// Lines at once.
    pub log_lines_burst: Option<u32>,
    /// Events per second, on average; 0 for no limit.
    pub events_per_second: Option<f64>,
    /// Events at once.
    pub events_burst: Option<u32>,
    /// Requests per second, on average.
    pub writes_per_second: Option<Rate>,
    /// Requests at once.
    pub writes_burst: Option<Rate>,
}

/// A limit of requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a limit is a number, or `{ times = 2 }` for a multiple of the host's flag"
)]
pub enum Rate {
    /// A fixed limit.
    Exactly(f64),
    /// A multiple of the limit that each plugin has by the flags `--kube-api-qps` and `--kube-api-burst`.
    Times {
        /// The factor.
        times: f64,
    },
}

impl Rate {
    /// Returns the limit for a value of the flag.
    pub fn of(self, flag: f64) -> f64 {
        match self {
            Self::Exactly(limit) => limit,
            Self::Times { times } => times * flag,
        }
    }
}

pub(crate) fn duration<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    flyball_types::duration::parse(&text)
        .map(Some)
        .map_err(serde::de::Error::custom)
}

pub(crate) fn write_duration<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format!(
        "{}ms",
        duration.unwrap_or_default().as_secs_f64() * 1e3
    ))
}

fn write_bytes<S: Serializer>(bytes: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&bytes.unwrap_or_default().to_string())
}

fn bytes<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let wrong = || {
        serde::de::Error::custom(format!(
            "`{text}` is not an amount of memory: write it as `256Mi`"
        ))
    };
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let unit: u64 = match &text[end..] {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..end].parse().map_err(|_| wrong())?;
    number.checked_mul(unit).map(Some).ok_or_else(wrong)
}

/// A number of cores, in thousandths of one.
fn cores<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let cores = f64::deserialize(deserializer)?;
    if !(0.0..=1024.0).contains(&cores) {
        return Err(serde::de::Error::custom(format!(
            "{cores} is not a number of cores: write it as 0.25, or 0 for no limit"
        )));
    }
    Ok(Some((cores * 1000.0).ceil() as u32))
}

fn write_cores<S: Serializer>(thousandths: &Option<u32>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(f64::from(thousandths.unwrap_or_default()) / 1000.0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Policy;

    #[test]
    fn a_rate_is_a_number_or_a_multiple_of_what_the_flags_say() {
        let policy = Policy::parse(
            Path::new("policy.toml"),
            "[plugins.a.limits]\nwrites-per-second = { times = 20 }\nwrites-burst = 7",
        )
        .unwrap();
        let limits = &policy.plugins["a"].limits;
        assert_eq!(
            (
                limits.writes_per_second.unwrap().of(50.0),
                limits.writes_burst.unwrap().of(50.0)
            ),
            (1000.0, 7.0)
        );
    }
}
