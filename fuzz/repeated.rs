//! Names with a part that is repeated, which a fuzzer would not find by itself.

/// The bytes as a name. `TIMES|PREFIX|PART|REST` is a name in which the part is repeated so often.
pub fn name(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    repeated(&text).unwrap_or_else(|| text.into_owned())
}

fn repeated(text: &str) -> Option<String> {
    let mut parts = text.splitn(4, '|');
    let times: usize = parts.next()?.parse().ok()?;
    let (prefix, part, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let times = times.min(16_384 / part.len().max(1));
    Some(format!("{prefix}{}{rest}", part.repeat(times)))
}
