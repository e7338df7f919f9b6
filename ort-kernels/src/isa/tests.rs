//! Tests of `isa`.

use super::{Avx2, FlushDenormals, Isa, WatchDenormals};
use std::hint::black_box;

/// Half of the least normal number: a denormal.
fn halved() -> f32 {
    black_box(f32::MIN_POSITIVE) * black_box(0.5)
}

#[test]
fn names_round_trip() {
    for isa in Isa::all() {
        assert_eq!(Isa::by_name(isa.name()), Some(isa));
    }
    assert_eq!(Isa::by_name("mmx"), None);
    assert_eq!(Isa::all().next(), Some(Isa::best()));
}

#[test]
fn avx512_includes_avx2() {
    assert!(Isa::best().avx512().is_none() || Avx2::detect().is_some());
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn denormals_are_zero_while_the_guard_lives_and_only_then() {
    assert!(halved() > 0.0);
    {
        let _outer = FlushDenormals::new();
        drop(FlushDenormals::new());
        assert_eq!(halved(), 0.0);
        assert_eq!(black_box(f32::from_bits(1)) * black_box(1e30), 0.0);
    }
    assert!(halved() > 0.0);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_flushed_result_is_reported() {
    let guard = FlushDenormals::new();
    assert_eq!(black_box(1.0f32) * black_box(0.5), 0.5);
    assert!(!guard.met_denormal());
    assert_eq!(halved(), 0.0);
    assert!(guard.met_denormal());
    assert!(!FlushDenormals::new().met_denormal());
    assert!(guard.met_denormal());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_outer_guard_reports_denormals_of_the_inner() {
    let outer = FlushDenormals::new();
    {
        let _inner = FlushDenormals::new();
        assert_eq!(halved(), 0.0);
    }
    assert!(outer.met_denormal());
}

/// The recorded flags: a denormal operand, and a result too small for a normal number.
#[cfg(target_arch = "x86_64")]
fn watched(compute: impl FnOnce() -> f32) -> (bool, bool) {
    let watch = WatchDenormals::new();
    black_box(compute());
    (watch.met_operand(), watch.met_result())
}

#[cfg(target_arch = "x86_64")]
#[test]
fn denormal_operands_and_underflowing_results_are_reported() {
    let normal = || black_box(1.5f32) * black_box(0.5);
    let operand = || black_box(f32::from_bits(3)) * black_box(1e30);
    let inexact = || black_box(f32::MIN_POSITIVE) * black_box(0.3);
    let found = || (watched(normal), watched(operand), watched(halved), watched(inexact));
    let (none, result) = ((false, false), (false, true));
    // Half of the least normal number is exact: if kept, it is not recorded.
    assert_eq!(found(), (none, (true, false), none, result));
    let _flushed = FlushDenormals::new();
    assert_eq!(found(), (none, none, result, result));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn flags_from_before_a_watch_are_restored() {
    let outer = WatchDenormals::new();
    black_box(black_box(f32::from_bits(3)) * black_box(1e30));
    assert_eq!(watched(|| 1.0), (false, false));
    assert!(outer.met_operand());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_mask_has_the_first_lanes() {
    for n in 0..20 {
        let expected = (0..16).filter(|lane| *lane < n).map(|lane| 1 << lane).sum::<u16>();
        assert_eq!(super::x86::mask16(n), expected, "{n} lanes");
    }
}
