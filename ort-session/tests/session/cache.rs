//! The cache folder: its use, and its failures.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ort_session::{
    Cache, CacheEntry, CacheUse, IsaChoice, Level, Load, ModelBytes, Retention, Session,
    SessionBuilder, Tensor,
};
use tempfile::TempDir;

use crate::hooked::Hooked;
use crate::model::{ModelWriter, weights};

const N: usize = 64;

/// `y = x · w`, with a matrix that is packed.
pub(crate) fn product(scale: f32) -> Vec<u8> {
    let w: Vec<f32> = weights(N * N).iter().map(|w| w * scale).collect();
    let n = i64::try_from(N).unwrap();
    ModelWriter::default()
        .input("x", &[-1, n])
        .constant("w", &[n, n], &w)
        .node("MatMul", 13, &["x", "w"], "y")
        .output("y")
        .bytes()
}

/// A model and a cache, in separate folders.
pub(crate) struct Place {
    _folder: TempDir,
    pub(crate) model: PathBuf,
    pub(crate) cache: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (model, cache) = (folder.path().join("model.ort"), folder.path().join("a/cache"));
        fs::write(&model, product(1.0)).unwrap();
        Self { _folder: folder, model, cache }
    }

    pub(crate) fn builder(&self) -> SessionBuilder {
        Session::builder().threads(1).cache_dir(&self.cache)
    }

    pub(crate) fn session(&self) -> Session {
        self.builder().commit_from_file(&self.model).unwrap()
    }

    fn uses(&self, builder: SessionBuilder) -> CacheUse {
        builder.commit_from_file(&self.model).unwrap().metadata().cache
    }

    fn entries(&self) -> Vec<CacheEntry> {
        Cache::new(&self.cache).entries().unwrap()
    }

    pub(crate) fn entry(&self) -> PathBuf {
        let entries = self.entries();
        assert_eq!(entries.len(), 1);
        entries[0].path.clone()
    }
}

/// The result of a session, as bits.
pub(crate) fn bits(session: &Session) -> Vec<u32> {
    let x = Tensor::from_slice(&[2, N], &weights(2 * N)).unwrap();
    let outputs = session.run([("x", &x)]).unwrap();
    let y = outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap();
    y.iter().map(|y| y.to_bits()).collect()
}

pub(crate) fn expected(scale: f32) -> Vec<u32> {
    bits(&Session::builder().threads(1).commit(ModelBytes::from_vec(product(scale))).unwrap())
}

