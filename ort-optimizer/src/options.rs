//! What the optimizer may do.

use std::fmt;
use std::str::FromStr;

/// How far a graph is optimized; each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Level {
    /// No optimization. Only NCHWc operators, whose block size depends on the machine that wrote a file, are lowered
    /// to plain ones.
    Disable,
    /// Rewrites to fewer nodes of the same operators.
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

    /// Its name: `disable`, `basic`, `extended`, `layout` or `all`.
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

/// An unknown name of a level.
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

/// A number that denotes no level in ONNX Runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no level has the number {0}: expected 0, 1, 2, 3 or 99")]
pub struct UnknownLevel(pub i32);

impl TryFrom<i32> for Level {
    type Error = UnknownLevel;

    /// The level with this number in ONNX Runtime.
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
    /// may have the other sign. A quantized result may be off by one.
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
    /// The level.
    pub level: Level,
    /// Names of passes to disable, except NchwcLowering; ONNX Runtime's name of a group disables all of its passes.
    /// Other names are ignored; [`names`](crate::names) lists all.
    pub disabled: Vec<String>,
    /// Names of [`Exactness::Approximate`] passes to run; the others do not run.
    pub enabled: Vec<String>,
    /// The version of ai.onnx that the model imports: operators of that version may be used. With `None`, only
    /// operators that every version has.
    pub opset: Option<i64>,
    /// The block size for NCHWc that the provider's kernels prefer; `None` leaves images in NCHW.
    pub layout_block: Option<usize>,
    /// Stop after this many rewrites: halving it finds the rewrite that breaks a model.
    pub stop_after: Option<usize>,
    /// The block size of com.microsoft.nchwc nodes, 8 or 16, for a file that gives no evidence of it; `None` assumes
    /// `layout_block`.
    pub nchwc_block_size: Option<usize>,
    /// The limit of all folded constants, in bytes.
    pub max_folded_bytes: usize,
    /// The `accuracy_level` of MatMulNBits made of products with dequantized weights: 0 for floats; 4 rounds their left
    /// operands to 8 bits, by blocks. Above 4, which MatMulNBits does not have, these products are not replaced.
    pub matmul_nbits_accuracy_level: u8,
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
            matmul_nbits_accuracy_level: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back_to_the_level() {
        for level in Level::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        assert_eq!("O3".parse::<Level>(), Err(ParseLevelError("O3".to_owned())));
    }

    #[test]
    fn level_numbers_are_those_of_onnx_runtime() {
        let levels: Vec<Level> = [0, 1, 2, 3, 99].map(Level::try_from).map(Result::unwrap).into();
        assert_eq!(levels, Level::ALL);
        for number in [-1, 4, 98, 100] {
            assert_eq!(Level::try_from(number), Err(UnknownLevel(number)));
        }
    }
}
