//! Numbers as decimal text.

use super::wide::Wide;

/// The number in `text`, without surrounding spaces; `None` if it is not a number. Integers are read exactly unless a
/// float is requested, where `-0` differs from `0`.
pub(super) fn parse(text: &str, to_float: bool) -> Option<Wide> {
    let text = text.trim();
    let integer = if to_float { None } else { text.parse().ok().map(Wide::Integer) };
    integer.or_else(|| text.parse().ok().map(Wide::Float))
}

/// Integers in full, floats with eight significant digits, `NaN`, `INF` and `-INF`.
pub(super) fn print(x: Wide) -> String {
    match x {
        Wide::Integer(x) => x.to_string(),
        Wide::Float(x) if x.is_nan() => "NaN".to_owned(),
        Wide::Float(f64::INFINITY) => "INF".to_owned(),
        Wide::Float(f64::NEG_INFINITY) => "-INF".to_owned(),
        Wide::Float(x) => print_float(x),
    }
}

/// What C's `%.8g` prints: the shorter form of positional and scientific, without the zeros at the
/// end.
fn print_float(x: f64) -> String {
    const DIGITS: i32 = 8;
    let scientific = format!("{x:.7e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        let n_decimals = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
        return without_trailing_zeros(&format!("{x:.n_decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_trailing_zeros(mantissa), exponent.abs())
}

fn without_trailing_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}
