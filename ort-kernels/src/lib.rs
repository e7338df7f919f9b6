//! Fast CPU kernels over plain slices.
//!
//! This crate has no notion of tensors, graphs or threads, and its kernels allocate nothing: callers
//! pass operands, strides in elements, and scratch, whose size a function next to the kernel
//! computes. Each operation is a folder, which documents the contract once; each variant is a file, named
//! `<isa>_<tile>.rs`.
//!
//! An [`Isa`] proves that the machine has the instructions, so selecting a variant is safe
//! and every line of `unsafe` is in `isa.rs`.
//!
//! # When to use it alone
//!
//! For fast matrix products, convolutions and element-wise functions over slices of your own, without ONNX.
//!
//! ```
//! use ort_kernels::{Isa, vec};
//!
//! let mut x = [0.0_f32, 1.0, 2.0];
//! vec::softmax(Isa::best(), &mut x);
//! assert!((x.iter().sum::<f32>() - 1.0).abs() < 1e-6);
//! ```

#![cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, unused_imports, reason = "used only by x86-64 variants")
)]
#![cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64", target_feature = "simd128")),
    expect(unused_macros, reason = "used only by variants for vectors")
)]

#[macro_use]
mod isa;
#[macro_use]
mod ladder;
#[macro_use]
mod epilogue;
mod activation;
pub mod conv_f32;
pub mod conv_nchwc;
pub mod depthwise_i8;
pub mod few_bits;
pub mod fourier;
pub mod gemm;
pub mod gemm_i8;
pub mod gemm_nbits;
pub mod gemv_f32;
pub mod nchwc;
mod peak;
pub mod quantize;
pub mod resample;
pub mod tiles;
pub mod transpose;
pub mod trees;
pub mod vec;
pub mod window_fold;
pub mod winograd;
mod words;

pub use activation::Activation;
pub use isa::{
    Amx, Avx2, Avx512, Avx512Vnni, FlushDenormals, Isa, Neon, NeonDotprod, Simd128, Task,
    WatchDenormals,
};
pub use peak::peak_gflops;
