//! What counts against an allowance, and when.

use super::*;

fn denied<T>(result: Result<T, TensorError>) -> Option<(usize, Option<usize>)> {
    match result {
        Err(TensorError::NoMemory { n_bytes, limit }) => Some((n_bytes, limit)),
        _ => None,
    }
}

#[test]
fn dropped_bytes_can_be_taken_again() {
    within(100, 80, || {
        let first = Room::filled(1_u8, 60).unwrap();
        assert_eq!(denied(Room::<u8>::zeroed(21)), Some((21, Some(100))));
        drop(first);
        let kept = Room::<u64>::zeroed(10).unwrap().into_vec();
        assert_eq!(kept.len(), 10);
        assert_eq!(denied(Room::<u8>::with_room(1)), Some((1, Some(100))));
    });
    assert!(Room::<u8>::with_room(1000).is_ok());
}

#[test]
fn an_inner_allowance_is_separate_and_no_larger_than_the_outer() {
    within(100, 100, || {
        let outer = Room::<u8>::zeroed(40).unwrap();
        within(1000, 1000, || {
            drop(outer);
            assert_eq!(denied(Room::<u8>::zeroed(61)), Some((61, Some(100))));
            assert!(Room::<u8>::zeroed(60).is_ok());
        });
    });
}

#[test]
fn growth_is_counted_as_it_happens() {
    within(1 << 10, 1 << 10, || {
        let mut room = Room::new();
        let full = (0_u32..).map(|i| room.push(i)).find(Result::is_err);
        assert!(denied(full.unwrap()).is_some());
        assert!((64..=256).contains(&room.len()), "{}", room.len());
        assert_eq!(room[63], 63);
        assert!(denied(Room::of((0_u64..).filter(|_| true))).is_some());
        assert!(denied(room.resize(257, 0)).is_some());
    });
}

#[test]
fn impossible_sizes_are_errors_without_a_limit_as_well() {
    assert_eq!(denied(Room::<u64>::zeroed(1 << 60)), Some((1 << 63, None)));
    assert_eq!(denied(Room::filled(String::new(), usize::MAX)), Some((usize::MAX, None)));
    assert_eq!(&*Room::of([1, 2, 3]).unwrap(), [1, 2, 3]);
}
