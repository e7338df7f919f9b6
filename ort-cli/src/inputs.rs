//! The inputs of a run: from files, and random for those without a file.

use std::collections::HashMap;
use std::path::Path;

use ort_session::provider::within;
use ort_session::{
    DType, Dim, InputError, RunError, RunInputs, Session, Tensor, Type, Value, ValueDescription,
};
use ort_tensor_io::pb::Kind;
use ort_tensor_io::{DataSet, Side, read_value};

use crate::failure::Failure;
use crate::options::InputOptions;
use crate::sizes::FreeSizes;
use crate::summary::shape_text;
use crate::{print, random};

/// The seed of the first input; each further input has the next number.
const SEED: u64 = 1;

/// Inputs by name.
#[derive(Debug)]
pub(crate) struct Inputs(Vec<(String, Value)>);

impl Inputs {
    /// The inputs that the options specify for this model. Inputs without a file or a default are
    /// random; sizes that were assumed are written to stderr. They may take as much memory as a run by default.
    pub(crate) fn gather(session: &Session, options: &InputOptions) -> Result<Self, Failure> {
        limited(session, || Self::gathered(session, options))
    }

    fn gathered(session: &Session, options: &InputOptions) -> Result<Self, Failure> {
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
        inputs.complete(session, &described, options)?;
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

    /// The inputs as a run takes them.
    pub(crate) fn to_run(&self) -> RunInputs<'_> {
        self.0.iter().map(|(name, value)| (name.as_str(), value)).collect()
    }

    /// The size of their tensors in bytes.
    pub(crate) fn n_bytes(&self) -> usize {
        let tensors = self.0.iter().filter_map(|(_, value)| value.as_tensor().ok());
        tensors.map(Tensor::n_bytes).sum()
    }

    /// Adds random values for inputs without a file.
    fn complete(
        &mut self,
        session: &Session,
        described: &[ValueDescription],
        options: &InputOptions,
    ) -> Result<(), Failure> {
        let symbols = self.symbols(described, options);
        let is_partial = !self.0.is_empty();
        let is_given =
            |input: &ValueDescription| self.0.iter().any(|(name, _)| *name == input.name);
        let missing = described.iter().zip(SEED..);
        let missing = missing.filter(|(input, _)| !input.has_default && !is_given(input));
        let missing: Vec<_> = missing.collect();
        let types = missing.iter().map(|(input, _)| type_of_random(input, options));
        let (dtypes, dims): (Vec<DType>, Vec<_>) =
            types.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let shapes = FreeSizes::new(&dims, &symbols).find(|shapes| {
            let zeros = missing.iter().zip(&dtypes).zip(shapes);
            let zeros = zeros.map(|(((input, _), dtype), shape)| (&input.name, *dtype, shape));
            self.fits(session, zeros)
        });
        let names = || missing.iter().map(|(input, _)| input.name.clone()).collect();
        let shapes = shapes.map_err(|source| Failure::NoSizes { names: names(), source })?;
        for (((input, seed), dtype), (shape, dims)) in
            missing.iter().zip(dtypes).zip(shapes.iter().zip(&dims))
        {
            note_assumed(input, dims, &symbols, shape);
            if is_partial {
                print::note(format_args!("input `{}` is random: no file is given", input.name));
            }
            let tensor = random::tensor(dtype, shape, *seed);
            let name = input.name.clone();
            let tensor = tensor.map_err(|source| Failure::Size { name: name.clone(), source })?;
            self.0.push((name, tensor.into()));
        }
        Ok(())
    }

    /// Whether the model's nodes accept these inputs and others of these types and shapes. Errors in given inputs are
    /// left to the run.
    fn fits<'a>(
        &self,
        session: &Session,
        others: impl Iterator<Item = (&'a String, DType, &'a Vec<usize>)>,
    ) -> Result<(), Box<RunError>> {
        let mut inputs = self.to_run();
        for (name, dtype, shape) in others {
            // Zeros that are never accessed use no memory.
            let zeros = Tensor::zeros(dtype, shape)
                .map_err(|error| Box::new(InputError::Size { name: name.clone(), error }.into()))?;
            inputs = inputs.with(name.as_str(), zeros);
        }
        match session.infer_outputs(inputs) {
            Err(error @ RunError::Plan(_)) => Err(Box::new(error)),
            _ => Ok(()),
        }
    }

    /// The sizes of the symbols in known shapes.
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

/// Calls `body`, which reads or makes values, with the memory that a run of the session has by default.
pub(crate) fn limited<R>(session: &Session, body: impl FnOnce() -> R) -> R {
    let most = session.default_run_bytes().unwrap_or(usize::MAX);
    within(most, most, body)
}

/// The kind of value in a file of a data set, by side and position.
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

/// The element type of a random input, and its dimensions: as given, or as in the model.
fn type_of_random(
    input: &ValueDescription,
    options: &InputOptions,
) -> Result<(DType, Vec<Dim>), Failure> {
    let name = input.name.clone();
    let Type::Tensor(ty) = &input.ty else {
        return Err(Failure::NotRandom { name, ty: Box::new(input.ty.clone()) });
    };
    let given = options.shape.iter().rfind(|shape| shape.name == input.name);
    let dims = match (given, &ty.dims) {
        (Some(given), _) => given.shape.iter().copied().map(Dim::Known).collect(),
        (None, Some(dims)) => dims.to_vec(),
        (None, None) => return Err(Failure::NoRank { name }),
    };
    Ok((ty.dtype, dims))
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
            "input `{name}` ({ty}) is assumed to be {shape}; set --shape {name}=…"
        ));
    }
}
