//! Custom operators.

use std::sync::Arc;

use ort_graph::{OpDef, OperatorSource, Registry};

use crate::SessionError;

/// Operators in addition to those of ort-ops.
#[derive(Clone, Debug, Default)]
pub(crate) struct Custom {
    pub(crate) defs: Vec<OpDef>,
    pub(crate) sources: Vec<Arc<dyn OperatorSource>>,
}

impl Custom {
    /// Domain and name of each.
    fn names(&self) -> impl Iterator<Item = (String, String)> {
        let defs = self.defs.iter().map(|def| (def.domain.to_owned(), def.name.to_owned()));
        defs.chain(self.sources.iter().flat_map(|source| source.names()))
    }

    /// Domain and name of each, as texts.
    pub(crate) fn labels(&self) -> impl Iterator<Item = String> {
        self.names().map(|(domain, name)| format!("{domain}:{name}"))
    }

    /// Checks that none has the name of a standard operator.
    ///
    /// # Errors
    /// If one has: the optimizer and the providers rely on the semantics of standard operators.
    pub(crate) fn checked(self) -> Result<Self, SessionError> {
        if self.defs.is_empty() && self.sources.is_empty() {
            return Ok(self);
        }
        let standard = ort_ops::registry().defs();
        let standard = self.names().find_map(|(domain, name)| {
            let domain = if domain == "ai.onnx" { "" } else { &domain };
            standard.iter().find(|own| (own.domain, own.name) == (domain, &name)).copied()
        });
        match standard {
            Some(OpDef { domain, name, .. }) => {
                let domain = if domain.is_empty() { "ai.onnx" } else { domain };
                Err(SessionError::StandardOperator { domain, name })
            }
            None => Ok(self),
        }
    }

    /// All operators: those of ort-ops, and these.
    pub(crate) fn registry(&self) -> Registry {
        let registry = ort_ops::registry().with(&self.defs);
        self.sources.iter().cloned().fold(registry, Registry::with_source)
    }
}
