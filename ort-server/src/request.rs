//! An inference request and its response, in either protocol.

use std::sync::Arc;
use std::time::Instant;

use ort_session::{DType, Tensor};

use crate::budget::Reservation;
use crate::datatype;
use crate::failure::Failure;
use crate::trace::Span;

/// One inference request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) inputs: Vec<(String, Tensor)>,
    /// The names of the outputs; all if empty.
    pub(crate) outputs: Vec<String>,
    /// When the answer is of no use any more.
    pub(crate) deadline: Instant,
    /// The memory of its message, held as long as the inputs.
    pub(crate) reservation: Arc<Reservation>,
    /// Its span, if it is traced.
    pub(crate) span: Option<Arc<Span>>,
}

/// The outputs, in the requested order.
pub(crate) type Outputs = Vec<(String, Tensor)>;

/// The declared type and shape of an input.
///
/// # Errors
/// If the type is unknown, or a dimension is negative or too large.
pub(crate) fn declared(
    name: &str,
    datatype: &str,
    shape: &[i64],
) -> Result<(DType, Vec<usize>), Failure> {
    let Some(dtype) = datatype::dtype(datatype) else {
        return Err(Failure::input(name, format!("unknown datatype `{datatype}`")));
    };
    let dim = |&n: &i64| {
        usize::try_from(n)
            .map_err(|_| Failure::input(name, format!("the dimension {n} is invalid")))
    };
    Ok((dtype, shape.iter().map(dim).collect::<Result<_, _>>()?))
}
