//! Recordings that nobody vouches for: whatever they say, a call ends, within the limits of a plugin, and nothing panics.

use super::*;

/// A document as it stands in a recording.
fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.into()).unwrap()
}

/// Repeats a call under short limits, in which a loop without end is stopped.
async fn soon(wasm: Vec<u8>, call: &Call) -> Verdict {
    let limits = Limits {
        cpu_per_call: Duration::from_millis(50),
        ..limits(&header(), call)
    };
    let plugin = plugin_of(&engine(), wasm, limits).await;
    replay(&plugin, &header(), call, &BTreeMap::new())
        .await
        .unwrap()
}

/// How a call ended, for people.
fn end_of(verdict: &Verdict) -> String {
    let ended = verdict.ended.as_ref().map(Ended::to_string);
    ended.unwrap_or_default()
}

#[tokio::test]
async fn an_import_that_the_world_does_not_have_is_shown_as_the_point_where_the_call_parts() {
    let mut call = recorded_by(guest(), plain(), "get", 0).await;
    for import in ["disk.read", "", "lister.get\u{1b}[2J"] {
        call.steps[0].import = import.into();
        let verdict = repeated(guest(), &header(), &call).await;
        let text = verdict.parted.expect("it parts").to_string();
        assert!(text.contains("asks now:     lister.get"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}

#[tokio::test]
async fn a_call_or_an_end_that_the_world_does_not_have_is_malformed() {
    let call = recorded_by(guest(), plain(), "done", 0).await;
    let line = String::from_utf8(call_line(&call).unwrap()).unwrap();
    for (from, to) in [
        ("\"reconcile\":", "\"destroy\":"),
        ("\"done\":", "\"exploded\":"),
        ("\"kept\":\"", "\"kept\":\"un"),
        ("\"attempt\":0", "\"attempt\":-1"),
        ("\"attempt\":0", "\"attempt\":1e99"),
        ("\"steps\":[", "\"steps\":[{}"),
    ] {
        assert!(line.contains(from), "{from} is not in {line}");
        let lie = line.replacen(from, to, 1);
        assert!(read_call(lie.as_bytes()).is_err(), "{lie}");
    }
}

#[tokio::test]
async fn sizes_that_lie_end_the_call_at_its_limits() {
    let mut call = recorded_by(guest(), plain(), "page", 0).await;
    let last = call.steps.len() - 1;
    // A page whose rest takes all memory there is, by its own word.
    let page = format!(
        "{{\"ok\":{{\"items\":[],\"rest\":0,\"restBytes\":{}}}}}",
        u64::MAX
    );
    call.steps[last].answered = Some(raw(&page));
    let verdict = repeated(guest(), &header(), &call).await;
    let text = end_of(&verdict);
    assert!(
        text.starts_with("traps") || text.starts_with("is stopped"),
        "{text}"
    );
    // A page of more bytes than a call may get, which the honest limit of the header allows.
    let items = format!("[{}null]", "null,".repeat(4 << 20));
    call.steps[last].answered = Some(raw(&format!("{{\"ok\":{{\"items\":{items}}}}}")));
    let header = Header {
        limits: flyball_recording::GuestLimits {
            answer_bytes: u64::MAX,
            staged_bytes: u64::MAX,
            memory: 32 << 20,
            ..flyball_recording::GuestLimits::default()
        },
        ..header()
    };
    let verdict = repeated(guest(), &header, &call).await;
    assert!(verdict.ended.is_some() || verdict.parted.is_some());
}

#[tokio::test]
async fn a_guest_that_asks_without_end_is_answered_as_often_as_it_was_recorded() {
    let honest = recorded_by(guest(), plain(), "page", 0).await;
    let asks_on = mutant(
        "(then (call $read-page))",
        "(then (loop $again (call $list-pods (i32.const 1000)) (br $again)))",
    );
    for count in [1, 3000] {
        let mut call = honest.clone();
        let step = call.steps.pop().unwrap();
        call.steps.extend(vec![step; count]);
        let verdict = repeated(asks_on.clone(), &header(), &call).await;
        let text = verdict.parted.expect("it parts").to_string();
        assert!(text.contains("asked nothing more"), "{text}");
    }
}

#[tokio::test]
async fn what_is_not_compared_has_limits_too() {
    // Log lines, handles and writes that are never sent, without end. The recording has none of them.
    let mut call = recorded_by(guest(), plain(), "done", 0).await;
    for (key, most_lines) in [("log", 1000), ("handles", 0), ("batch", 0), ("memory", 0)] {
        call.call = input(key);
        let verdict = soon(guest(), &call).await;
        assert!(verdict.log.len() <= most_lines, "{key}");
        let text = end_of(&verdict);
        let is_over = text.starts_with("traps") || text.starts_with("is stopped");
        assert!(is_over || verdict.parted.is_some(), "{key}: {text}");
    }
}

#[tokio::test]
async fn no_byte_of_a_recording_that_is_changed_makes_a_replay_panic_or_hang() {
    let engine = engine();
    let mut repeated = 0;
    for key in ["get", "page", "write", "raw"] {
        let call = recorded_by(guest(), plain(), key, 2).await;
        let line = call_line(&call).unwrap();
        for (at, byte) in (0..line.len())
            .step_by(5)
            .zip(b"09-\"{}[]:,e.tn\\ ".iter().cycle())
        {
            let mut lie = line.clone();
            lie[at] = *byte;
            let Ok(call) = read_call(&lie) else {
                continue;
            };
            // The key may be another one, which loops or allocates without end.
            let limits = Limits {
                cpu_per_call: Duration::from_millis(50),
                memory: 32 << 20,
                ..limits(&header(), &call)
            };
            let plugin = plugin_of(&engine, guest(), limits).await;
            drop(replay(&plugin, &header(), &call, &BTreeMap::new()).await);
            repeated += 1;
        }
    }
    assert!(
        repeated > 20,
        "only {repeated} of the changed lines are calls"
    );
}
