//! Prometheus' text format, byte for byte as Go's client writes it: a bucket's bound is a label, and labels are
//! compared as text. (The encoder of the `prometheus` crate writes numbers as Rust does.)

use std::fmt::Write;

use prometheus::proto::{LabelPair, MetricFamily, MetricType};

/// The media type.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Appends the families. Summaries are ignored: no metric is one.
pub(super) fn write(families: &[MetricFamily], to: &mut String) {
    for family in families
        .iter()
        .filter(|family| !family.get_metric().is_empty())
    {
        let kind = match family.get_field_type() {
            MetricType::COUNTER => "counter",
            MetricType::GAUGE => "gauge",
            MetricType::HISTOGRAM => "histogram",
            MetricType::SUMMARY | MetricType::UNTYPED => continue,
        };
        let name = family.name();
        let help = family.help().replace('\\', "\\\\").replace('\n', "\\n");
        let _ = write!(to, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for metric in family.get_metric() {
            let labels = metric.get_label();
            match family.get_field_type() {
                MetricType::COUNTER => {
                    sample(to, name, "", labels, None, metric.get_counter().get_value())
                }
                MetricType::GAUGE => {
                    sample(to, name, "", labels, None, metric.get_gauge().get_value())
                }
                _ => {
                    let histogram = metric.get_histogram();
                    let count = histogram.get_sample_count() as f64;
                    for bucket in histogram
                        .get_bucket()
                        .iter()
                        .filter(|bucket| bucket.upper_bound().is_finite())
                    {
                        let bound = number(bucket.upper_bound());
                        sample(
                            to,
                            name,
                            "_bucket",
                            labels,
                            Some(&bound),
                            bucket.cumulative_count() as f64,
                        );
                    }
                    sample(to, name, "_bucket", labels, Some("+Inf"), count);
                    sample(to, name, "_sum", labels, None, histogram.get_sample_sum());
                    sample(to, name, "_count", labels, None, count);
                }
            }
        }
    }
}

fn sample(
    to: &mut String,
    name: &str,
    suffix: &str,
    labels: &[LabelPair],
    bound: Option<&str>,
    value: f64,
) {
    let pairs = labels
        .iter()
        .map(|pair| (pair.name(), pair.value()))
        .chain(bound.map(|bound| ("le", bound)));
    let pairs: Vec<String> = pairs
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    let labels = if pairs.is_empty() {
        String::new()
    } else {
        format!("{{{}}}", pairs.join(","))
    };
    let _ = writeln!(to, "{name}{suffix}{labels} {}", number(value));
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Formats like Go's `strconv.FormatFloat(value, 'g', -1, 64)`: with the fewest digits that identify the number, with
/// an exponent if that is below -4 or above 5.
fn number(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>().unwrap_or_default() {
        -4..=5 => value.to_string(),
        exponent if exponent < 0 => format!("{digits}e-{:02}", -exponent),
        exponent => format!("{digits}e+{exponent:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_go_does() {
        let numbers = [
            (0.0, "0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (1e-8, "1e-08"),
            (9.999999999999999e-6, "9.999999999999999e-06"),
            (0.0001, "0.0001"),
            (100_000.0, "100000"),
            (1e6, "1e+06"),
            (1.048576e6, "1.048576e+06"),
            (999_999.0, "999999"),
            (123_456_789.0, "1.23456789e+08"),
            (1_763_719_998.25, "1.76371999825e+09"),
            (f64::INFINITY, "+Inf"),
        ];
        for (value, text) in numbers {
            assert_eq!(number(value), text);
        }
    }
}