/// Overwrites a read-only file.
fn overwrite(path: &Path, bytes: &[u8]) {
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn the_second_start_uses_the_file_of_the_first() {
    let place = Place::new();
    for used in [CacheUse::Made, CacheUse::Found, CacheUse::Found] {
        let session = place.session();
        assert_eq!(session.metadata().cache, used);
        assert!(session.metadata().packing_warnings.is_empty());
        let memory = session.memory();
        assert_eq!((memory.packed_heap.n_bytes(), memory.copied_bytes()), (0, 0));
        assert!(memory.packed_mapped.n_bytes() >= N * N * 4);
        assert_eq!(bits(&session), expected(1.0));
    }
    let [entry] = &place.entries()[..] else { panic!("one entry") };
    assert!(entry.is_current && entry.of.is_some());
    assert!(entry.packed_for.as_ref().unwrap().contains("CPUExecutionProvider"));
    let name = entry.path.file_name().unwrap().to_string_lossy().into_owned();
    assert!(name.starts_with("model-") && name.ends_with(".packed.ort"), "{name}");
    #[cfg(unix)]
    assert!(fs::metadata(&entry.path).unwrap().permissions().readonly());
}

#[test]
fn models_in_memory_are_found_by_their_hash() {
    let place = Place::new();
    let commit = |scale| {
        let session = place.builder().commit(ModelBytes::from_vec(product(scale))).unwrap();
        assert_eq!(bits(&session), expected(scale));
        session.metadata().cache
    };
    assert_eq!([1.0, 1.0, 2.0, 1.0, 2.0].map(commit), {
        use CacheUse::{Found, Made};
        [Made, Found, Made, Found, Found]
    });
    // A file with this name holds the same model.
    assert_eq!(place.session().metadata().cache, CacheUse::Found);
}

#[test]
fn every_relevant_setting_has_its_own_file() {
    let place = Place::new();
    let builders = || {
        let generic = || place.builder().isa(IsaChoice::Generic);
        let base = generic();
        [
            base.clone(),
            base.clone().level(Level::Basic),
            base.clone().winograd(false),
            base.clone().disable_optimizers(["GeluFusionL2"]),
            base.denormals(ort_session::Denormals::Preserve),
        ]
    };
    assert!(builders().into_iter().all(|builder| place.uses(builder) == CacheUse::Made));
    assert!(builders().into_iter().all(|builder| place.uses(builder) == CacheUse::Found));
    // Threads and loading mode do not matter.
    let [base, ..] = builders();
    assert_eq!(place.uses(base.clone().threads(2)), CacheUse::Found);
    assert_eq!(place.uses(base.load(Load::Read)), CacheUse::Found);
    assert_eq!(place.entries().len(), 5);
}

#[test]
fn a_changed_model_has_another_file() {
    let place = Place::new();
    for scale in [1.0, 2.0, 3.0, 1.0] {
        fs::write(&place.model, product(scale)).unwrap();
        for _ in 0..2 {
            assert_eq!(bits(&place.session()), expected(scale));
        }
    }
    assert_eq!(place.entries().len(), 3);
}

#[test]
fn damaged_files_are_created_again() {
    let place = Place::new();
    let expected = expected(1.0);
    place.session();
    let entry = place.entry();
    let whole = fs::read(&entry).unwrap();
    let seen = entry.with_extension("ort.seen");
    // A fixed pseudo-random sequence of damage: flipped bits, truncation.
    let mut seed = 7_u64;
    let mut draw = |n: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        usize::try_from(seed >> 33).unwrap() % n
    };
    for round in 0..1000 {
        let mut bytes = whole.clone();
        match round % 3 {
            0 => bytes.truncate(draw(whole.len())),
            1 => bytes[draw(whole.len())] ^= 1 << draw(8),
            _ => (0..=draw(20)).for_each(|_| bytes[draw(whole.len())] ^= 1 << draw(8)),
        }
        overwrite(&entry, &bytes);
        // The record of the verified state may be damaged, too.
        if round % 2 == 0 {
            fs::write(&seen, &whole[..draw(200)]).unwrap();
        }
        let session = place.session();
        assert_eq!(bits(&session), expected, "round {round}");
        if bytes != whole {
            assert_eq!(session.metadata().cache, CacheUse::Made, "round {round}");
            let [warning] = &session.metadata().packing_warnings[..] else { panic!("one warning") };
            assert!(warning.contains("it is created again"), "{warning}");
        }
        assert!(fs::read(&entry).unwrap() == whole, "round {round}");
    }
}

#[test]
fn a_file_of_another_model_is_created_again() {
    let place = Place::new();
    place.session();
    let (first, expected) = (place.entry(), expected(2.0));
    fs::write(&place.model, product(2.0)).unwrap();
    place.session();
    let second = place.entries().into_iter().map(|entry| entry.path).find(|path| *path != first);
    overwrite(&second.unwrap(), &fs::read(&first).unwrap());
    let session = place.session();
    assert_eq!((session.metadata().cache, bits(&session)), (CacheUse::Made, expected));
    let [warning] = &session.metadata().packing_warnings[..] else { panic!("one warning") };
    assert!(warning.contains("it is of another model"), "{warning}");
}

#[test]
fn damaged_models_behave_the_same_with_and_without_a_cache() {
    let place = Place::new();
    let whole = product(1.0);
    for at in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&place.model, &bytes).unwrap();
        let plain = Session::builder().threads(1).commit(ModelBytes::from_vec(bytes.clone()));
        match (plain, place.builder().commit_from_file(&place.model)) {
            (Ok(plain), Ok(cached)) if plain.inputs() == cached.inputs() => {
                let x = Tensor::from_slice(&[2, N], &weights(2 * N)).unwrap();
                let name = plain.inputs()[0].name.clone();
                let run = |session: &Session| {
                    let outputs = session.run([(name.as_str(), &x)]);
                    outputs.map(|it| it[0].as_tensor().unwrap().clone()).map_err(|e| e.to_string())
                };
                assert_eq!(run(&plain), run(&cached), "byte {at}");
            }
            (Err(plain), Err(cached)) => assert_eq!(plain.to_string(), cached.to_string()),
            (plain, cached) => panic!("byte {at}: {:?} {:?}", plain.is_ok(), cached.is_ok()),
        }
    }
}

