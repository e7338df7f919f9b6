//! The layer between C and Rust, and all of the crate's `unsafe`: arguments and results of functions ([`export!`]),
//! handles, allocators, foreign memory, and callbacks.
//!
//! It relies on what the C API requires of its callers: pointers are valid for as long as it states.

mod allocator;
mod arg;
mod custom_op;
mod entry;
mod export;
mod handle;
mod library;
mod logger;
mod memory;
mod out;
mod structs;
mod taken;
mod tasks;
mod threads;
mod writing;

pub(crate) use self::allocator::{
    AllocatedStrings, Allocator, ConstAllocator, default_allocator, stats_of,
};
pub(crate) use self::arg::{
    Arg, Counted, Files, Memory, MutHandles, MutTargets, Names, Shared, Untyped,
};
pub(crate) use self::custom_op::{CustomKernel, CustomOp, Presence, Side};
pub(crate) use self::export::{caught, converted, export, guard, guard_value, raw, with_enums};
pub(crate) use self::handle::{Handle, into_handle, opaque};
pub(crate) use self::library::Library;
pub(crate) use self::logger::{Logger, level};
pub(crate) use self::memory::Block;
pub(crate) use self::out::{Out, OutHandle, OutMemory, OutRef, Outs, Room, Slots};
pub(crate) use self::structs::{CompileApi, EnvOptions};
pub(crate) use self::taken::{Boxes, Destination, Taken};
pub(crate) use self::tasks::{Callback, Part, PartFn};
pub(crate) use self::threads::{ThreadFunctions, UserData};
pub(crate) use self::writing::{Locator, Writer};
