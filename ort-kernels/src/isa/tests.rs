//! Tests of `isa`.

use super::{Avx2, FlushDenormals, Isa};
use std::hint::black_box;

/// Half of the least normal number: a denormal.
fn halved() -> f32 {
    black_box(f32::MIN_POSITIVE) * black_box(0.5)
}

#[test]
fn names_lead_back_to_the_same_set() {
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
fn what_an_inner_guard_saw_the_outer_reports() {
    let outer = FlushDenormals::new();
    {
        let _inner = FlushDenormals::new();
        assert_eq!(halved(), 0.0);
    }
    assert!(outer.met_denormal());
}
