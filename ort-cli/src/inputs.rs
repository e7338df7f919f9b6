//! The inputs of a run: from files, and random where no file gives one.

use std::collections::HashMap;
use std::path::Path;

use ort_session::{Dim, RunInputs, Session, Tensor, Type, Value, ValueDescription};
use ort_tensor_io::pb::Kind;
use ort_tensor_io::{DataSet, Side, read_value};

use crate::failure::Failure;
use crate::options::InputOptions;
use crate::summary::shape_text;
use crate::{print, random};

/// The first input's seed; the others count on from it.
const SEED: u64 = 1;

/// Inputs by name.
#[derive(Debug)]
pub(crate) struct Inputs(Vec<(String, Value)>);

impl Inputs {
    /// What the options say for this model. Inputs that no file gives, and that the model has no
    /// default for, are random; what was assumed of their shapes is told on standard error.
    pub(crate) fn gather(session: &Session, options: &InputOptions) -> Result<Self, Failure> {
        let described = session.inputs();
        for shape in &options.shape {
            check_name("--shape", &shape.name, &described)?;
        }
        let mut inputs = match &options.inputs {
            Some(folder) => Self::read(session, folder)?,
            None => Self(Vec::new()),
        };
        for file in &options.input {
            let description = check_name("--input", &file.name, &described)?;
            let value = read_value(&file.path, kind_of(&description.ty))?.value;
            inputs.0.retain(|(name, _)| *name != file.name);
            inputs.0.push((file.name.clone(), value));
        }
        inputs.complete(&described, options)?;
        Ok(inputs)
    }

    /// The inputs of the data set in `folder`.
    fn read(session: &Session, folder: &Path) -> Result<Self, Failure> {
        let set = DataSet::read(folder, &kinds(session))?;
        let names: Vec<String> = session.inputs().into_iter().map(|input| input.name).collect();
        if set.inputs.is_empty() {
            return Err(Failure::NoInput { path: folder.to_owned() });
        }
        let named = set.inputs.into_iter().map(|slot| match slot.name_among(&names) {
            Some(name) => Ok((name.to_owned(), slot.value)),
            None => Err(Failure::Position {
                path: folder.to_owned(),
                position: slot.position,
                n_inputs: names.len(),
            }),
        });
        Ok(Self(named.collect::<Result<_, _>>()?))
    }

    /// To run the model on, any number of times.
    pub(crate) fn to_run(&self) -> RunInputs<'_> {
        self.0.iter().map(|(name, value)| (name.as_str(), value)).collect()
    }

    /// How many bytes their tensors have.
    pub(crate) fn n_bytes(&self) -> usize {
        let tensors = self.0.iter().filter_map(|(_, value)| value.as_tensor().ok());
        tensors.map(Tensor::n_bytes).sum()
    }

    fn complete(
        &mut self,
        described: &[ValueDescription],
        options: &InputOptions,
    ) -> Result<(), Failure> {
        let symbols = self.symbols(described, options);
        let is_partial = !self.0.is_empty();
        for (input, seed) in described.iter().zip(SEED..) {
            if input.has_default || self.0.iter().any(|(name, _)| *name == input.name) {
                continue;
            }
            let name = input.name.clone();
            let Type::Tensor(ty) = &input.ty else {
                return Err(Failure::NotRandom { name, ty: Box::new(input.ty.clone()) });
            };
            let given = options.shape.iter().rfind(|shape| shape.name == input.name);
            let shape = match (given, &ty.dims) {
                (Some(given), _) => given.shape.clone(),
                (None, Some(dims)) => {
                    let shape: Vec<usize> = dims.iter().map(|dim| size(dim, &symbols)).collect();
                    note_assumed(input, dims, &symbols, &shape);
                    shape
                }
                (None, None) => return Err(Failure::NoRank { name }),
            };
            if is_partial {
                print::note(format_args!("input `{name}` is random: no file gives it"));
            }
            let tensor = random::tensor(ty.dtype, &shape, seed);
            let tensor = tensor.map_err(|source| Failure::Size { name: name.clone(), source })?;
            self.0.push((name, tensor.into()));
        }
        Ok(())
    }

    /// The sizes of the symbols in the shapes that are known.
    fn symbols(
        &self,
        described: &[ValueDescription],
        options: &InputOptions,
    ) -> HashMap<String, usize> {
        let values = self
            .0
            .iter()
            .filter_map(|(name, value)| Some((name.as_str(), value.as_tensor().ok()?.shape())));
        let given = options.shape.iter().map(|it| (it.name.as_str(), it.shape.as_slice()));
        let mut symbols = HashMap::new();
        for (name, shape) in values.chain(given) {
            let input = described.iter().find(|input| input.name == name);
            let Some(Type::Tensor(ty)) = input.map(|input| &input.ty) else { continue };
            for (dim, &n) in ty.dims.iter().flatten().zip(shape) {
                if let Dim::Symbol(symbol) = dim {
                    symbols.insert(symbol.to_string(), n);
                }
            }
        }
        symbols
    }
}

/// What kind of value a file of a data set holds, by side and position.
pub(crate) fn kinds(session: &Session) -> impl Fn(Side, usize) -> Option<Kind> {
    let kinds = |values: Vec<ValueDescription>| -> Vec<Option<Kind>> {
        values.iter().map(|value| kind_of(&value.ty)).collect()
    };
    let (inputs, outputs) = (kinds(session.inputs()), kinds(session.outputs()));
    move |side, position| {
        let kinds = if side == Side::Input { &inputs } else { &outputs };
        kinds.get(position).copied().flatten()
    }
}

fn kind_of(ty: &Type) -> Option<Kind> {
    match ty {
        Type::Tensor(_) => Some(Kind::Tensor),
        Type::Sequence(_) => Some(Kind::Sequence),
        Type::Map { .. } => Some(Kind::Map),
        Type::Optional(_) => Some(Kind::Optional),
        _ => None,
    }
}

/// The input of this name.
pub(crate) fn check_name<'a>(
    flag: &'static str,
    name: &str,
    described: &'a [ValueDescription],
) -> Result<&'a ValueDescription, Failure> {
    let found = described.iter().find(|input| input.name == name);
    found.ok_or_else(|| Failure::UnknownInput {
        flag,
        name: name.to_owned(),
        known: described.iter().map(|input| format!("`{}`", input.name)).collect(),
    })
}

/// A dimension that nothing is known of is 1.
fn size(dim: &Dim, symbols: &HashMap<String, usize>) -> usize {
    match dim {
        Dim::Known(n) => *n,
        Dim::Symbol(symbol) => symbols.get(&**symbol).copied().unwrap_or(1),
        Dim::Unknown => 1,
    }
}

fn note_assumed(
    input: &ValueDescription,
    dims: &[Dim],
    symbols: &HashMap<String, usize>,
    shape: &[usize],
) {
    let is_assumed = |dim: &Dim| match dim {
        Dim::Known(_) => false,
        Dim::Symbol(symbol) => !symbols.contains_key(&**symbol),
        Dim::Unknown => true,
    };
    if dims.iter().any(is_assumed) {
        let (name, ty, shape) = (&input.name, &input.ty, shape_text(shape));
        print::note(format_args!(
            "input `{name}` ({ty}) is taken as {shape}; set --shape {name}=…"
        ));
    }
}
