//! Numbers of threads, as the system's own tools show them.

use std::sync::atomic::{AtomicU64, Ordering};

/// The calling thread's number: the system's on Linux; elsewhere the first thread that asks is 1.
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
    fn a_thread_has_one_number_and_no_other_has_it() {
        let here = id();
        assert_eq!(id(), here);
        assert_ne!(std::thread::spawn(id).join().unwrap(), here);
    }
}
