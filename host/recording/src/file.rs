//! Reads and writes recordings: JSON Lines, a [`Header`] and then a line for each [`Call`].
//!
//! Nobody vouches for a recording. A reader holds one call at a time; a call is at most [`MAX_LINE`] bytes long, and what
//! is parsed into values before it is needed is bounded too, since a value takes up to 32 times the bytes of its text.

use std::io::{self, BufRead};

use crate::{Call, FORMAT, Header, Malformed};

/// The longest line of a recording, in bytes. A longer call is not recorded.
pub const MAX_LINE: usize = 32 << 20;
/// The longest header, in bytes.
const MAX_HEADER: usize = 64 << 10;
/// The most steps of a call.
pub const MAX_STEPS: usize = 100_000;
/// The longest arguments of one step, in bytes.
pub const MAX_ASKED: usize = 8 << 20;

/// Why a recording can't be read. No retry helps: it is damaged, of another version, or not a recording.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("line {line} of the recording can't be read")]
    Io {
        line: usize,
        #[source]
        source: io::Error,
    },
    #[error("the file is not a recording: its first line is not the header of one")]
    NotARecording,
    /// It has another version of the format.
    #[error(
        "the recording has version {found} of the format, and this program reads version {FORMAT}: use the version of flyball \
         that recorded it"
    )]
    OtherFormat { found: u32 },
    #[error("line {line} of the recording is longer than {limit} bytes")]
    TooLong { line: usize, limit: usize },
    /// The file was cut off, for example because the recording was interrupted.
    #[error(
        "line {line} of the recording is incomplete: the file was cut off; the calls before it are complete"
    )]
    CutOff { line: usize },
    #[error("line {line} of the recording is malformed: {problem}")]
    Malformed { line: usize, problem: String },
}

/// Reads the calls of a recording one after another.
pub struct Recording<R> {
    input: R,
    header: Header,
    /// The number of the last line that was read, from 1.
    line: usize,
    has_ended: bool,
}

impl<R: BufRead> Recording<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// The input can't be read, is not a recording, or has another version of the format.
    pub fn open(mut input: R) -> Result<Self, ReadError> {
        let line = read_line(&mut input, 1, MAX_HEADER)?.ok_or(ReadError::NotARecording)?;
        let found: Version = serde_json::from_slice(&line).map_err(|_| ReadError::NotARecording)?;
        if found.flyball_recording != FORMAT {
            return Err(ReadError::OtherFormat {
                found: found.flyball_recording,
            });
        }
        let header = serde_json::from_slice(&line).map_err(|error| malformed(1, error))?;
        Ok(Self {
            input,
            header,
            line: 1,
            has_ended: false,
        })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The number of the line of the last call, from 1 for the header.
    pub fn line(&self) -> usize {
        self.line
    }

    fn read(&mut self) -> Result<Option<Call>, ReadError> {
        self.line += 1;
        let Some(line) = read_line(&mut self.input, self.line, MAX_LINE)? else {
            return Ok(None);
        };
        call(&line)
            .map(Some)
            .map_err(|error| malformed(self.line, error))
    }
}

/// Ends after the first error.
impl<R: BufRead> Iterator for Recording<R> {
    type Item = Result<Call, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let read = self.read().transpose();
        self.has_ended = !matches!(read, Some(Ok(_)));
        read
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    flyball_recording: u32,
}

fn malformed(line: usize, problem: impl ToString) -> ReadError {
    let problem = flyball_types::excerpt(&problem.to_string(), 1000);
    ReadError::Malformed { line, problem }
}

/// Reads a line without its end; none at the end of the input.
fn read_line(input: impl BufRead, line: usize, limit: usize) -> Result<Option<Vec<u8>>, ReadError> {
    let mut bytes = Vec::new();
    let read = input.take(limit as u64 + 1).read_until(b'\n', &mut bytes);
    read.map_err(|source| ReadError::Io { line, source })?;
    match bytes.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(bytes)),
        Some(_) if bytes.len() >= limit => Err(ReadError::TooLong { line, limit }),
        Some(_) => Err(ReadError::CutOff { line }),
    }
}

/// Parses a call.
///
/// # Errors
/// It is not what the format says, or it has too many or too long steps.
pub fn call(line: &[u8]) -> Result<Call, Malformed> {
    let call: Call = serde_json::from_slice(line)?;
    if call.steps.len() > MAX_STEPS {
        let found = call.steps.len();
        return Err(Malformed(format!(
            "the call has {found} steps, more than {MAX_STEPS}"
        )));
    }
    let too_long = call
        .steps
        .iter()
        .position(|step| step.asked.get().len() > MAX_ASKED);
    if let Some(step) = too_long {
        return Err(Malformed(format!(
            "step {} has more than {MAX_ASKED} bytes of arguments",
            step + 1
        )));
    }
    Ok(call)
}

/// Returns the first line of a recording, with its end.
pub fn header_line(header: &Header) -> Vec<u8> {
    line_of(header)
}

