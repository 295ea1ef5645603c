//! The stories in `docs/`, each of a user with a problem, word for word.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Book, Cluster, Space, Step, finish, host, until};
use flyball_controlplane::{Options, kubectl};
use flyball_fakes::collector::{CollectedSpan, FakeCollector, trees};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::tutorials::Reader;

const REPLAY: &str = "replay-story.md";
const PLAN: &str = "plan-story.md";
const ROLLOUT: &str = "rollout-story.md";
const BUNDLE: &str = "bundle-story.md";

/// The articles that have a teaser.
const ARTICLES: usize = 10_000;
/// How many articles are written at once.
const AT_ONCE: usize = 32;
/// The collector of the pages.
const COLLECTOR: &str = "localhost:4317";

/// A reader of a page, who begins in an empty folder below `home`.
fn reader(cluster: &Cluster, kubectl: &Path, home: &Path, page: &str) -> Result<Reader> {
    let [programs, folder] = ["programs", "work"].map(|name| home.join(name));
    fs::create_dir(&programs)?;
    fs::create_dir(&folder)?;
    symlink(kubectl, programs.join("kubectl"))?;
    symlink(host()?.canonicalize()?, programs.join("flyball"))?;
    Reader::new(cluster, &programs, &folder, page)
}

/// The steps of a page, of which some show what commands print.
fn steps(page: &str) -> Result<Vec<Step>> {
    let steps = Book::of_checkout().steps(page)?;
    let shown = steps.iter().filter(|step| matches!(step, Step::Expect(_)));
    ensure!(shown.count() > 3, "docs/{page} shows no output: {steps:?}");
    Ok(steps)
}

#[tokio::test]
async fn the_story_of_one_object_of_ten_thousand_is_true_word_for_word() -> Result<()> {
    let kubectl = kubectl().await?;
    let home = tempfile::tempdir()?;
    let cluster = Cluster::for_plugins().await?;
    let result = async {
        write_articles(&cluster).await?;
        let mut reader = reader(&cluster, &kubectl, home.path(), REPLAY)?;
        reader.follow(&steps(REPLAY)?).await
    };
    let result = result.await;
    finish(cluster, [], result).await
}

#[tokio::test]
async fn the_story_of_an_upgrade_that_would_delete_something_is_true_word_for_word() -> Result<()> {
    let kubectl = kubectl().await?;
    let home = tempfile::tempdir()?;
    let cluster = Cluster::for_plugins().await?;
    let result = async {
        let mut reader = reader(&cluster, &kubectl, home.path(), PLAN)?;
        reader.follow(&steps(PLAN)?).await
    };
    let result = result.await;
    finish(cluster, [], result).await
}

/// Writes the articles that the plugin of the story has dealt with long ago.
async fn write_articles(cluster: &Cluster) -> Result<()> {
    let space = &Space::create(cluster.client.clone(), "news").await?;
    let write = |number: usize| async move {
        let text = format!("This is article {number} of very many");
        let metadata = json!({
            "name": format!("article-{number}"),
            "labels": {"kind": "article"},
            "annotations": {"news.example.com/teaser": &text[..20]},
        });
        let article = json!({"metadata": metadata, "data": {"text": text}});
        space.create_object::<ConfigMap>(article).await.map(drop)
    };
    let written = futures::stream::iter(1..=ARTICLES).map(write);
    written.buffer_unordered(AT_ONCE).try_collect().await
}

#[tokio::test]
async fn the_story_of_a_bug_report_is_true_word_for_word() -> Result<()> {
    let kubectl = kubectl().await?;
    let home = tempfile::tempdir()?;
    let cluster = Cluster::for_plugins().await?;
    let mut reader = reader(&cluster, &kubectl, home.path(), BUNDLE)?;
    let steps = steps(BUNDLE)?;
    let is_elsewhere =
        |step: &Step| matches!(step, Step::Run(commands) if commands.contains("tar -xzf"));
    let away = steps.iter().position(is_elsewhere);
    let (here, there) = steps.split_at(away.context("nobody unpacks the report")?);

    let reported = carry_out(&mut reader, here);
    let stopped = reader.stop_beside().await;
    finish(cluster, [], reported.and(stopped)).await?;
    // Nothing is left of the cluster and its host.
    let nowhere = tempfile::tempdir()?;
    reader.move_away(nowhere.path());
    carry_out(&mut reader, there)
}

