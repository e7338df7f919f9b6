//! Lists of mappings as the kernel writes them, and malformed ones.

use super::*;

/// A mapping with all required sizes, each of `kib` KiB.
fn text(head: &str, kib: u64) -> String {
    let fields = FIELDS.map(|field| format!("{field}:  {kib} kB\n")).concat();
    format!("{head}\nSize: 4 kB\n{fields}THPeligible:    0\nVmFlags: rd ex mr\n")
}

fn parsed(text: &str) -> Result<Vec<MemoryMapping>, MeasureError> {
    parse(text.as_bytes(), "smaps", Some(Path::new("/bin/program")))
}

#[test]
fn a_mapping_has_addresses_a_name_and_sizes() {
    let head =
        "7f0000000000-7f0000003000 r--s 00000000 fe:00 247282      /a dir/model.ort (deleted)";
    let mappings = parsed(&text(head, 8)).unwrap();
    let [mapping] = &mappings[..] else { panic!("{mappings:?}") };
    assert_eq!(mapping.range, 0x7f00_0000_0000..0x7f00_0000_3000);
    assert_eq!((mapping.permissions.as_str(), mapping.is_deleted), ("r--s", true));
    assert_eq!((&*mapping.name, mapping.kind), (Path::new("/a dir/model.ort"), MappingKind::File));
    let pages = mapping.pages;
    assert_eq!((pages.virtual_bytes, pages.resident, pages.pss), (12 << 10, 8 << 10, 8 << 10));
    assert_eq!((pages.shared(), pages.private(), pages.anon_huge), (16 << 10, 16 << 10, 8 << 10));
    let sum: Pages = [pages, pages].into_iter().sum();
    assert_eq!((sum.virtual_bytes, sum.anonymous), (24 << 10, 16 << 10));
}

#[test]
fn kinds_follow_from_names_and_neighbours() {
    use MappingKind::*;

    let table = [
        ("1000-2000 r-xp 0 fe:00 1 /bin/program", Program),
        ("2000-3000 rw-p 0 fe:00 1 /bin/program", Program),
        ("3000-4000 rw-p 0 00:00 0 ", Program),
        ("4000-5000 rw-p 0 00:00 0 [heap]", Heap),
        ("6000-7000 ---p 0 00:00 0", Reserved),
        ("7000-9000 rw-p 0 00:00 0", ThreadStack),
        ("a000-b000 rw-p 0 00:00 0", Anonymous),
        ("c000-d000 r--s 0 fe:00 2 /model.ort", File),
        ("d000-e000 rw-p 0 00:00 0", Anonymous),
        ("4000000-4021000 rw-p 0 00:00 0", Heap),
        ("4021000-8000000 ---p 0 00:00 0", Reserved),
        ("8000000-8001000 rw-p 0 00:00 0", Anonymous),
        ("9000000-9001000 r-xp 0 fe:00 3 /lib/libc.so", Library),
        ("9001000-9002000 r--p 0 fe:00 3 /lib/libc.so", Library),
        ("9003000-9004000 rw-s 0 00:01 4 /memfd:x (deleted)", SharedMemory),
        ("9005000-9006000 rw-p 0 00:00 0 [anon:glibc: malloc]", Anonymous),
        ("a000000-a001000 rw-p 0 00:00 0 [stack]", Stack),
        ("b000000-b001000 r-xp 0 00:00 0 [vdso]", Kernel),
    ];
    let mappings = parsed(&table.map(|(head, _)| text(head, 4)).concat()).unwrap();
    for (mapping, (head, kind)) in mappings.iter().zip(table) {
        assert_eq!(mapping.kind, kind, "{head}");
    }
}

#[test]
fn a_malformed_list_is_an_error() {
    let whole = text("1000-2000 rw-p 00000000 00:00 0", 4);
    for (text, message) in [
        ("Rss: 4 kB\n".to_owned(), "smaps: line 1 is malformed"),
        (whole.replace("1000-2000", "2000-1000"), "smaps: line 1 is malformed"),
        (whole.replace("1000-2000", "1000-200g"), "smaps: line 1 is malformed"),
        (whole.replace("Rss:  4 kB", "Rss:  4"), "smaps: line 3 is malformed"),
        (whole.replace("Rss:  4 kB", "Rss:  -4 kB"), "smaps: line 3 is malformed"),
        (whole.replace("Rss:", "Rss"), "smaps: line 3 is malformed"),
        (whole.replace("Pss:", "Other:"), "smaps: no number, or no size in kB, under Pss"),
        (format!("{whole}\n\n"), "smaps: line 13 is malformed"),
    ] {
        assert_eq!(parsed(&text).unwrap_err().to_string(), message, "{text}");
    }
    assert_eq!(parsed("").unwrap(), []);
    let without = whole.replace("AnonHugePages", "Other");
    assert_eq!(parsed(&without).unwrap()[0].pages.anon_huge, 0);
}

#[test]
fn this_process_has_a_program_a_heap_and_the_files_it_mapped() {
    use crate::{Load, ModelBytes, Process};

    let Ok(Some(_)) = Process::Own.mappings() else {
        return println!("skipped: this system does not report mappings");
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.ort");
    std::fs::write(&path, vec![7; 100_000]).unwrap();
    let model = ModelBytes::from_path(&path, Load::Mapped).unwrap();
    let touched: usize = model.as_slice().iter().map(|&byte| usize::from(byte)).sum();
    assert_eq!(touched, 700_000);

    let mappings = Process::Id(std::process::id()).mappings().unwrap().unwrap();
    let of_kind = |kind| mappings.iter().filter(move |mapping| mapping.kind == kind);
    assert!(of_kind(MappingKind::Program).any(|mapping| mapping.permissions == "r-xp"));
    assert!(of_kind(MappingKind::Heap).next().is_some());
    assert!(of_kind(MappingKind::Stack).next().is_some());
    let mapped: Pages = of_kind(MappingKind::File)
        .filter(|mapping| path.canonicalize().is_ok_and(|path| path == mapping.name))
        .map(|mapping| mapping.pages)
        .sum();
    assert!((100_000..200_000).contains(&mapped.virtual_bytes), "{mapped:?}");
    assert!(mapped.resident >= 100_000, "{mapped:?}");
}
