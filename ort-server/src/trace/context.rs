//! Which trace a request belongs to, and whether it is sampled.
//!
//! Source: W3C Trace Context, "traceparent Header"; OpenTelemetry, "ParentBased" and "TraceIdRatioBased".

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::HeaderMap;

/// A span's place in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) trace: u128,
    pub(super) span: u64,
    /// The client's span.
    pub(super) parent: Option<u64>,
}

/// Random numbers: a keyed hash of a counter, whose key is the system's.
#[derive(Debug, Default)]
pub(super) struct Ids {
    key: RandomState,
    n: AtomicU64,
}

impl Ids {
    /// The id of a span, which is not 0.
    pub(super) fn next(&self) -> u64 {
        self.key.hash_one(self.n.fetch_add(1, Ordering::Relaxed)).max(1)
    }
}

/// The bits of a trace's id that are certainly random.
const RANDOM_BITS: u32 = 56;

impl Context {
    /// The context of a request's span; `None` if it is not sampled.
    pub(super) fn of_request(headers: &HeaderMap, ids: &Ids, ratio: f64) -> Option<Self> {
        let span = ids.next();
        let mut values = headers.get_all("traceparent").iter();
        let parent = match (values.next(), values.next()) {
            (Some(text), None) => text.to_str().ok().and_then(parent),
            // Several are as good as none.
            _ => None,
        };
        if let Some(Parent { trace, span: parent, is_sampled }) = parent {
            return is_sampled.then_some(Self { trace, span, parent: Some(parent) });
        }
        let low = ids.next();
        let trace = u128::from(ids.next()) << 64 | u128::from(low);
        is_within(low, ratio).then_some(Self { trace, span, parent: None })
    }
}

/// Whether a trace is among the part `ratio` of all.
fn is_within(low: u64, ratio: f64) -> bool {
    let all = 1_u64 << RANDOM_BITS;
    #[expect(clippy::cast_precision_loss, reason = "a probability")]
    let part = (low % all) as f64 / all as f64;
    part < ratio
}

/// The client's span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parent {
    trace: u128,
    span: u64,
    is_sampled: bool,
}

/// `00-TRACE-SPAN-FLAGS`; later versions may have more fields. `None` if it is not valid.
fn parent(text: &str) -> Option<Parent> {
    let mut fields = text.split('-');
    let version = hex(fields.next()?, 2)?;
    let trace = hex(fields.next()?, 32).filter(|&trace| trace != 0)?;
    let span = hex(fields.next()?, 16).filter(|&span| span != 0)?;
    let flags = hex(fields.next()?, 2)?;
    if version == 0xff || (version == 0 && fields.next().is_some()) {
        return None;
    }
    Some(Parent { trace, span: u64::try_from(span).ok()?, is_sampled: flags & 1 != 0 })
}

/// A number of `n` lower-case hexadecimal digits.
fn hex(text: &str, n: usize) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_valid = text.len() == n && text.bytes().all(is_digit);
    if is_valid { u128::from_str_radix(text, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn of(values: &[&str], ratio: f64) -> Option<Context> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("traceparent", value.parse().unwrap());
        }
        Context::of_request(&headers, &Ids::default(), ratio)
    }

    #[test]
    fn a_valid_header_decides() {
        let context = of(&[VALID], 0.0).unwrap();
        assert_eq!(context.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!(context.parent, Some(0xb7ad_6b71_6920_3331));
        let not_sampled = VALID.replace("-01", "-02");
        assert_eq!(of(&[&not_sampled], 1.0), None);
        let later = format!("cc{}-more", &VALID[2..]);
        assert_eq!(of(&[&later], 0.0).unwrap().trace, context.trace);
    }

    #[test]
    fn an_invalid_header_is_none() {
        let zeros = |n| "0".repeat(n);
        for text in [
            "",
            "00",
            &VALID[..54],
            &VALID.to_uppercase(),
            &format!("ff{}", &VALID[2..]),
            &format!("{VALID}-more"),
            &format!("00-{}-b7ad6b7169203331-01", zeros(32)),
            &format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", zeros(16)),
            &VALID.replace("-0af", "-+af"),
        ] {
            assert_eq!(of(&[text], 0.0), None, "{text}");
            assert_eq!(of(&[text], 1.0).unwrap().parent, None, "{text}");
        }
        assert_eq!(of(&[VALID, VALID], 1.0).unwrap().parent, None);
    }

    #[test]
    fn a_ratio_samples_its_part() {
        let ids = Ids::default();
        let headers = HeaderMap::new();
        let n = (0..10_000).filter(|_| Context::of_request(&headers, &ids, 0.25).is_some()).count();
        // Of a binomial distribution, 14 standard deviations on each side.
        assert!((1900..3100).contains(&n), "{n}");
    }
}
