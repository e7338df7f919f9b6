//! The CPU provider's options.

use std::fmt;
use std::str::FromStr;

use ort_kernels::Isa;

/// Settings of the CPU provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuOptions {
    /// The instruction set of kernels.
    pub isa: IsaChoice,
    /// How denormals are treated.
    pub denormals: Denormals,
    /// The number of threads that kernels allocate scratch for; by default, the machine's available
    /// parallelism. More threads do not make them faster.
    pub max_threads: Option<usize>,
    /// Whether several nodes may be fused to one step, which reads and writes memory once; default true.
    pub fuses: bool,
    /// Whether convolutions with constant filters of 3×3, or of 3 or 5 taps along one axis, may use
    /// Winograd's algorithm where it is faster; default true. Their errors
    /// are then about twice as large, and the transformed filters take up to four times the memory
    /// of the filters.
    pub winograd: bool,
    /// Whether products that allow it, MatMulNBits with an `accuracy_level` of 4, may round their
    /// activations to 8 bits, block by block; default true.
    pub int8_blocks: bool,
}

impl Default for CpuOptions {
    /// The fastest settings.
    fn default() -> Self {
        let (isa, denormals) = (IsaChoice::default(), Denormals::default());
        Self { isa, denormals, max_threads: None, fuses: true, winograd: true, int8_blocks: true }
    }
}

/// The instruction set of kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IsaChoice {
    /// The best that the machine supports.
    #[default]
    Best,
    /// AVX-512, and matrix tiles (AMX) for products of bytes and for large ones of f32, which multiply each number
    /// as the sum of three of bfloat16, with about the same accuracy: see [`ort_kernels::tiles`].
    Amx,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// AVX2 and FMA.
    Avx2,
    /// NEON of aarch64.
    Neon,
    /// The 128-bit vectors of WebAssembly; on aarch64 NEON without kernels of its own.
    Simd128,
    /// The target's baseline.
    Generic,
}

/// How denormals are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Denormals {
    /// Flushed to zero during a session's runs: arithmetic on them can be a hundred times
    /// slower. The calling thread's previous mode is restored afterwards.
    #[default]
    Flush,
    /// Preserved. Matrix tiles, which always flush them, are not used.
    Preserve,
}

/// An unknown option value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not one of {}", known.join(", "))]
pub struct ParseOptionError {
    /// The value.
    pub found: String,
    /// The known values.
    pub known: &'static [&'static str],
}

/// An instruction set that this machine does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this machine does not support {name}")]
pub struct UnavailableIsa {
    /// The instruction set.
    pub name: &'static str,
}

impl IsaChoice {
    /// The instruction set on this machine.
    ///
    /// # Errors
    /// If the machine lacks it.
    pub fn resolve(self) -> Result<Isa, UnavailableIsa> {
        let name = match self {
            IsaChoice::Best => return Ok(Isa::best()),
            IsaChoice::Amx => "amx",
            IsaChoice::Avx512 => "avx512",
            IsaChoice::Avx2 => "avx2",
            IsaChoice::Neon => "neon",
            IsaChoice::Simd128 => "simd128",
            IsaChoice::Generic => "generic",
        };
        Isa::by_name(name).ok_or(UnavailableIsa { name })
    }
}

impl FromStr for IsaChoice {
    type Err = ParseOptionError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "amx" => Ok(IsaChoice::Amx),
            "avx512" => Ok(IsaChoice::Avx512),
            "avx2" => Ok(IsaChoice::Avx2),
            "neon" => Ok(IsaChoice::Neon),
            "simd128" => Ok(IsaChoice::Simd128),
            "generic" => Ok(IsaChoice::Generic),
            _ => {
                let known = &["amx", "avx512", "avx2", "neon", "simd128", "generic"];
                Err(ParseOptionError { found: word.to_owned(), known })
            }
        }
    }
}

impl FromStr for Denormals {
    type Err = ParseOptionError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "flush" => Ok(Denormals::Flush),
            "preserve" => Ok(Denormals::Preserve),
            _ => {
                let known = &["flush", "preserve"];
                Err(ParseOptionError { found: word.to_owned(), known })
            }
        }
    }
}

impl fmt::Display for Denormals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Denormals::Flush => "flush",
            Denormals::Preserve => "preserve",
        })
    }
}