#[test]
fn an_unusable_folder_costs_a_warning() {
    let place = Place::new();
    let file = place.model.with_extension("txt");
    fs::write(&file, "in the way").unwrap();
    let session = Session::builder().cache_dir(&file).commit_from_file(&place.model).unwrap();
    assert_eq!(session.metadata().cache, CacheUse::Failed);
    let warning = session.metadata().packing_warnings.last().unwrap();
    assert!(warning.contains("the model is used without it"), "{warning}");
    assert_eq!(bits(&session), expected(1.0));
    // A folder in the place of the packed file.
    place.session();
    let entry = place.entry();
    fs::remove_file(&entry).unwrap();
    fs::create_dir(&entry).unwrap();
    let session = place.session();
    assert_eq!(session.metadata().cache, CacheUse::Failed);
    assert_eq!(session.metadata().packing_warnings.len(), 2);
    assert_eq!(bits(&session), expected(1.0));
}

#[test]
fn concurrent_starts_create_one_valid_file() {
    let place = Place::new();
    let expected = expected(1.0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(bits(&place.session()), expected);
                }
            });
        }
    });
    assert_eq!(place.session().metadata().cache, CacheUse::Found);
    let files: Vec<_> = fs::read_dir(&place.cache).unwrap().flatten().collect();
    assert!(files.iter().all(|file| !file.file_name().to_string_lossy().starts_with('.')));
    assert_eq!(place.entries().len(), 1);
}

#[test]
fn a_session_survives_changes_to_model_and_cache() {
    let place = Place::new();
    let session = place.session();
    // The session has mapped the packed file, not the model.
    fs::OpenOptions::new().write(true).open(&place.model).unwrap().set_len(10).unwrap();
    assert_eq!(bits(&session), expected(1.0));
    fs::write(&place.model, product(1.0)).unwrap();
    let read = Session::builder().load(Load::Read).commit_from_file(&place.model).unwrap();
    fs::OpenOptions::new().write(true).open(&place.model).unwrap().set_len(10).unwrap();
    assert_eq!(bits(&read), expected(1.0));
    // Replacing or removing the packed file does not matter, either.
    fs::write(&place.model, product(1.0)).unwrap();
    let session = place.session();
    overwrite(&place.entry(), b"something else");
    assert_eq!(bits(&session), expected(1.0));
    Cache::new(&place.cache).prune(Retention::default()).unwrap();
    assert_eq!(bits(&session), expected(1.0));
}

#[test]
fn pruning_removes_useless_and_excess_files() {
    let place = Place::new();
    let cache = Cache::new(&place.cache);
    for level in [Level::Basic, Level::Extended, Level::All] {
        place.uses(place.builder().level(level));
    }
    let n_bytes = place.entries()[0].n_bytes;
    assert!(cache.prune(Retention::default()).unwrap().removed.is_empty());
    let used_within = Some(Duration::from_secs(3600));
    assert!(
        cache.prune(Retention { used_within, ..Retention::default() }).unwrap().removed.is_empty()
    );

    let damaged = place.cache.join("x-0.packed.ort");
    fs::write(&damaged, "no model").unwrap();
    fs::write(place.cache.join(".x.1.2.ort-tmp"), "a leftover").unwrap();
    fs::write(place.cache.join("notes.txt"), "not ours").unwrap();
    let pruned = cache.prune(Retention::default()).unwrap();
    assert_eq!((pruned.removed.len(), pruned.n_leftovers), (1, 1));
    assert_eq!(pruned.removed[0].path, damaged);

    let max_bytes = Some(n_bytes * 2 + n_bytes / 2);
    let pruned = cache.prune(Retention { max_bytes, ..Retention::default() }).unwrap();
    assert_eq!((pruned.removed.len(), pruned.n_bytes / 1000), (1, n_bytes / 1000));
    let none = Retention { max_bytes: Some(0), ..Retention::default() };
    assert_eq!(cache.prune(none).unwrap().removed.len(), 2);
    assert!(place.entries().is_empty() && place.cache.join("notes.txt").exists());
}

#[test]
fn a_provider_that_packs_for_one_process_has_no_cache() {
    let place = Place::new();
    let builder = place.builder().provider(Hooked::new(|_| {}));
    let session = builder.commit_from_file(&place.model).unwrap();
    assert_eq!(session.metadata().cache, CacheUse::Failed);
    assert_eq!(session.metadata().packing_warnings.len(), 1);
    assert_eq!(bits(&session), expected(1.0));
}
