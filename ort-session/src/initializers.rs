//! Initializers that the caller replaces.

// collects are bounded: as long as the file's lists and those of the caller

use std::collections::{BTreeMap, BTreeSet};

use ort_graph::parsed::{Contents, Graph, Tensor as Parsed};
use ort_graph::{Fact, Type};
use ort_onnx::ModelProto;
use ort_tensor::Tensor;

use crate::builder::SessionBuilder;
use crate::nearest::nearest;

/// Replacements by the names of initializers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Initializers {
    given: BTreeMap<String, Given>,
}

#[derive(Clone, Debug)]
struct Given {
    tensor: Tensor,
    /// Whether the model must have it as external data.
    is_external: bool,
}

/// A replaced initializer that does not match the model's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InitializerError {
    /// The model's graph has no initializer of this name.
    #[error("the model has no initializer `{name}`{}", did_you_mean(nearest.as_deref()))]
    Unknown {
        /// The name.
        name: String,
        /// The name that was probably meant.
        nearest: Option<String>,
    },
    /// The initializer is not external.
    #[error("initializer `{name}` of the model is not external data")]
    NotExternal {
        /// The name.
        name: String,
    },
    /// Type or shape differ.
    #[error("initializer `{name}` is {expected}, not {found}")]
    Type {
        /// Its name.
        name: String,
        /// The model's type.
        expected: Box<Type>,
        /// The type of the replacement.
        found: Box<Type>,
    },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

impl SessionBuilder {
    /// Sets the value of an initializer of the model's graph, replacing that of the file: before
    /// anything is optimized, and without a copy. Sessions with the same tensor, or tensors over the
    /// same bytes, share the memory (except for packed copies). The type and shape must be those of the
    /// model.
    ///
    /// Names of no initializer are ignored, so that one builder serves models that share only some.
    ///
    /// Source: `AddInitializer` of ONNX Runtime, whose optimizer still folds the file's value.
    #[must_use]
    pub fn initializer(self, name: impl Into<String>, value: Tensor) -> Self {
        self.given(name.into(), value, false)
    }

    /// The same for an initializer with external data in a `.onnx` model, whose file is then not
    /// opened. An unknown name, or one whose elements are in the model itself, is an error when the
    /// session is built.
    ///
    /// Source: `AddExternalInitializers` of ONNX Runtime.
    #[must_use]
    pub fn external_initializer(self, name: impl Into<String>, value: Tensor) -> Self {
        self.given(name.into(), value, true)
    }

    fn given(mut self, name: String, tensor: Tensor, is_external: bool) -> Self {
        self.initializers.given.insert(name, Given { tensor, is_external });
        self
    }
}

impl Initializers {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// Makes a model independent of external data that is replaced; returns the names of those initializers.
    pub(crate) fn release(&self, model: &mut ModelProto) -> BTreeSet<String> {
        let tensors = model.graph.iter_mut().flat_map(|graph| &mut graph.initializer);
        let given = tensors.filter(|it| it.is_external() && self.given.contains_key(&it.name));
        given
            .map(|tensor| {
                tensor.external_data.clear();
                tensor.data_location = Default::default();
                tensor.name.clone()
            })
            .collect()
    }

    /// Replaces initializers in a graph; those in `external` had external data.
    pub(crate) fn put(
        &self,
        graph: &mut Graph<'_>,
        external: &BTreeSet<String>,
    ) -> Result<(), InitializerError> {
        for (name, Given { tensor, is_external }) in &self.given {
            let sparse = graph.sparse_initializers.extract_if(.., |it| it.values.name == *name);
            let dense = sparse.last().map(|it| Parsed { shape: it.shape, ..it.values });
            graph.initializers.extend(dense);
            if *is_external && !external.contains(name) {
                return Err(missing(name, graph));
            }
            for own in graph.initializers.iter_mut().filter(|own| own.name == *name) {
                let expected = Fact::shaped(own.dtype, &own.shape).ty;
                let found = Fact::shaped(tensor.dtype(), tensor.shape()).ty;
                if expected != found {
                    let (expected, found) = (Box::new(expected), Box::new(found));
                    return Err(InitializerError::Type { name: name.clone(), expected, found });
                }
                own.contents = Contents::Given(Box::new(tensor.clone()));
            }
            graph.forms.retain(|form| form.of.is_none_or(|(of, _)| of != name));
        }
        Ok(())
    }

    /// Calls `seen` with bytes that identify the replacements.
    pub(crate) fn visit_bytes(&self, seen: &mut dyn FnMut(&[u8])) {
        for (name, Given { tensor, .. }) in &self.given {
            let ty = Fact::shaped(tensor.dtype(), tensor.shape()).ty;
            seen(format!("\0{name}\0{ty}\0").as_bytes());
            match tensor.view().as_bytes() {
                Some(bytes) => seen(bytes),
                None => tensor.view().as_strings().into_iter().flatten().for_each(|text| {
                    seen(&text.len().to_le_bytes());
                    seen(text.as_bytes());
                }),
            }
        }
    }
}

fn missing(name: &str, graph: &Graph<'_>) -> InitializerError {
    let name = name.to_owned();
    let mut known = graph.initializers.iter().map(|own| own.name.as_ref());
    if known.any(|own| own == name) {
        return InitializerError::NotExternal { name };
    }
    let known = graph.initializers.iter().map(|own| own.name.as_ref());
    let nearest = nearest(&name, known).map(str::to_owned);
    InitializerError::Unknown { name, nearest }
}
