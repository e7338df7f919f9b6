//! The target of a builder's packed files: a line that differs whenever their contents would.

// collects are bounded: as many as the caller gives

use ort_optimizer::Options;

use super::SessionBuilder;

impl SessionBuilder {
    /// The target of packed constants, as one line; `None` if a provider packs for this process only.
    pub(super) fn packed_for(&self) -> Option<String> {
        let Options { level, disabled, enabled, stop_after, nchwc_block_size, .. } = &self.options;
        let mut line = format!("ort-session {}, level {level}", env!("CARGO_PKG_VERSION"));
        let list = |names: &[String]| {
            let mut names: Vec<_> = names.iter().map(String::as_str).collect();
            names.sort_unstable();
            names.join(" ")
        };
        let operators: Vec<String> = self.operators.labels().collect();
        let number = |n: &Option<usize>| n.map(|n| n.to_string()).unwrap_or_default();
        let folded = self.options.max_folded_bytes;
        let folded = Some(folded).filter(|&n| n != Options::default().max_folded_bytes);
        let accuracy = usize::from(self.options.matmul_nbits_accuracy_level);
        let accuracy = Some(accuracy).filter(|&level| level != 0);
        for (what, text) in [
            ("without", list(disabled)),
            ("with", list(enabled)),
            ("rewrites", number(stop_after)),
            ("blocks", number(nchwc_block_size)),
            ("folded bytes", number(&folded)),
            ("accuracy level", number(&accuracy)),
            ("operators", list(&operators)),
            ("dimensions", self.free_dims.to_text()),
            ("unpacked", if self.skips_packing { "constants" } else { "" }.to_owned()),
        ] {
            if !text.is_empty() {
                line += &format!(", {what} {text}");
            }
        }
        for provider in &self.providers {
            line += &format!("; {}", provider.packing()?);
        }
        Some(line)
    }
}
