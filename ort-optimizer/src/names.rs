//! Names by which passes are disabled: their own, and other names of ONNX Runtime.

/// Transformers of ONNX Runtime (1.31) that consist of rules: disabling one disables every rule.
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

/// Passes of ONNX Runtime (1.31) without a counterpart: other passes do their work, or they would have no benefit
/// here. Disabling one is no error, and has no effect.
const WITHOUT_COUNTERPART: &[&str] = &[
    "FreeDimensionOverrideTransformer",
    "SliceConcatToSpaceToDepthFusion",
    "EnsureUniqueDQForNodeUnit",
    "WhereDummyDq",
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

/// Whether disabling `name` disables this pass.
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
    fn every_rule_of_a_group_is_a_pass_and_names_are_unique() {
        for rule in GROUPS.iter().flat_map(|(_, rules)| rules.iter()) {
            assert!(passes::all().any(|pass| pass.name == *rule), "{rule}");
        }
        let mut all: Vec<&str> = names().collect();
        let n_names = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), n_names);
    }
}
