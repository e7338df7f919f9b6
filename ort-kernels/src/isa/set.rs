//! The selection of an instruction set.

use super::{Amx, Avx2, Avx512, Avx512Vnni, GENERIC_FMA, Neon, NeonDotprod, Simd128};

/// The instruction set that kernels are selected for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// AVX-512, and eight tiles of 16 by 16 sums.
    Amx(Amx),
    /// 16 lanes of f32, 32 registers.
    Avx512(Avx512),
    /// 8 lanes of f32, 16 registers.
    Avx2(Avx2),
    /// 4 lanes of f32, 32 registers: aarch64.
    Neon(Neon),
    /// 4 lanes of f32, without fused multiply-add: WebAssembly.
    Simd128(Simd128),
    /// The target's baseline.
    Generic,
}

impl Isa {
    /// The best instruction set of this machine.
    #[must_use]
    pub fn best() -> Self {
        Self::all().next().unwrap_or(Self::Generic)
    }

    /// The set named `amx`, `avx512`, `avx2`, `neon`, `simd128` or `generic`; `None` for another name or if the
    /// machine does not support it.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "amx" => Amx::detect().map(Self::Amx),
            "avx512" => Avx512::detect().map(Self::Avx512),
            "avx2" => Avx2::detect().map(Self::Avx2),
            "neon" => Neon::detect().map(Self::Neon),
            "simd128" => Simd128::detect().map(Self::Simd128),
            "generic" => Some(Self::Generic),
            _ => None,
        }
    }

    /// Every instruction set this machine has, best first.
    pub fn all() -> impl Iterator<Item = Self> {
        let names = ["amx", "avx512", "avx2", "neon", "simd128", "generic"];
        names.into_iter().filter_map(Self::by_name)
    }

    /// The name that `by_name` accepts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Amx(_) => "amx",
            Self::Avx512(_) => "avx512",
            Self::Avx2(_) => "avx2",
            Self::Neon(_) => "neon",
            Self::Simd128(_) => "simd128",
            Self::Generic => "generic",
        }
    }

    /// The AMX token, if kernels for it may be selected.
    #[must_use]
    pub fn amx(self) -> Option<Amx> {
        match self {
            Self::Amx(token) => Some(token),
            _ => None,
        }
    }

    /// The AVX-512 token, if kernels for it may be selected; AMX includes AVX-512.
    #[must_use]
    pub fn avx512(self) -> Option<Avx512> {
        match self {
            Self::Amx(token) => Some(token.into()),
            Self::Avx512(token) => Some(token),
            _ => None,
        }
    }

    /// The AVX-512 VNNI token, if kernels for AVX-512 may be selected and this machine has it.
    #[must_use]
    pub fn avx512_vnni(self) -> Option<Avx512Vnni> {
        self.avx512().and_then(Avx512Vnni::of)
    }

    /// The AVX2 token, if kernels for it may be selected; AVX-512 includes AVX2.
    #[must_use]
    pub fn avx2(self) -> Option<Avx2> {
        match self {
            Self::Avx2(token) => Some(token),
            _ => self.avx512().map(Avx2::from),
        }
    }

    /// The NEON token, if kernels for it may be selected.
    #[must_use]
    pub fn neon(self) -> Option<Neon> {
        match self {
            Self::Neon(token) => Some(token),
            _ => None,
        }
    }

    /// The token of NEON's int8 dot products, if kernels for NEON may be selected and this machine has them.
    #[must_use]
    pub fn neon_dotprod(self) -> Option<NeonDotprod> {
        self.neon().and_then(NeonDotprod::of)
    }

    /// The token of 128-bit vectors, if kernels for it may be selected; NEON includes them.
    #[must_use]
    pub fn simd128(self) -> Option<Simd128> {
        match self {
            Self::Simd128(token) => Some(token),
            _ => self.neon().map(Simd128::from),
        }
    }

    /// Whether sequential reads are faster with the hardware prefetcher alone than with software
    /// prefetch: on Zen 4, which reads its third-level cache at 98 GB/s without and 84 with it.
    /// Processors with matrix tiles, whose third level has a long latency, need software prefetch.
    #[must_use]
    pub fn fetches_ahead(self) -> bool {
        self.amx().is_none()
    }

    /// An estimate of the peak f32 operations of a core per cycle: two multiply-add units (or
    /// one multiplier and one adder without FMA), two operations per lane.
    #[must_use]
    pub fn flops_per_cycle(self) -> usize {
        match self {
            Self::Amx(_) | Self::Avx512(_) => 2 * 2 * 16,
            Self::Avx2(_) => 2 * 2 * 8,
            Self::Neon(_) => 2 * 2 * 4,
            Self::Generic if GENERIC_FMA => 2 * 2 * 4,
            Self::Simd128(_) | Self::Generic => 2 * 4,
        }
    }
}

impl From<Amx> for Isa {
    fn from(token: Amx) -> Self {
        Self::Amx(token)
    }
}

impl From<Avx512> for Isa {
    fn from(token: Avx512) -> Self {
        Self::Avx512(token)
    }
}

impl From<Avx512Vnni> for Isa {
    fn from(token: Avx512Vnni) -> Self {
        Self::Avx512(token.into())
    }
}

impl From<Avx2> for Isa {
    fn from(token: Avx2) -> Self {
        Self::Avx2(token)
    }
}

impl From<Neon> for Isa {
    fn from(token: Neon) -> Self {
        Self::Neon(token)
    }
}

impl From<Simd128> for Isa {
    fn from(token: Simd128) -> Self {
        Self::Simd128(token)
    }
}

impl From<NeonDotprod> for Isa {
    fn from(token: NeonDotprod) -> Self {
        Self::Neon(token.into())
    }
}
