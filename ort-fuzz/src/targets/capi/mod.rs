//! The C API: random calls with objects that live or are null, and texts, integers and sizes of any value. Every
//! function returns a status; there are never dangling pointers.

#![expect(unsafe_code, reason = "`call!` calls functions of the table")]

mod call;
mod objects;

use std::ffi::{CStr, CString};
use std::ptr::{null, null_mut};

use bytes::Bytes;
use onnxruntime as ort_capi;
use ort_capi::ort_sys::{OrtStatusPtr, OrtValue};
use ort_testing::Rng;

use self::call::{call, create, set_option, with_data};
use self::objects::Objects;
use super::Attack;
use crate::attack::Outcome;
use crate::corpus;
use crate::model::extreme;

/// Texts, most of them names and values that the models or the options have.
const TEXTS: [&[u8]; 20] = [
    b"",
    b"x",
    b"y",
    b"x\0",
    b"\xff\xfe",
    b"0",
    b"1",
    b"-1",
    b"99999999999999999999",
    b"session.intra_op_num_threads",
    b"session.graph_optimization_level",
    b"session.set_denormal_as_zero",
    b"memory.enable_memory_arena_shrinkage",
    b"cpu:0",
    b"Cpu",
    b"%n%s",
    b"a name that is longer than others, to see that nothing has a fixed length of sixty-four bytes or so",
    b"\xc3\xa4",
    b"all",
    b"/",
];

pub(super) fn prepare() -> Attack {
    let models: Vec<Bytes> = corpus::ort_files();
    let mut memory = vec![0_u8; 1 << 12];
    Box::new(move |mutant| {
        let rng = &mut mutant.rng;
        let mut objects = Objects::new();
        let mut n_done = 0;
        for _ in 0..4 + rng.below(24) {
            let function = rng.below(N_FUNCTIONS);
            mutant.label = format!("function {function}");
            let status = step(function, &mut objects, (&models, &mut memory), rng);
            n_done += u64::from(is_done(status));
        }
        objects.release();
        if n_done > 0 { Outcome::Accepted } else { Outcome::Rejected }
    })
}

/// Releases a status. A message is a text.
fn is_done(status: OrtStatusPtr) -> bool {
    if status.0.is_null() {
        return true;
    }
    let _ = (call!(GetErrorCode(status.0)), call!(GetErrorMessage(status.0)));
    call!(ReleaseStatus(status.0));
    false
}

fn text(rng: &mut Rng) -> CString {
    let bytes = TEXTS[rng.index(TEXTS.len())];
    let bytes = bytes.iter().copied().take_while(|byte| *byte != 0);
    CString::new(bytes.collect::<Vec<u8>>()).unwrap_or_default()
}

/// A pointer to the text, or null.
fn pointer(text: &CStr, rng: &mut Rng) -> *const std::ffi::c_char {
    if rng.below(12) == 0 { null() } else { text.as_ptr() }
}

fn integer(rng: &mut Rng) -> i32 {
    let number = extreme(rng);
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

fn shape(rng: &mut Rng) -> Vec<i64> {
    (0..rng.below(5)).map(|_| extreme(rng)).collect()
}

const N_FUNCTIONS: u64 = 26;

/// Calls one function.
#[expect(clippy::too_many_lines, reason = "table: one arm a function")]
fn step(
    function: u64,
    objects: &mut Objects,
    (models, memory): (&[Bytes], &mut [u8]),
    rng: &mut Rng,
) -> OrtStatusPtr {
    let (a, b) = (text(rng), text(rng));
    let (a, b) = (pointer(&a, rng), pointer(&b, rng));
    let (options, session) = (objects.options.any(rng), objects.sessions.any(rng));
    let (run_options, value) = (objects.run_options.any(rng), objects.values.any(rng));
    let (mut size, mut number) = (0_usize, 0_i32);
    match function {
        0 => objects.options.made(|out| call!(CreateSessionOptions(out))),
        1 => set_option(options, rng.below(2) == 0, integer(rng)),
        2 => call!(SetIntraOpNumThreads(options, integer(rng).clamp(-9, 4))),
        3 => call!(SetInterOpNumThreads(options, integer(rng).clamp(-9, 4))),
        4 => call!(AddSessionConfigEntry(options, a, b)),
        5 => call!(AddFreeDimensionOverrideByName(options, a, extreme(rng))),
        6 => call!(SetSessionLogSeverityLevel(options, integer(rng))),
        7 => call!(AddInitializer(options, a, value)),
        8 | 9 => {
            let model = &models[rng.index(models.len())];
            let n = if rng.below(4) == 0 { rng.index(model.len()) } else { model.len() };
            let env = objects.env(rng);
            objects.sessions.made(|out| {
                call!(CreateSessionFromArray(env, model.as_ptr().cast(), n, options, out))
            })
        }
        10 => call!(SessionGetInputCount(session, &raw mut size)),
        11 => call!(SessionGetOutputCount(session, null_mut())),
        12 => {
            let (allocator, mut name) = (objects.allocator(rng), null_mut());
            let index = usize::try_from(rng.below(3)).unwrap_or(usize::MAX);
            let status = call!(SessionGetInputName(session, index, allocator, &raw mut name));
            objects.free(name.cast());
            status
        }
        13 => objects.types.made(|out| call!(SessionGetInputTypeInfo(session, 0, out))),
        14 | 15 => {
            let (shape, dtype) = (shape(rng), integer(rng));
            let n_bytes = usize::try_from(rng.below(5000)).unwrap_or(0);
            let info = objects.info(rng);
            objects.values.made(|out| with_data(info, (memory, n_bytes), &shape, dtype, out))
        }
        16 => {
            let (shape, allocator, dtype) =
                (small(shape(rng)), objects.allocator(rng), integer(rng));
            objects.values.made(|out| create(allocator, &shape, dtype, out))
        }
        17 => call!(IsTensor(value, &raw mut number)),
        18 => call!(GetTensorSizeInBytes(value, &raw mut size)),
        19 => call!(FillStringTensorElement(value, a, rng.index(4))),
        20 => {
            let shape = shape(rng);
            call!(TensorAt(value, shape.as_ptr(), shape.len(), &mut null_mut()))
        }
        21 => objects.run_options.made(|out| call!(CreateRunOptions(out))),
        22 => call!(AddRunConfigEntry(run_options, a, b)),
        23 => call!(RunOptionsSetRunTag(run_options, a)),
        _ => {
            let inputs: [*const OrtValue; 1] = [value.cast_const()];
            let n_inputs = rng.index(2);
            objects.values.made(|out| {
                call!(Run(
                    session,
                    run_options,
                    &raw const a,
                    inputs.as_ptr(),
                    n_inputs,
                    &raw const b,
                    1,
                    out
                ))
            })
        }
    }
}

/// Allocations are not limited: the sizes are those of a program. Only those that no machine has stay.
fn small(shape: Vec<i64>) -> Vec<i64> {
    shape.into_iter().map(|dim| if (0..1 << 40).contains(&dim) { dim % 64 } else { dim }).collect()
}
