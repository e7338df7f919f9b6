//! A cache folder to which others may have written, and the permissions of its files.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use ort_session::{CacheUse, Load, LoadError, ModelBytes, SessionError};

use crate::cache::{Place, bits, expected, product};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Asserts that the cache is not used, with a warning that gives the reason, and the result is right.
fn assert_refused(place: &Place, why: &str) {
    let session = place.session();
    assert_eq!(session.metadata().cache, CacheUse::Failed, "{why}");
    let warnings = session.metadata().packing_warnings.join("\n");
    assert!(warnings.contains(why), "{warnings}");
    assert_eq!(bits(&session), expected(1.0));
}

#[test]
fn packed_files_are_no_more_readable_than_the_model() {
    for (model, packed) in [(0o600, 0o400), (0o644, 0o444), (0o640, 0o440)] {
        let place = Place::new();
        set_mode(&place.model, model);
        assert_eq!(place.session().metadata().cache, CacheUse::Made);
        assert_eq!((mode(&place.entry()), mode(&place.cache)), (packed, 0o700));
    }
    let place = Place::new();
    place.builder().commit(ModelBytes::from_vec(product(1.0))).unwrap();
    assert_eq!(mode(&place.entry()), 0o400);
}

#[test]
fn a_packed_file_loses_the_permissions_that_its_model_loses() {
    let place = Place::new();
    set_mode(&place.model, 0o644);
    place.session();
    assert_eq!(mode(&place.entry()), 0o444);
    set_mode(&place.model, 0o600);
    place.session();
    assert_eq!(mode(&place.entry()), 0o400);
}

#[test]
fn a_planted_link_is_not_followed() {
    let place = Place::new();
    place.session();
    let victim = place.model.with_file_name("victim");
    fs::write(&victim, "keep").unwrap();
    let seen: Vec<_> = fs::read_dir(&place.cache).unwrap().map(|it| it.unwrap().path()).collect();
    let seen = seen.into_iter().filter(|path| path.extension().is_some_and(|it| it == "seen"));
    for path in seen {
        fs::remove_file(&path).unwrap();
        symlink(&victim, &path).unwrap();
    }
    for _ in 0..2 {
        assert_eq!(bits(&place.session()), expected(1.0));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "keep");
    }
}

#[test]
fn a_folder_or_a_file_that_others_may_write_to_is_refused() {
    let place = Place::new();
    place.session();
    for open in [0o777, 0o770, 0o702] {
        set_mode(&place.cache, open);
        assert_refused(&place, "others may write to it");
    }
    set_mode(&place.cache, 0o755);
    assert_eq!(place.session().metadata().cache, CacheUse::Found);
    set_mode(&place.entry(), 0o666);
    let session = place.session();
    assert_eq!(session.metadata().cache, CacheUse::Made);
    assert!(session.metadata().packing_warnings[0].contains("others may write to it"));
}

#[test]
fn files_of_another_user_are_refused() {
    let place = Place::new();
    place.session();
    let other = Some(12345);
    if let Err(error) = chown(&place.cache, other, None) {
        println!("skipped: only root may give a folder away ({error})");
        return;
    }
    assert_refused(&place, "it belongs to user 12345");
    chown(&place.cache, Some(0), None).unwrap();
    chown(place.entry(), other, None).unwrap();
    let session = place.session();
    assert_eq!(session.metadata().cache, CacheUse::Made);
    assert!(session.metadata().packing_warnings[0].contains("it belongs to user 12345"));
}

#[test]
fn a_pipe_is_an_error_at_once() {
    let place = Place::new();
    place.session();
    let entry = place.entry();
    for path in [&entry, &place.model] {
        fs::remove_file(path).unwrap();
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        set_mode(path, 0o600);
    }
    for load in [Load::Mapped, Load::Populated, Load::Read, Load::Auto] {
        let error = place.builder().load(load).commit_from_file(&place.model).unwrap_err();
        let is_reported = matches!(error, SessionError::Load(LoadError::NotAFile { .. }));
        assert!(is_reported, "{error}");
    }
    fs::remove_file(&place.model).unwrap();
    fs::write(&place.model, product(1.0)).unwrap();
    assert_refused(&place, "is a pipe, not a file");
}
