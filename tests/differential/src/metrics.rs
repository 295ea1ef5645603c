//! The metrics of the controllers of a control plane: the names of their series and labels, not the values, which
//! depend on timing.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::Cluster;

use crate::folders::{self, Written};

/// A series by its family, its labels' names, and the values of the labels in [`VALUES`]:
/// `workqueue_adds_total{name="job"}`.
pub type Series = BTreeSet<String>;

/// Labels whose values are compared: the names of queues, and the buckets of histograms.
const VALUES: [&str; 2] = ["le", "name"];
/// Families of the process and not of its controllers, by what their names begin with.
const OF_PROCESS: [&str; 22] = [
    "aggregator_",
    "apiextensions_",
    "apiserver_",
    "authenticated_user_",
    "authentication_",
    "authorization_",
    "cardinality_enforcement_",
    "disabled_metrics_",
    "etcd_",
    "field_validation_",
    "flyball_",
    "go_",
    "hidden_metrics_",
    "informer_",
    "kubernetes_",
    "leader_election_",
    "process_",
    "registered_metrics_",
    "reflector_",
    "rest_client_",
    "running_managed_controllers",
    "version_info",
];
/// Queues of the process, by what their names begin with: those for certificates and configuration of its server.
const QUEUES_OF_PROCESS: [&str; 2] = ["name=\"Dynamic", "name=\"RequestHeaderAuth"];

/// Reads the series that the controllers serve on this port.
///
/// # Errors
/// The response is not a page of metrics.
pub(crate) async fn scrape(cluster: &Cluster, port: u16) -> Result<Series> {
    let page = cluster.https(port, "/metrics").await?;
    ensure!(
        page.contains("# TYPE "),
        "the controllers serve no metrics: {page}"
    );
    Ok(series(&page))
}

/// Returns the series of the controllers on a page in Prometheus' text format.
pub(crate) fn series(page: &str) -> Series {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.filter(|line| !is_of_process(line));
    lines.filter_map(describe).collect()
}

fn is_of_process(line: &str) -> bool {
    OF_PROCESS.iter().any(|start| line.starts_with(start))
        || QUEUES_OF_PROCESS.iter().any(|queue| line.contains(queue))
}

/// Returns a line's series; `None` if the line is empty.
fn describe(line: &str) -> Option<String> {
    let family = line.split(|c: char| c == '{' || c.is_whitespace()).next();
    let family = family.filter(|family| !family.is_empty())?;
    let describe = |(name, value): (&str, &str)| match VALUES.contains(&name) {
        true => format!("{name}=\"{value}\""),
        false => name.to_owned(),
    };
    let mut described: Vec<String> = labels(line).into_iter().map(describe).collect();
    described.sort();
    Some(format!("{family}{{{}}}", described.join(",")))
}

/// The labels of a line, with their values as they are written.
pub fn labels(line: &str) -> Vec<(&str, &str)> {
    let inside = line
        .split_once('{')
        .and_then(|(_, rest)| Some(rest.rsplit_once('}')?.0));
    let (mut labels, mut rest) = (Vec::new(), inside.unwrap_or_default());
    while let Some((name, value)) = rest.split_once("=\"") {
        let end = end_of_value(value);
        labels.push((name.trim_start_matches(','), &value[..end]));
        rest = value.get(end + 1..).unwrap_or_default();
    }
    labels
}

/// Shortens a text about a series of a histogram to one about the histogram, so that its buckets take one line.
pub(crate) fn family(text: &str) -> String {
    let bucket = text
        .split_once("le=\"")
        .and_then(|(before, rest)| Some((before, rest.split_once('"')?.1)));
    let text = bucket.map_or(text.to_owned(), |(before, after)| {
        (before.to_owned() + after.trim_start_matches(',')).replace(",}", "}")
    });
    ["_bucket{", "_count{", "_sum{"]
        .iter()
        .fold(text, |text, suffix| text.replace(suffix, "{"))
}

/// The position of the quote that ends a value. A backslash escapes the character after it.
fn end_of_value(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at,
            _ => {}
        }
    }
    text.len()
}

/// Reads the golden of a plane's metrics; `None` if there is none.
///
/// # Errors
/// The golden can't be read, or is not valid.
pub fn read(plane: &str) -> Result<Option<Series>> {
    let written = file(plane)?;
    let path = written.to_read();
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
    let series = serde_json::from_slice(&text);
    series
        .map(Some)
        .with_context(|| format!("{} is not a valid golden", path.display()))
}

/// Writes the golden of a plane's metrics.
///
/// # Errors
/// The file can't be written.
pub fn write(plane: &str, series: &Series) -> Result<()> {
    let text = serde_json::to_string_pretty(series)? + "\n";
    file(plane)?.write(&text, |current| current == text.as_bytes())
}

fn file(plane: &str) -> Result<Written> {
    Written::in_folder(&folders::all(), "metrics", &format!("{plane}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_has_the_names_of_its_labels_and_the_values_of_some() {
        let page = "# HELP a_total b\n# TYPE a_total counter\na_total 3\n\
                    go_goroutines 4\n\
                    workqueue_adds_total{name=\"DynamicClientCertificate\"} 1\n\
                    workqueue_adds_total{name=\"job\"} 1\n\
                    b_bucket{result=\"a}\\\"b\",action=\"x\",le=\"0.5\"} 7\n\
                    b_bucket{result=\"c\",action=\"x\",le=\"0.5\"} 7\n\n";
        let expected = [
            "a_total{}",
            "b_bucket{action,le=\"0.5\",result}",
            "workqueue_adds_total{name=\"job\"}",
        ];
        assert_eq!(series(page), expected.map(str::to_owned).into());
    }

    #[test]
    fn the_goldens_have_no_series_of_the_process() {
        let goldens = fs::read_dir(folders::all().join("metrics")).unwrap();
        for golden in goldens {
            let path = golden.unwrap().path();
            let plane = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let series = read(&plane).unwrap().unwrap();
            let of_process: Vec<&String> = series.iter().filter(|one| is_of_process(one)).collect();
            assert!(of_process.is_empty(), "{plane}: {of_process:?}");
        }
    }

    #[test]
    fn the_series_of_a_histogram_have_one_family() {
        for series in ["b_bucket{a,le=\"0.5\",name=\"c\"}", "b_sum{a,name=\"c\"}"] {
            assert_eq!(
                family(&format!("missing: {series}")),
                "missing: b{a,name=\"c\"}"
            );
        }
    }
}
