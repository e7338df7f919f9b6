//! What a user can choose about the CPU.

use std::fmt;
use std::str::FromStr;

use ort_kernels::Isa;

/// Settings of the CPU provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuOptions {
    /// Which instructions kernels use.
    pub isa: IsaChoice,
    /// What becomes of denormal numbers.
    pub denormals: Denormals,
    /// How many threads of a run kernels have memory for, if not for as many as the machine runs at
    /// once; more threads do not make them faster.
    pub max_threads: Option<usize>,
    /// Whether several nodes may run as one step, which reads and writes memory once: they do.
    pub fuses: bool,
    /// Whether convolutions with constant filters of 3×3, or of 3 or 5 taps along one axis, may
    /// transform them to compute tiles by fewer products where that is faster: they do. Their errors
    /// are about twice as large then, and the transformed filters take up to four times the memory
    /// of the filters.
    pub winograd: bool,
    /// Whether products that allow it, MatMulNBits with an `accuracy_level` of 4, round what they
    /// multiply with weights of a few bits to 8 bits, block by block: they do.
    pub int8_blocks: bool,
}

impl Default for CpuOptions {
    /// Whatever is fastest.
    fn default() -> Self {
        let (isa, denormals) = (IsaChoice::default(), Denormals::default());
        Self { isa, denormals, max_threads: None, fuses: true, winograd: true, int8_blocks: true }
    }
}

/// Which instructions kernels use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IsaChoice {
    /// The best that the machine has.
    #[default]
    Best,
    /// AVX-512, and for large products of f32 matrix tiles (AMX) that multiply each number as the
    /// sum of three of bfloat16, about as exact: see [`ort_kernels::tiles`].
    Amx,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// AVX2 and FMA.
    Avx2,
    /// What every machine has.
    Generic,
}

/// What becomes of numbers too small for a normal float.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Denormals {
    /// They count as zero while a session computes: arithmetic on them can be a hundred times
    /// slower. The calling thread's own setting is restored afterwards.
    #[default]
    Flush,
    /// They keep their values. Matrix tiles, which cannot, are not used.
    Preserve,
}

/// A word that names no setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is none of {}", known.join(", "))]
pub struct ParseOptionError {
    /// The word.
    pub found: String,
    /// The words there are.
    pub known: &'static [&'static str],
}

/// An instruction set that this machine lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this machine has no {name}")]
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
            "generic" => Ok(IsaChoice::Generic),
            _ => {
                let known = &["amx", "avx512", "avx2", "generic"];
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
