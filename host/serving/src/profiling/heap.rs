//! The profile of the heap. jemalloc becomes the allocator of every program that is linked with this crate, and records
//! the stack of one allocation in 512 KiB, as Go does.

use http::StatusCode;
use jemalloc_pprof::PROF_CTL;
use tikv_jemallocator::Jemalloc;

use super::{download, failed};
use crate::response::FullResponse;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// The options of jemalloc, which reads them before `main`.
#[expect(unsafe_code, reason = "jemalloc looks for the name")]
#[used]
#[unsafe(export_name = "_rjem_malloc_conf")]
static OPTIONS: &[u8; 45] = b"prof:true,prof_active:true,lg_prof_sample:19\0";

/// Responds with the memory in use, by the stacks that allocated it.
pub(super) async fn profile() -> FullResponse {
    let Some(control) = PROF_CTL.as_ref() else {
        return unwritable("jemalloc was started with `prof:false`; check _RJEM_MALLOC_CONF");
    };
    let mut control = control.clone().lock_owned().await;
    match tokio::task::spawn_blocking(move || control.dump_pprof()).await {
        Ok(Ok(profile)) => download("attachment; filename=\"heap\"", profile),
        Ok(Err(error)) => unwritable(&format!("{error:#}")),
        Err(error) => unwritable(&error.to_string()),
    }
}

fn unwritable(reason: &str) -> FullResponse {
    let reason = format!("Could not write the heap profile: {reason}");
    failed(StatusCode::INTERNAL_SERVER_ERROR, &reason)
}

#[cfg(test)]
mod tests {
    use http::Method;
    use http_body_util::BodyExt;

    use super::super::format::tests::go_reads;
    use super::super::respond;

    #[inline(never)]
    fn keep_64_mib() -> Vec<Vec<u8>> {
        (0..64).map(|_| vec![1; 1 << 20]).collect()
    }

    #[tokio::test]
    async fn go_reads_where_memory_in_use_was_allocated() {
        let kept = keep_64_mib();
        let response = respond(&Method::GET, "heap", "", async { None }).await;
        let profile = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(std::hint::black_box(kept).len(), 64);
        let top = go_reads(&profile, "inuse_space", "keep_64_mib");
        let line = top.lines().find(|line| line.contains("keep_64_mib"));
        // The columns are flat, flat%, sum%, cum, cum%, name.
        let sum = line
            .and_then(|line| line.split_whitespace().nth(3))
            .unwrap();
        let mib: f64 = sum.trim_end_matches("MB").parse().unwrap();
        assert!((48.0..80.0).contains(&mib), "{top}");
    }
}
