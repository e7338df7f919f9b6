//! A model saved as a `.ort` file, packed or not.
//!
//! The file is built in memory, which counts against the limit of loading, as do the constants that the graph has in its own.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use ort_format::{File, KernelTypeStrResolver, WriteError};
use ort_graph::{Export, Graph, ModelInfo, export};
use ort_optimizer::lower_to_opset;

use crate::cancel::Cancel;
use crate::error::SaveError;
use crate::optimized::{Optimized, PRIVATE, Pack, PackedSize};
use crate::packed::{if_ort, seal, texts, unsealed};
use crate::packs::{ConstantId, forms};
use crate::plan::Released;
use crate::save::write_whole;

impl Optimized {
    /// The current model as the bytes of a `.ort` file. Equal models give equal bytes.
    /// A [packed](Self::is_packed) model stays packed, and released elements stay released.
    ///
    /// # Errors
    /// If the graph has something that the format cannot represent, or is too big for it or for the limits of loading.
    pub fn to_bytes(&self) -> Result<Vec<u8>, SaveError> {
        let room = self.room(&self.settings.load_limits.budget(&self.graph));
        self.settings.saving(room, || match &self.settings.packed_for {
            Some(packed_for) if self.is_packed => self.sealed(&self.graph, packed_for, None),
            _ => {
                let graph = self.for_others()?;
                self.exported(&graph, unsealed(&self.model.metadata), Some(PRIVATE))
            }
        })
    }

    /// Writes the current model to a `.ort` file. The file appears completely or not at all. Mappings of a replaced
    /// file, even of this model, stay valid. Returns its length.
    ///
    /// # Errors
    /// As [`Optimized::to_bytes`], or if the system cannot write the file.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<usize, SaveError> {
        let bytes = self.to_bytes()?;
        self.settings.saving(usize::MAX, || write_whole(path.as_ref(), &bytes))?;
        Ok(bytes.len())
    }

    /// The bytes of a `.ort` file in which every constant is also packed for the kernels: a session
    /// of it, with the same settings on such a processor, neither optimizes nor packs. Other sessions report
    /// its target. ONNX Runtime (1.31) loads it if [`Pack::KeepOriginals`] keeps all elements and the
    /// level is no higher than `extended`.
    ///
    /// # Errors
    /// As [`Optimized::to_bytes`], and if a provider packs for this process only.
    pub fn to_packed_bytes(&self, pack: Pack) -> Result<Vec<u8>, SaveError> {
        Ok(self.packed(pack, None)?.0)
    }

    /// Writes [`Optimized::to_packed_bytes`] as [`Optimized::write`] does.
    ///
    /// # Errors
    /// As for both.
    pub fn write_packed(
        &self,
        path: impl AsRef<Path>,
        pack: Pack,
    ) -> Result<PackedSize, SaveError> {
        let (bytes, size) = self.packed(pack, None)?;
        self.settings.saving(usize::MAX, || write_whole(path.as_ref(), &bytes))?;
        Ok(size)
    }

    /// The bytes of a packed file for the model identified by `of`.
    pub(crate) fn packed(
        &self,
        pack: Pack,
        of: Option<&str>,
    ) -> Result<(Vec<u8>, PackedSize), SaveError> {
        let packed_for = self.settings.packed_for.as_deref().ok_or(SaveError::NotPackable)?;
        let budget = Arc::new(self.settings.load_limits.budget(&self.graph));
        let (plan, packs) = self.settings.saving(usize::MAX, || {
            let compiled = self.compiled(self.graph.clone(), &budget);
            budget.check()?;
            Ok(compiled.map_err(Box::new)?)
        })?;
        let unread = match pack {
            Pack::KeepOriginals => HashSet::new(),
            Pack::Replace => plan.unread(),
        };
        let (mut graph, mut released) = (self.graph.clone(), Released::default());
        let packed_bytes = packs.iter().map(|pack| pack.packed.bytes().len()).sum();
        let mut left_out_bytes = 0;
        let forms = forms(&packs);
        graph.edit_constants(&mut |constant, packed| {
            *packed = forms.get(&ConstantId::of(constant)).cloned().unwrap_or_default();
            left_out_bytes += released.replace(constant, &unread);
        });
        let bytes =
            self.settings.saving(self.room(&budget), || self.sealed(&graph, packed_for, of))?;
        let size = PackedSize { file_bytes: bytes.len(), packed_bytes, left_out_bytes };
        Ok((bytes, size))
    }

    /// The bytes of a file of `graph`, which has packed constants.
    fn sealed(
        &self,
        graph: &Graph,
        packed_for: &str,
        of: Option<&str>,
    ) -> Result<Vec<u8>, SaveError> {
        let metadata = texts(&self.model.metadata, packed_for, of);
        let mut bytes = self.exported(graph, metadata, None)?;
        let cancel = self.settings.cancel.as_ref();
        seal(&mut bytes, &self.threads(), &|| !cancel.is_some_and(Cancel::is_cancelled))?;
        Ok(bytes)
    }

    /// The graph with operators of the versions that the model imports.
    pub(crate) fn for_others(&self) -> Result<Cow<'_, Graph>, SaveError> {
        let opset = self.model.opset("");
        if !opset.is_some_and(|opset| has_newer(&self.graph, opset)) {
            return Ok(Cow::Borrowed(&self.graph));
        }
        let lowered = lower_to_opset(self.graph.clone(), &ort_ops::registry(), opset);
        Ok(Cow::Owned(lowered.map_err(Box::new)?))
    }

    /// A file for other runtimes, without what is `private`, or else one that only this one reads.
    fn exported(
        &self,
        graph: &Graph,
        metadata: Vec<(String, String)>,
        private: Option<&[(&str, &str)]>,
    ) -> Result<Vec<u8>, SaveError> {
        let info = &ModelInfo { metadata, ..self.model.clone() };
        let file = if_ort(self.bytes.as_slice(), &self.settings.limits)?;
        let resolver = file.and_then(File::kernel_type_str_resolver);
        let resolver = resolver.map(KernelTypeStrResolver::to_record);
        let (private, is_ours) = (private.unwrap_or_default(), private.is_none());
        let file = export(graph, Export { info, resolver, private, is_ours }).map_err(Box::new)?;
        ort_format::write(&file).map_err(|error| match error {
            WriteError::Memory(error) => error.into(),
            error => Box::new(error).into(),
        })
    }
}

/// Whether a node follows a newer version of ai.onnx than this, or is of a domain that no file imports.
fn has_newer(graph: &Graph, opset: i64) -> bool {
    graph.node_ids().map(|id| graph.node(id)).any(|node| {
        (node.domain.is_empty() && i64::from(node.since_version) > opset)
            || node.domain == "com.ms.internal.nhwc"
            || node.attrs.subgraphs().any(|subgraph| has_newer(subgraph, opset))
    })
}
