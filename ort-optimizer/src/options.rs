//! How far to go.

use std::fmt;
use std::str::FromStr;

/// How far a graph is optimized; each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Level {
    /// Not at all, but for data in blocks of channels, which only the machine that wrote a file
    /// could compute with: it becomes plain. Else the graph stays as it is.
    Disable,
    /// Rewrites that give fewer nodes of the operators that were there.
    Basic,
    /// Fusions into operators that are faster than what they replace.
    Extended,
    /// Other layouts of data in memory.
    Layout,
    /// Everything.
    #[default]
    All,
}

impl Level {
    /// Every level, lowest first.
    pub const ALL: [Level; 5] =
        [Level::Disable, Level::Basic, Level::Extended, Level::Layout, Level::All];

    /// The word for it: `disable`, `basic`, `extended`, `layout` or `all`.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Disable => "disable",
            Level::Basic => "basic",
            Level::Extended => "extended",
            Level::Layout => "layout",
            Level::All => "all",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown level `{0}`: expected disable, basic, extended, layout or all")]
pub struct ParseLevelError(pub String);

impl FromStr for Level {
    type Err = ParseLevelError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = Level::ALL.into_iter().find(|level| level.name() == word);
        found.ok_or_else(|| ParseLevelError(word.to_owned()))
    }
}

/// A number that ONNX Runtime gives to no level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no level has the number {0}: expected 0, 1, 2, 3 or 99")]
pub struct UnknownLevel(pub i32);

impl TryFrom<i32> for Level {
    type Error = UnknownLevel;

    /// The level by ONNX Runtime's number for it.
    ///
    /// Source: ONNX Runtime 1.31, `GraphOptimizationLevel` of its C API.
    fn try_from(number: i32) -> Result<Self, UnknownLevel> {
        match number {
            0 => Ok(Level::Disable),
            1 => Ok(Level::Basic),
            2 => Ok(Level::Extended),
            3 => Ok(Level::Layout),
            99 => Ok(Level::All),
            _ => Err(UnknownLevel(number)),
        }
    }
}

/// How close the results of a rewritten graph are to those of the graph before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exactness {
    /// Every bit is the same, given that each kernel is the same function in both graphs. (A NaN
    /// may have another payload where an operation on it is gone.)
    Bitwise,
    /// Equal in real arithmetic: sums may round in another order, a rounding may be saved, a zero
    /// may have the other sign. Where a QuantizeLinear rounds the result to quantized values, it may be the
    /// neighbouring code.
    Rounding,
    /// Equal up to an error that the pass states.
    Approximate,
}

impl fmt::Display for Exactness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Exactness::Bitwise => "bitwise",
            Exactness::Rounding => "rounding",
            Exactness::Approximate => "approximate",
        })
    }
}

/// What [`optimize`](crate::optimize) may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How far to go.
    pub level: Level,
    /// Names of passes that are left out, but not NchwcLowering; a name of ONNX Runtime's for several
    /// leaves out all of them. Any other is ignored; [`names`](crate::names) has them all.
    pub disabled: Vec<String>,
    /// Names of [`Exactness::Approximate`] passes to run: no other of them does.
    pub enabled: Vec<String>,
    /// The version of ai.onnx that the model imports: operators that came with it may be used. With
    /// `None`, only those that are in a graph of any version.
    pub opset: Option<i64>,
    /// How many channels a block has where images are laid out in blocks of channels, as the
    /// provider's kernels want it; `None` leaves them in planes.
    pub layout_block: Option<usize>,
    /// Stop after this many rewrites: halving it finds the rewrite that breaks a model.
    pub stop_after: Option<usize>,
    /// How many channels a block of com.microsoft.nchwc nodes has, 8 or 16, for a file that gives no
    /// evidence of it; `None` assumes `layout_block`.
    pub nchwc_block_size: Option<usize>,
    /// Bytes that folded constants may take in all.
    pub max_folded_bytes: usize,
}

impl Default for Options {
    /// Everything, and folded constants of up to 1 GiB.
    fn default() -> Self {
        Self {
            level: Level::All,
            disabled: Vec::new(),
            enabled: Vec::new(),
            opset: None,
            layout_block: None,
            stop_after: None,
            nchwc_block_size: None,
            max_folded_bytes: 1 << 30,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lead_back_to_the_level() {
        for level in Level::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        assert_eq!("O3".parse::<Level>(), Err(ParseLevelError("O3".to_owned())));
    }

    #[test]
    fn numbers_are_those_of_onnx_runtime() {
        let levels: Vec<Level> = [0, 1, 2, 3, 99].map(Level::try_from).map(Result::unwrap).into();
        assert_eq!(levels, Level::ALL);
        for number in [-1, 4, 98, 100] {
            assert_eq!(Level::try_from(number), Err(UnknownLevel(number)));
        }
    }
}
