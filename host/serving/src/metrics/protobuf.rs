//! Prometheus' format in protobuf: each family as a message `io.prometheus.client.MetricFamily` after its length. Only
//! this format has native histograms.

use std::collections::HashMap;

use prometheus::proto::{Metric, MetricFamily, MetricType};

use super::native::{Native, Spans, ZERO_THRESHOLD};
use crate::protobuf::Message;

/// The media type.
pub(crate) const CONTENT_TYPE: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// Whether a client prefers this format to text, by its `Accept` header.
pub(crate) fn is_preferred(accept: &str) -> bool {
    let clause = |clause: &str| {
        let mut parts = clause.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default().to_owned();
        let parameters: HashMap<String, String> = parts
            .filter_map(|part| part.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()))
            .collect();
        let quality = parameters.get("q").and_then(|quality| quality.parse().ok());
        (quality.unwrap_or(1.0f64), media_type, parameters)
    };
    let mut clauses: Vec<_> = accept.split(',').map(clause).collect();
    // A stable sort: of equally preferred types, the first counts.
    clauses.sort_by(|(one, ..), (other, ..)| other.total_cmp(one));
    let formats = clauses.iter().filter_map(|(_, media_type, parameters)| {
        let is = |name, value| parameters.get(name).is_none_or(|own| own == value);
        match media_type.as_str() {
            "application/vnd.google.protobuf" => {
                let is_ours = parameters.contains_key("proto")
                    && is("proto", "io.prometheus.client.MetricFamily")
                    && parameters.contains_key("encoding")
                    && is("encoding", "delimited");
                is_ours.then_some(true)
            }
            "text/plain" => is("version", "0.0.4").then_some(false),
            _ => None,
        }
    });
    formats.into_iter().next().unwrap_or(false)
}

/// Appends the families. `native` returns the native histogram of a series. Summaries are ignored: no metric is one.
pub(super) fn write(
    families: &[MetricFamily],
    native: impl Fn(&Metric) -> Option<Native>,
    to: &mut Vec<u8>,
) {
    for family in families
        .iter()
        .filter(|family| !family.get_metric().is_empty())
    {
        // The values of the enum `MetricType`.
        let kind = match family.get_field_type() {
            MetricType::COUNTER => 0,
            MetricType::GAUGE => 1,
            MetricType::HISTOGRAM => 4,
            MetricType::SUMMARY | MetricType::UNTYPED => continue,
        };
        let mut message = Message::default();
        message.bytes(1, family.name().as_bytes());
        message.bytes(2, family.help().as_bytes());
        message.uint(3, kind);
        for metric in family.get_metric() {
            message.message(4, &series(family.get_field_type(), metric, &native));
        }
        to.append(&mut message.into_delimited());
    }
}

fn series(
    kind: MetricType,
    metric: &Metric,
    native: impl Fn(&Metric) -> Option<Native>,
) -> Message {
    let mut message = Message::default();
    for label in metric.get_label() {
        let mut pair = Message::default();
        pair.bytes(1, label.name().as_bytes());
        pair.bytes(2, label.value().as_bytes());
        message.message(1, &pair);
    }
    let mut value = Message::default();
    match kind {
        MetricType::COUNTER => {
            value.double(1, metric.get_counter().get_value());
            add_created(3, metric, &mut value);
            message.message(3, &value);
        }
        MetricType::GAUGE => {
            value.double(1, metric.get_gauge().get_value());
            message.message(2, &value);
        }
        _ => message.message(7, &histogram(metric, native(metric))),
    }
    message
}

fn histogram(metric: &Metric, native: Option<Native>) -> Message {
    let (histogram, mut message) = (metric.get_histogram(), Message::default());
    message.uint(1, histogram.get_sample_count());
    message.double(2, histogram.get_sample_sum());
    for bucket in histogram.get_bucket() {
        let mut own = Message::default();
        own.uint(1, bucket.cumulative_count());
        own.double(2, bucket.upper_bound());
        message.message(3, &own);
    }
    if let Some(native) = native {
        message.sint(5, native.schema.into());
        message.double(6, ZERO_THRESHOLD);
        message.uint(7, native.zero);
        for (field, buckets) in [(9, &native.negative), (12, &native.positive)] {
            let Spans { spans, deltas } = Spans::of(buckets);
            for (offset, length) in spans {
                let mut span = Message::default();
                span.sint(1, offset.into());
                span.uint(2, length.into());
                message.message(field, &span);
            }
            for delta in deltas {
                message.sint(field + 1, delta);
            }
        }
    }
    add_created(15, metric, &mut message);
    message
}

