//! Plain graphs put into blocks must come out as they were, and what cannot be understood is said.

/// Numbers between −1 and 1 that look random, the same for the same seed.
pub(super) struct Noise(u64);

impl Noise {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> f32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bits = u16::try_from(self.0 >> 48).unwrap();
        f32::from(bits) / 32768.0 - 1.0
    }
}
