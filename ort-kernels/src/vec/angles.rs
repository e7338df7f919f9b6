//! Functions of angles, of which the largest are reduced one by one.

/// Elements checked for large angles at once.
const CHUNK: usize = 64;

/// `y[i] = fast(x[i])`, or of `y[i]` without an `x`, but `any` of angles that are large, or infinite.
#[inline(always)]
pub(super) fn of_angles<T: Copy + Default>(
    (x, y): (Option<&[T]>, &mut [T]),
    is_large: impl Fn(T) -> bool,
    fast: impl Fn(T) -> T,
    any: impl Fn(T) -> T,
) {
    let mut angles = [T::default(); CHUNK];
    for (i, y) in y.chunks_mut(CHUNK).enumerate() {
        let angles = &mut angles[..y.len()];
        angles.copy_from_slice(x.map_or(y, |x| &x[i * CHUNK..][..y.len()]));
        let angles = &*angles;
        for (y, angle) in y.iter_mut().zip(angles) {
            *y = fast(*angle);
        }
        if angles.iter().fold(false, |any, angle| any | is_large(*angle)) {
            for (y, angle) in y.iter_mut().zip(angles).filter(|(_, angle)| is_large(**angle)) {
                *y = any(*angle);
            }
        }
    }
}
