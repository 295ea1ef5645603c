//! The site: its summary and links.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Book, links};

#[test]
fn each_page_is_listed_once() -> Result<()> {
    let book = Book::of_checkout();
    let mut listed = book.listed()?;
    listed.sort();
    let pages = book.pages()?;
    ensure!(pages.len() > 20, "the test finds the pages: {pages:?}");
    assert_eq!(listed, pages, "docs/SUMMARY.md lists other pages");
    Ok(())
}

#[test]
fn each_link_leads_to_a_page_of_the_site() -> Result<()> {
    let book = Book::of_checkout();
    let pages: BTreeSet<String> = book.pages()?.into_iter().collect();
    let mut checked = 0;
    for page in &pages {
        let text = book.page(page)?;
        let folder = Path::new(page).parent().unwrap_or(Path::new(""));
        for link in links(&text) {
            if link.contains("://") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => page.clone(),
                path => joined(folder, path).with_context(|| {
                    format!("{page} links to {link}, which is not part of the site")
                })?,
            };
            ensure!(
                pages.contains(&target)
                    || target.ends_with(".svg") && book.folder().join(&target).is_file(),
                "{page} links to {link}, which does not exist"
            );
            if !heading.is_empty() {
                let headings = headings(&book.page(&target)?);
                ensure!(
                    headings.contains(heading),
                    "{page} links to {link}; the headings are {headings:?}"
                );
            }
            checked += 1;
        }
    }
    ensure!(checked > 50, "the test finds the links: {checked}");
    Ok(())
}

/// The path of a link in a folder of the site. None if it leaves the site.
fn joined(folder: &Path, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.iter().filter_map(|part| part.to_str()).collect();
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The names of a page's headings, as links use them.
fn headings(page: &str) -> BTreeSet<String> {
    let titles = page
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim().to_lowercase());
    titles
        .map(|title| {
            let kept = title
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}
