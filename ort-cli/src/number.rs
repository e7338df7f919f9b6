//! Numbers as text, and rounded for JSON.

use std::time::Duration;

/// `512 B`, `1.5 KiB`, `97.6 MiB`.
pub(crate) fn bytes(n: usize) -> String {
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = as_f64(n) / 1024.0;
    let mut unit = 0;
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    // What would be printed as 1024.0 belongs to the next unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `87 µs`, `4.13 ms`, `2.50 s`: three digits, or four.
pub(crate) fn time(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    let (value, unit) = match micros {
        ..999.5 => return format!("{micros:.0} µs"),
        ..999_500.0 => (micros / 1e3, "ms"),
        _ => (micros / 1e6, "s"),
    };
    let digits = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// `1,234,567`.
pub(crate) fn count(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 node`, `1,234 nodes`.
pub(crate) fn plural(n: usize, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Four significant digits: `0.01235`, `-1.5`, `123.5`, `1.235e-7`.
pub(crate) fn significant(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    let rounded: f64 = format!("{x:.3e}").parse().unwrap_or(x);
    match rounded.abs() {
        1e-4..1e7 => rounded.to_string(),
        _ => format!("{rounded:e}"),
    }
}

/// Milliseconds for JSON, rounded to a nanosecond.
pub(crate) fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e9).round() / 1e6
}

/// Mebibytes for JSON.
pub(crate) fn mebibytes(n: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "beyond 2^53 bytes rounding is acceptable")]
    rounded(n as f64 / f64::from(1 << 20))
}

/// A number rounded to four decimal places.
pub(crate) fn rounded(x: f64) -> f64 {
    (x * 1e4).round() / 1e4
}

/// The nearest float.
#[expect(clippy::cast_precision_loss, reason = "beyond 2^53 rounding is acceptable")]
pub(crate) const fn float(n: u64) -> f64 {
    n as f64
}

/// The nearest float.
#[expect(clippy::cast_precision_loss, reason = "beyond 2^53 rounding is acceptable")]
pub(crate) const fn as_f64(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_readable_unit() {
        for (n, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (102_228_304, "97.5 MiB"),
            (3 << 30, "3.0 GiB"),
        ] {
            assert_eq!(bytes(n), expected);
        }
    }

    #[test]
    fn times_have_three_digits() {
        for (micros, expected) in [
            (0.4, "0 µs"),
            (87.3, "87 µs"),
            (999.6, "1.00 ms"),
            (4_127.0, "4.13 ms"),
            (9_996.0, "10.0 ms"),
            (41_270.0, "41.3 ms"),
            (412_700.0, "413 ms"),
            (2_500_000.0, "2.50 s"),
            (75_000_000.0, "75.0 s"),
        ] {
            assert_eq!(time(Duration::from_secs_f64(micros / 1e6)), expected, "{micros}");
        }
    }

    #[test]
    fn counts_have_groups_of_three() {
        for (n, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(n), expected);
        }
    }

    #[test]
    fn four_digits_are_significant() {
        for (x, expected) in [
            (0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.012_345_6, "0.01235"),
            (123.456_7, "123.5"),
            (99_999.0, "100000"),
            (1.234_567e-7, "1.235e-7"),
            (3.2e9, "3.2e9"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(significant(x), expected);
        }
    }

    #[test]
    fn json_has_rounded_numbers() {
        assert_eq!(millis(Duration::from_nanos(1_234_567)), 1.234_567);
        assert_eq!(mebibytes(1 << 19), 0.5);
    }
}
