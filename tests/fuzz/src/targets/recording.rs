//! Recordings, which nobody vouches for.

use flyball_recording::file::{self, Recording};
use flyball_recording::{Asked, Call, Header, Reply, Tape, asked, secrets};
use serde_json::Value;

use super::{Target, Verdict, equal};

pub(super) const RECORDING: Target = Target {
    name: "recording",
    tokens: || {
        vec![
            "\n",
            "null",
            "{\"ok\":",
            "{\"error\":",
            "{\"$base64\":\"AA==\"}",
            "\"lister.get\"",
            "\"lister.list\"",
            "\"writer.run\"",
            "\"clock.now\"",
            "\"random.bytes\"",
            "\"v1/Secret\"",
            "\"data\":",
            "\"steps\":[",
            "18446744073709551616",
        ]
    },
    feed: recording,
};

/// The longest input whose calls are repeated.
const REPEATED: usize = 1 << 20;

fn recording(input: &[u8]) -> Verdict {
    let recording = match Recording::open(input) {
        Ok(recording) => recording,
        Err(_) => return Ok("not a recording".into()),
    };
    let header = recording.header().clone();
    let mut outcome = "no call".to_owned();
    for read in recording {
        let Ok(call) = read else {
            return Ok("damaged".into());
        };
        if input.len() <= REPEATED {
            outcome = one(&header, call)?;
        }
    }
    Ok(outcome)
}

fn one(header: &Header, mut call: Call) -> Verdict {
    // A number may lose precision when it is read.
    call.took_ms = 0.0;
    let Some(line) = file::call_line(&call) else {
        return Err("a call that was read can't be written".into());
    };
    let again = file::call(&line)
        .map_err(|error| format!("a call that was written can't be read: {error}"))?;
    equal("the line of a call", file::call_line(&again), Some(line))?;
    let outcome = repeated(header, &call)?;
    if secrets::hide(&mut call, true).is_err() {
        return Ok("too much to hide".into());
    }
    let hidden = call.hidden;
    secrets::hide(&mut call, true).map_err(|error| format!("hidden data is too much: {error}"))?;
    let outcome = format!("{outcome}, {}", if hidden > 0 { "hidden" } else { "plain" });
    repeated(header, &call).map(|_| outcome)
}

/// Asks a tape all that its call asked. It answers until a step is malformed.
fn repeated(header: &Header, call: &Call) -> Verdict {
    // With its data, so that questions are compared as they are.
    let header = Header {
        with_secrets: true,
        ..header.clone()
    };
    let Ok(mut tape) = Tape::new(&header, call) else {
        return Ok("malformed".into());
    };
    let (mut answers, mut is_over) = (0, false);
    for step in &call.steps {
        let known = [
            asked::LISTER_GET,
            asked::LISTER_LIST,
            asked::WRITER_RUN,
            asked::MEMO_GET,
        ];
        let Some(import) = known.into_iter().find(|name| *name == step.import) else {
            continue;
        };
        let Ok(arguments) = serde_json::from_str::<Value>(step.asked.get()) else {
            continue;
        };
        match tape.ask(Asked { import, arguments }) {
            Reply::Answer(_) if is_over => return Err("a tape answers after it has parted".into()),
            Reply::Answer(_) => answers += 1,
            Reply::Stop | Reply::Parted => is_over = true,
        }
    }
    tape.clock();
    if tape.random(7).len() != 7 {
        return Err("a tape gives another number of random bytes than it is asked for".into());
    }
    let parted = tape.end(Some(call.ended.clone()));
    if let Some(parted) = &parted {
        let text = parted.to_string();
        if text.chars().any(|c| c.is_control() && c != '\n') {
            return Err(format!("the text has control characters: {text:?}"));
        }
    }
    Ok(match (answers, parted) {
        (0, None) => "empty".into(),
        (_, None) => "repeated".into(),
        (_, Some(_)) => "parted".into(),
    })
}
