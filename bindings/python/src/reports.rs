//! Reports on a session as dictionaries and lists: its memory, and the time of its steps.

use ort_session::{MemoryReport, Retained, StepTime, Usage};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Memory by kind: `(kind, count, bytes, resident bytes or None)`.
pub(crate) fn memory<'py>(py: Python<'py>, report: &MemoryReport) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    let add = |kind: &str, count: Option<usize>, usage: &Usage| {
        let resident = usage.residency.map(|residency| residency.resident);
        list.append((kind, count, usage.virtual_bytes, resident))
    };
    let retained =
        |kind: &str, retained: &Retained| add(kind, Some(retained.count), &retained.usage);
    let estimate = |kind: &str, virtual_bytes: usize| {
        add(kind, None, &Usage { virtual_bytes, residency: None })
    };
    add("model", None, &report.model.whole)?;
    retained("weights in the model's bytes", &report.weights_mapped)?;
    for (reason, copied) in &report.weights_copied {
        retained(&format!("weights copied: {reason:?}"), copied)?;
    }
    retained("packed weights in the model's bytes", &report.packed_mapped)?;
    retained("packed weights", &report.packed_heap)?;
    retained("memory of runs, kept", &report.activations_retained)?;
    estimate("memory of runs, planned", report.activations_planned.n_bytes)?;
    estimate("graph", report.objects.graph)?;
    estimate("plan and kernels", report.objects.plan)?;
    Ok(list)
}

/// The steps of a run, one dictionary each.
pub(crate) fn steps<'py>(py: Python<'py>, steps: &[StepTime]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for step in steps {
        let (work, dict) = (&step.work, PyDict::new(py));
        dict.set_item("node", &work.node)?;
        dict.set_item("op_type", &work.op_type)?;
        dict.set_item("kernel", work.variant)?;
        dict.set_item("start_us", step.start.as_secs_f64() * 1e6)?;
        dict.set_item("time_us", step.time.as_secs_f64() * 1e6)?;
        dict.set_item("flops", work.flops)?;
        dict.set_item("bytes", work.n_bytes)?;
        let types = |types: &[ort_session::Type]| types.iter().map(ToString::to_string).collect();
        let (inputs, outputs): (Vec<_>, Vec<_>) = (types(&work.inputs), types(&work.outputs));
        dict.set_item("inputs", inputs)?;
        dict.set_item("outputs", outputs)?;
        list.append(dict)?;
    }
    Ok(list)
}