/// Returns the line of a call, with its end; none if it has too many or too long steps to be read again.
pub fn call_line(call: &Call) -> Option<Vec<u8>> {
    let fits = |step: &crate::Step| step.asked.get().len() <= MAX_ASKED;
    if call.steps.len() > MAX_STEPS || !call.steps.iter().all(fits) {
        return None;
    }
    Some(line_of(call)).filter(|line| line.len() <= MAX_LINE)
}

fn line_of(value: &impl serde::Serialize) -> Vec<u8> {
    // Only maps with other keys than texts fail.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;
    use crate::{Ended, Input, Kept, Step};

    fn header() -> Header {
        Header {
            flyball_recording: FORMAT,
            plugin: "a".into(),
            ..Header::default()
        }
    }

    fn some_call(steps: usize) -> Call {
        let raw = |text: &str| RawValue::from_string(text.into()).unwrap();
        let step = Step {
            import: "clock.now".into(),
            asked: raw("{}"),
            answered: Some(raw("{\"ok\": {\"seconds\":1}}")),
        };
        Call {
            call: Input::Reconcile {
                queue: "q".into(),
                key: "a/b".into(),
                attempt: 1,
            },
            digest: "0".into(),
            began: String::new(),
            took_ms: 1.5,
            kept: Kept::Failed,
            hidden: 0,
            steps: vec![step; steps],
            ended: Ended::Done {},
        }
    }

    fn recorded(steps: &[usize]) -> Vec<u8> {
        let calls = steps
            .iter()
            .map(|&steps| call_line(&some_call(steps)).unwrap());
        std::iter::once(header_line(&header()))
            .chain(calls)
            .flatten()
            .collect()
    }

    /// Reads all calls, and returns their number and the first error.
    fn read(bytes: &[u8]) -> (usize, Option<String>) {
        let recording = match Recording::open(bytes) {
            Ok(recording) => recording,
            Err(error) => return (0, Some(error.to_string())),
        };
        let (mut calls, mut error) = (0, None);
        for call in recording {
            match call {
                Ok(_) => calls += 1,
                Err(found) => error = Some(found.to_string()),
            }
        }
        (calls, error)
    }

    #[test]
    fn what_was_written_is_read() {
        let bytes = recorded(&[0, 3]);
        let recording = Recording::open(&*bytes).unwrap();
        assert_eq!(*recording.header(), header());
        let calls: Vec<Call> = recording.map(Result::unwrap).collect();
        assert_eq!(calls[1].steps.len(), 3);
        let answered = calls[1].steps[0].answered.as_ref().unwrap();
        assert_eq!(answered.get(), "{\"ok\": {\"seconds\":1}}", "byte by byte");
        assert_eq!(calls[1].call.key(), Some("a/b"));
    }

    #[test]
    fn other_files_are_refused_with_what_is_wrong() {
        for (bytes, message) in [
            (&b""[..], "not a recording"),
            (b"\0asm\n", "not a recording"),
            (b"[[[[[[\n", "not a recording"),
            (b"{\"flyballRecording\":2}\n", "version 2 of the format"),
            (
                b"{\"flyballRecording\":1}\n",
                "line 1 of the recording is malformed",
            ),
        ] {
            let error = read(bytes).1.unwrap();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn a_recording_that_was_cut_off_has_its_complete_calls() {
        let whole = recorded(&[1, 1]);
        let (calls, error) = read(&whole[..whole.len() - 5]);
        assert_eq!(calls, 1);
        assert!(error.unwrap().contains("line 3"), "the second call");
    }

    #[test]
    fn bombs_are_refused() {
        let with = |line: &[u8]| [&header_line(&header())[..], line].concat();
        let long = vec![b' '; MAX_LINE + 2];
        assert!(read(&with(&long)).1.unwrap().contains("longer than"));
        let deep = "[".repeat(1 << 20) + "\n";
        assert!(read(&with(deep.as_bytes())).1.is_some());
        let deep = serde_json::to_string(&some_call(1)).unwrap();
        let deep = deep.replace(
            "\"asked\":{}",
            &format!("\"asked\":{}{}", "[".repeat(1 << 20), "]".repeat(1 << 20)),
        );
        // It is read as text, and refused once it is parsed.
        assert_eq!(read(&with((deep + "\n").as_bytes())).0, 1);
        let many = serde_json::to_vec(&some_call(MAX_STEPS + 1)).unwrap();
        let many = [&many[..], b"\n"].concat();
        assert!(read(&with(&many)).1.unwrap().contains("steps"));
        assert!(call_line(&some_call(MAX_STEPS + 1)).is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(at in 0_usize..400, byte in any::<u8>(), more in any::<Vec<u8>>()) {
            let mut bytes = recorded(&[1, 2]);
            let at = at % bytes.len();
            bytes[at] = byte;
            read(&bytes);
            bytes.splice(at..at, more);
            read(&bytes);
        }
    }
}
