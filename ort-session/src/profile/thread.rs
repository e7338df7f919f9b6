//! Thread ids, as shown by the system's own tools.

use std::sync::atomic::{AtomicU64, Ordering};

/// The calling thread's id: the system's on Linux; on other systems numbered from 1.
pub(super) fn id() -> u64 {
    thread_local! {
        static ID: u64 = system_id().unwrap_or_else(next_id);
    }
    ID.try_with(|&id| id).unwrap_or(0)
}

/// Source: Linux, proc(5): a link to `PID/task/TID`.
fn system_id() -> Option<u64> {
    let link = std::fs::read_link("/proc/thread-self").ok()?;
    link.file_name()?.to_str()?.parse().ok()
}

fn next_id() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

#[cfg(test)]
mod tests {
    use super::id;

    #[test]
    fn threads_have_constant_and_distinct_ids() {
        let here = id();
        assert_eq!(id(), here);
        assert_ne!(std::thread::spawn(id).join().unwrap(), here);
    }
}