/// Adds the time at which a series was created, if it is known.
fn add_created(field: u32, metric: &Metric, to: &mut Message) {
    let milliseconds = u64::try_from(metric.timestamp_ms()).unwrap_or_default();
    if milliseconds > 0 {
        let mut timestamp = Message::default();
        timestamp.uint(1, milliseconds / 1000);
        timestamp.uint(2, milliseconds % 1000 * 1_000_000);
        to.message(field, &timestamp);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::super::{Kind, Metrics, MetricsError};
    use super::*;

    #[test]
    fn the_preferred_format_is_chosen() {
        let delimited = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        let cases = [
            (String::new(), false),
            ("*/*".to_owned(), false),
            (delimited.to_owned(), true),
            (
                format!("{delimited};q=0.6,text/plain;version=0.0.4;q=0.4"),
                true,
            ),
            (
                format!("{delimited};q=0.4,text/plain;version=0.0.4;q=0.6"),
                false,
            ),
            (format!("text/plain;version=1.0.0,{delimited};q=0.4"), true),
            (delimited.replace("delimited", "text"), false),
            ("application/vnd.google.protobuf".to_owned(), false),
        ];
        for (accept, expected) in cases {
            assert_eq!(is_preferred(&accept), expected, "{accept}");
        }
    }

    /// The families of a counter that is 2.
    fn counted() -> Result<Vec<MetricFamily>, MetricsError> {
        let metrics = Metrics::default();
        let counter = metrics.counter("a_total", "Things.", &["name"])?;
        counter.with_label_values(&["x"]).inc_by(2.0);
        let families = metrics.gather().into_iter();
        Ok(families.flat_map(|(_, families)| families).collect())
    }

    #[test]
    fn families_are_messages_after_their_lengths() -> Result<(), MetricsError> {
        let mut families = counted()?;
        let created = &mut families[0].mut_metric()[0];
        created.set_timestamp_ms(3500);
        let mut expected = b"\x36\x0a\x07a_total\x12\x07Things.\x18\x00\x22\x20".to_vec();
        expected.extend(b"\x0a\x09\x0a\x04name\x12\x01x\x1a\x13\x09\0\0\0\0\0\0\0\x40");
        expected.extend(b"\x1a\x08\x08\x03\x10\x80\xca\xb5\xee\x01");
        let mut page = Vec::new();
        write(&families, |_| None, &mut page);
        assert_eq!(page, expected);
        Ok(())
    }

    #[test]
    fn a_series_has_the_time_of_its_creation() -> Result<(), MetricsError> {
        let now = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            i64::try_from(now.expect("after 1970").as_millis()).expect("it fits")
        };
        let before = now();
        let families = counted()?;
        let created = families[0].get_metric()[0].timestamp_ms();
        assert!((before..=now()).contains(&created), "{created}");
        Ok(())
    }

    #[test]
    fn a_native_histogram_of_a_plugin_is_beside_the_declared_buckets() -> Result<(), MetricsError> {
        const VALUES: [f64; 4] = [0.0, 1.0, 1.0, 4.0];
        let of_host = |metrics: &Metrics| {
            let histogram = metrics.histogram("a", "Time.", &["name"], &[2.0])?;
            for value in VALUES {
                histogram.with_label_values(&["x"]).observe(value);
            }
            Ok::<_, MetricsError>(metrics.render_protobuf())
        };
        let of_plugin = |metrics: &Metrics| {
            let mut group = metrics.group("plugin");
            group.declare("b", "Time.", &["name"], Kind::Histogram(vec![2.0]))?;
            for value in VALUES {
                group.observe("b", &["x"], value)?;
            }
            Ok::<_, MetricsError>((metrics.render_protobuf(), metrics.render()))
        };
        // The schema 3, the threshold, one zero, and the spans and deltas of the buckets 0 and 16.
        let native = b"\x28\x06\x31\0\0\0\0\0\0\xf0\x37\x38\x01\x62\x04\x08\x00\x10\x01\x62\x04\x08\x1e\x10\x01\x68\x04\x68\x01";
        let contains = |page: &[u8]| page.windows(native.len()).any(|part| part == native);
        let metrics = Metrics::default();
        assert!(!contains(&of_plugin(&metrics)?.0));
        let metrics = Metrics::default();
        metrics.add_native_histograms(["other"]);
        assert!(!contains(&of_host(&metrics)?));
        let (page, text) = of_plugin(&metrics)?;
        assert!(contains(&page));
        assert!(text.contains("b_bucket{name=\"x\",le=\"2\"} 3\n"));
        let metrics = Metrics::default();
        metrics.add_native_histograms(["plugin"]);
        assert!(!contains(&of_plugin(&metrics)?.0));
        Ok(())
    }
}
