//! One end of an edge: the format's only struct.

use flatbuffers::{InvalidFlatbuffer, SimpleToVerifyInSlice, Verifiable, Verifier};

use crate::wire::{Element, Position};

/// The other end of an edge of a [`NodeEdge`](crate::NodeEdge).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EdgeEnd {
    /// The node at the other end.
    pub node_index: u32,
    /// Which output of the source.
    pub src_arg_index: i32,
    /// Which input of the destination; implicit inputs follow the explicit ones.
    pub dst_arg_index: i32,
}

// The verifier takes size and alignment from the type.
const _: () = assert!(size_of::<EdgeEnd>() == 12 && align_of::<EdgeEnd>() == 4);

impl SimpleToVerifyInSlice for EdgeEnd {}

impl Verifiable for EdgeEnd {
    fn run_verifier(verifier: &mut Verifier<'_, '_>, at: usize) -> Result<(), InvalidFlatbuffer> {
        verifier.in_buffer::<Self>(at)
    }
}

impl Element<'_> for EdgeEnd {
    type Wire = Self;
    fn read(at: Position<'_>) -> Option<Self> {
        Some(Self {
            node_index: u32::read(at)?,
            src_arg_index: i32::read(at.skip(4)?)?,
            dst_arg_index: i32::read(at.skip(8)?)?,
        })
    }
}