fn carry_out(reader: &mut Reader, steps: &[Step]) -> Result<()> {
    let mut steps = steps.iter();
    steps.try_for_each(|step| {
        let done = reader.carry_out(step);
        done.with_context(|| format!("{step:?} fails"))
    })
}

/// The collector takes spans while commands run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_story_of_a_rollout_that_hangs_is_true_word_for_word() -> Result<()> {
    let kubectl = kubectl().await?;
    let home = tempfile::tempdir()?;
    let collector = FakeCollector::start().await;
    let cluster = Cluster::start(Options::default()).await?;
    let mut reader = reader(&cluster, &kubectl, home.path(), ROLLOUT)?;
    let mut result = Ok(());
    for step in steps(ROLLOUT)? {
        result = match &step {
            Step::Save { path, text } => {
                let (path, text) = (path.clone(), text.replace(COLLECTOR, collector.endpoint()));
                reader.carry_out(&Step::Save { path, text })
            }
            // What Jaeger shows.
            Step::Expect(text) if text.starts_with("change ") => {
                until_drawn(&collector, text).await
            }
            step => reader.carry_out(step),
        };
        result = result.with_context(|| format!("{step:?} fails"));
        if result.is_err() {
            break;
        }
    }
    let stopped = reader.stop_beside().await;
    finish(cluster, [], result.and(stopped)).await
}

/// Waits until a trace has what a page draws of it.
async fn until_drawn(collector: &FakeCollector, page: &str) -> Result<()> {
    let drawn = drawn(page);
    ensure!(drawn.len() == 1, "a trace begins with one span:\n{page}");
    until("the trace is exported", async || {
        let spans = collector.spans();
        Ok(match spans.iter().any(|span| drawn[0].is(span, &spans)) {
            true => Ok(()),
            false => Err(trees(&spans)),
        })
    })
    .await
}

/// A span as a page draws it, with some of those below it.
struct Drawn {
    label: String,
    below: Vec<Drawn>,
}

/// Reads a drawing: each span is a line, which is indented below its parent.
fn drawn(page: &str) -> Vec<Drawn> {
    let mut top: Vec<Drawn> = Vec::new();
    let mut depths: Vec<usize> = Vec::new();
    for line in page.lines() {
        let label = line.trim_start();
        let depth = line.len() - label.len();
        depths.retain(|above| *above < depth);
        let place = depths.iter().fold(&mut top, |below, _| {
            let last = below.len() - 1;
            &mut below[last].below
        });
        let (label, below) = (label.to_owned(), Vec::new());
        place.push(Drawn { label, below });
        depths.push(depth);
    }
    top
}

impl Drawn {
    /// Whether this is the span, and whether the others are below it.
    fn is(&self, span: &CollectedSpan, spans: &[CollectedSpan]) -> bool {
        let has = |drawn: &Drawn| {
            let mut below = spans.iter().filter(|other| other.parent == span.id);
            below.any(|span| drawn.is(span, spans))
        };
        self.label == label(span) && self.below.iter().all(has)
    }
}

/// The name of a span, with its plugin and its error.
fn label(span: &CollectedSpan) -> String {
    let attribute = |name: &str| span.attributes.get(name).map(String::as_str);
    let details = ["flyball.plugin", "error.type"].into_iter();
    let words = [Some(&*span.name)].into_iter();
    let words = words.chain(details.map(attribute)).flatten();
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_drawing_is_read_by_its_indentation() {
    let top = drawn("a\n  b\n    c\n  d x\ne\n");
    let labels = |drawn: &[Drawn]| {
        drawn
            .iter()
            .map(|one| one.label.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(labels(&top), ["a", "e"]);
    assert_eq!(labels(&top[0].below), ["b", "d x"]);
    assert_eq!(labels(&top[0].below[0].below), ["c"]);
}

#[test]
fn each_story_is_linked_from_the_readme_and_from_the_page_that_it_illustrates() -> Result<()> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = fs::read_to_string(readme)?;
    let book = Book::of_checkout();
    for (story, page) in [
        (REPLAY, "recordings.md"),
        (ROLLOUT, "traces.md"),
        (BUNDLE, "operating.md"),
        (PLAN, "plan.md"),
    ] {
        let link = PathBuf::from("docs").join(story).display().to_string();
        ensure!(
            readme.contains(&format!("({link})")),
            "README.md has no {link}"
        );
        let page = book.page(page)?;
        ensure!(page.contains(&format!("({story})")), "no link to {story}");
    }
    Ok(())
}
