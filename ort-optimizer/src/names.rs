//! Names by which passes are left out: their own, and those that ONNX Runtime has besides.

/// What ONNX Runtime (1.31) runs as one transformer made of rules: whoever leaves it out leaves out
/// every rule.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Level1_RuleBasedTransformer",
        &[
            "EliminateIdentity",
            "EliminateSlice",
            "UnsqueezeElimination",
            "EliminateDropout",
            "ExpandElimination",
            "CastElimination",
            "CastChainElimination",
            "PreShapeNodeElimination",
            "NoopElimination",
            "DivMulFusion",
            "FuseReluClip",
            "GemmSumFusion",
            "GemmTransposeFusion",
            "NotWhereFusion",
            "ConvAddFusion",
            "ConvMulFusion",
            "ConvBNFusion",
            "Pad_Fusion",
            "MatMul_BatchNormalization_Fusion",
            "LabelEncoderFusion",
        ],
    ),
    ("Level2_RuleBasedTransformer", &["ClipQuantFusion", "ReluQuantFusion", "GemmTransposeFusion"]),
];

/// Passes of ONNX Runtime (1.31) that have no counterpart: other passes do their work, or nothing here
/// would gain by it. Leaving one out is no mistake, and changes nothing.
const WITHOUT_COUNTERPART: &[&str] = &[
    "FreeDimensionOverrideTransformer",
    "SliceConcatToSpaceToDepthFusion",
    "EnsureUniqueDQForNodeUnit",
    "WhereDummyDq",
    "DQMatMulNBitsFusion",
    "BiasSoftmaxFusion",
    "BiasDropoutFusion",
    "GroupQueryAttentionFusion",
    "MatMulActivationFusion",
    "GatherSliceToSplitFusion",
    "GatherToSliceFusion",
    "QDQS8ToU8Transformer",
    "Avx2WeightS8ToU8Transformer",
    "FuseFp16InitializerToFp32NodeTransformer",
];

/// Every name that [`Options::disabled`](crate::Options::disabled) can have.
pub fn names() -> impl Iterator<Item = &'static str> {
    let own = crate::passes().map(|(name, ..)| name);
    own.chain(GROUPS.iter().map(|(name, _)| *name)).chain(WITHOUT_COUNTERPART.iter().copied())
}

/// Whether whoever leaves `name` out leaves out this pass.
pub(crate) fn covers(name: &str, pass: &str) -> bool {
    let is_rule = |(group, rules): &(&str, &[&str])| *group == name && rules.contains(&pass);
    name == pass || GROUPS.iter().any(is_rule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes;

    #[test]
    fn a_group_covers_its_rules() {
        assert!(covers("Level1_RuleBasedTransformer", "ConvBNFusion"));
        assert!(!covers("Level2_RuleBasedTransformer", "ConvBNFusion"));
        assert!(covers("ConvBNFusion", "ConvBNFusion"));
    }

    #[test]
    fn every_rule_of_a_group_is_a_pass_and_no_name_is_there_twice() {
        let is_pass = |rule: &&str| passes::all().any(|pass| pass.name == *rule);
        let rules = GROUPS.iter().flat_map(|(_, rules)| rules.iter());
        assert!(rules.into_iter().all(|rule| is_pass(&rule)));
        let mut all: Vec<&str> = names().collect();
        let n_names = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), n_names);
    }
}
