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

/// Proof that this machine supports everything that [`Avx512`] proves, and bfloat16 matrix products (AMX).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amx(Avx512);

/// Proof that this machine supports AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx2(());

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
            return Avx512::detect().map(Self);
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

impl From<Avx512> for Avx2 {
    /// The features of `Avx512` include those of `Avx2`.
    fn from(_: Avx512) -> Self {
        Self(())
    }
}
