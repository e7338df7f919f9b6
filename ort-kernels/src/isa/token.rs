//! The tokens: only `detect` creates them.

/// Proof that this machine supports AVX-512 (F, BW, DQ, VL), AVX2, FMA and F16C. It records whether int8 dot
/// products are supported as well, because detecting that for every tile takes as long as a small tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx512 {
    has_vnni: bool,
}

/// Proof that this machine supports everything that [`Avx512`] proves, and int8 dot products (VNNI).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx512Vnni(Avx512);

/// Proof that this machine supports everything that [`Avx512Vnni`] proves, and matrix products of bfloat16 and of
/// bytes (AMX).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amx(Avx512);

/// Proof that this machine supports AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx2(());

/// Proof that this machine supports NEON: four lanes of f32, 32 registers, and fused multiply-adds. It records
/// whether int8 dot products are supported as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neon {
    has_dotprod: bool,
}

/// Proof that this machine supports everything that [`Neon`] proves, and int8 dot products (`dotprod`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeonDotprod(Neon);

/// Proof that this target has vectors of four lanes of f32: NEON, or the simd128 of WebAssembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simd128(());

impl Avx512 {
    /// The token, if this machine supports the instructions.
    #[must_use]
    pub fn detect() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if features!(Avx512 detected) {
            return Some(Self { has_vnni: features!(Avx512Vnni detected) });
        }
        None
    }
}

impl Avx512Vnni {
    /// The token, if this machine supports the instructions.
    #[must_use]
    pub fn detect() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if features!(Avx512Vnni detected) {
            return Avx512::detect().map(Self);
        }
        None
    }

    /// The token, if a machine with AVX-512 supports the instructions.
    pub(super) fn of(token: Avx512) -> Option<Self> {
        token.has_vnni.then_some(Self(token))
    }
}

impl Amx {
    /// The token, if this machine supports the instructions and the system permits them.
    #[must_use]
    pub fn detect() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if super::amx::is_permitted() {
            return Avx512Vnni::detect().map(Avx512::from).map(Self);
        }
        None
    }
}

impl Avx2 {
    /// The token, if this machine supports the instructions.
    #[must_use]
    pub fn detect() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if features!(Avx2 detected) {
            return Some(Self(()));
        }
        None
    }
}

impl Neon {
    /// The token, if this machine supports the instructions: each with aarch64 does.
    #[must_use]
    pub fn detect() -> Option<Self> {
        #[cfg(target_arch = "aarch64")]
        return Some(Self { has_dotprod: features!(NeonDotprod detected) });
        #[cfg(not(target_arch = "aarch64"))]
        None
    }
}

impl NeonDotprod {
    /// The token, if this machine supports the instructions.
    #[must_use]
    pub fn detect() -> Option<Self> {
        Neon::detect().and_then(Self::of)
    }

    /// The token, if a machine with NEON supports the instructions.
    pub(super) fn of(token: Neon) -> Option<Self> {
        token.has_dotprod.then_some(Self(token))
    }
}

impl Simd128 {
    /// The token, if the code is compiled for such vectors.
    #[must_use]
    pub fn detect() -> Option<Self> {
        cfg!(any(target_arch = "aarch64", target_feature = "simd128")).then_some(Self(()))
    }
}

impl From<Neon> for Simd128 {
    /// The vectors of `Simd128` are those of `Neon`.
    fn from(_: Neon) -> Self {
        Self(())
    }
}

impl From<NeonDotprod> for Neon {
    /// The features of `NeonDotprod` include those of `Neon`.
    fn from(NeonDotprod(token): NeonDotprod) -> Self {
        token
    }
}

impl From<Avx512Vnni> for Avx512 {
    /// The features of `Avx512Vnni` include those of `Avx512`.
    fn from(Avx512Vnni(token): Avx512Vnni) -> Self {
        token
    }
}

impl From<Amx> for Avx512 {
    /// The features of `Amx` include those of `Avx512`.
    fn from(Amx(token): Amx) -> Self {
        token
    }
}

impl From<Amx> for Avx512Vnni {
    /// The features of `Amx` include those of `Avx512Vnni`.
    fn from(Amx(token): Amx) -> Self {
        Self(token)
    }
}

impl From<Avx512> for Avx2 {
    /// The features of `Avx512` include those of `Avx2`.
    fn from(_: Avx512) -> Self {
        Self(())
    }
}
