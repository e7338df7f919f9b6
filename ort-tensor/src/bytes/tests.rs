//! Where buffers come from, and their memory.

use std::sync::{Arc, Mutex};

use super::*;

/// Keeps the buffers it gets.
#[derive(Default)]
struct Shelf(Mutex<Vec<AlignedBuf>>);

impl Home for Shelf {
    fn take_in(&self, buf: AlignedBuf) {
        self.0.lock().unwrap().push(buf);
    }
}

#[test]
fn a_dropped_buffer_goes_home_unchanged_while_its_home_lives() {
    let shelf = Arc::new(Shelf::default());
    let home: Weak<dyn Home> = Arc::<Shelf>::downgrade(&shelf);
    for len in [100, OWN_MAPPING_BYTES] {
        let mut buf = AlignedBuf::zeroed(len).with_home(home.clone());
        buf.as_mut()[len - 1] = 7;
        let address = buf.as_ref().as_ptr();
        drop(buf);
        let back = shelf.0.lock().unwrap().pop().unwrap();
        assert_eq!((back.len(), back.as_ref()[len - 1]), (len, 7));
        assert_eq!(back.as_ref().as_ptr(), address);
        // Its home is gone.
        drop(back);
        assert!(shelf.0.lock().unwrap().is_empty());
    }
    let late = AlignedBuf::zeroed(100).with_home(home);
    drop(shelf);
    drop(late);
}

#[test]
fn sizes_beyond_any_system_are_refused() {
    assert!(AlignedBuf::try_zeroed(isize::MAX.unsigned_abs()).is_none());
}

#[test]
fn buffers_are_zeroed_aligned_and_of_the_requested_length() {
    let (mapping, huge) = (OWN_MAPPING_BYTES, HUGE_PAGE_BYTES);
    for len in [0, 1, 63, 64, 65, mapping - 1, mapping, mapping + 7, huge - 1, huge, huge + 7] {
        let buf = AlignedBuf::zeroed(len);
        assert_eq!(buf.as_ref().len(), len);
        assert!(buf.as_ref().iter().all(|&byte| byte == 0));
        assert_eq!(buf.as_ref().as_ptr().align_offset(AlignedBuf::ALIGN), 0);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn large_buffers_are_in_huge_pages_as_far_as_they_fill_them() {
    let advised = |buf: &AlignedBuf| -> Option<(usize, usize)> {
        let address = buf.as_ref().as_ptr().addr();
        let smaps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mut range = None;
        for line in smaps.lines() {
            let head = line.split_once(' ').and_then(|(head, _)| head.split_once('-'));
            if let Some((from, to)) = head
                && let Ok(from) = usize::from_str_radix(from, 16)
                && let Ok(to) = usize::from_str_radix(to, 16)
            {
                range = (from..to).contains(&address).then_some((from, to));
            } else if range.is_some() && line.starts_with("VmFlags:") {
                return range.filter(|_| line.split(' ').any(|flag| flag == "hg"));
            }
        }
        None
    };
    let has_huge_pages = std::fs::exists("/sys/kernel/mm/transparent_hugepage");
    if !has_huge_pages.unwrap_or(false) {
        return println!("skipped: this system has no transparent huge pages");
    }
    assert_eq!(advised(&AlignedBuf::zeroed(HUGE_PAGE_BYTES - 1)), None);
    let buf = AlignedBuf::zeroed(2 * HUGE_PAGE_BYTES + 7);
    let start = buf.as_ref().as_ptr().addr();
    assert_eq!(advised(&buf), Some((start, start + 2 * HUGE_PAGE_BYTES)));
}

#[test]
fn lasting_buffers_are_mappings_at_smaller_sizes() {
    for (len, lasting, transient) in [
        (LASTING_MAPPING_BYTES - 1, "heap", "heap"),
        (LASTING_MAPPING_BYTES, "mapping", "heap"),
        (OWN_MAPPING_BYTES, "mapping", "mapping"),
    ] {
        for (buf, kind) in
            [(AlignedBuf::lasting(len), lasting), (AlignedBuf::zeroed(len), transient)]
        {
            assert_eq!(format!("{buf:?}"), format!("AlignedBuf({len} bytes, {kind})"));
            assert_eq!(buf.as_ref(), vec![0; len]);
        }
    }
}
