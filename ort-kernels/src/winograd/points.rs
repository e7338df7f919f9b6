//! The points of the transforms, and constants of the matrices: floats, all exact.

/// 0, ±11/16, ±3/2, ∞: among the points that are sixteenths those with the smallest errors on random
/// images, for 4 outputs of 3 taps along both axes.
pub(super) mod six {
    pub(in super::super) const POINTS: [f32; 2] = [11.0 / 16.0, 3.0 / 2.0];
    pub(in super::super) const SQUARES: [f32; 2] = [121.0 / 256.0, 9.0 / 4.0];
    pub(in super::super) const CUBES: [f32; 2] = [1331.0 / 4096.0, 27.0 / 8.0];
    /// The sum of the squares.
    pub(in super::super) const SUM: f32 = 697.0 / 256.0;
    pub(in super::super) const PRODUCT: f32 = 1089.0 / 1024.0;
}

/// 0, ±1/2, ±1, ±2, ∞: the same for 4 outputs of 5 taps.
pub(super) mod eight {
    pub(in super::super) const POINTS: [f32; 3] = [0.5, 1.0, 2.0];
    pub(in super::super) const SQUARES: [f32; 3] = [0.25, 1.0, 4.0];
    pub(in super::super) const CUBES: [f32; 3] = [0.125, 1.0, 8.0];
    /// A point, and sum and product of the squares of the two others.
    pub(in super::super) const PAIRS: [[f32; 3]; 3] =
        [[0.5, 5.0, 4.0], [1.0, 4.25, 1.0], [2.0, 1.25, 0.25]];
    /// Sum of the squares, and of the products of two of them. The product of all three is 1.
    pub(in super::super) const SUM: f32 = 21.0 / 4.0;
}

/// 0, ±3/4, 7/4, ∞: the same for 4 outputs of 2 taps.
pub(super) mod five {
    pub(in super::super) const POINTS: [f32; 2] = [0.75, 1.75];
    pub(in super::super) const SQUARES: [f32; 2] = [9.0 / 16.0, 49.0 / 16.0];
    pub(in super::super) const CUBES: [f32; 2] = [27.0 / 64.0, 343.0 / 64.0];
}
