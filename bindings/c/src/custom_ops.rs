//! `OrtCustomOpDomain`: custom operators, registered with session options.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::c_void;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ort_session::RegistryError;
use ort_session::provider::{NodeSpec, Operator, OperatorSource};

use crate::custom_operator::CustomOperator;
use crate::error::Error;
use crate::ffi::{CustomOp, Library, Out, OutHandle, Shared, export};
use crate::session_options::SessionOptions;

/// Operators of a domain. Session options share it with the program, which may add more of them.
#[derive(Clone, Debug)]
pub(crate) struct CustomOpDomain {
    domain: String,
    ops: Arc<Mutex<Vec<CustomOp>>>,
}

impl CustomOpDomain {
    pub(crate) fn name(&self) -> &str {
        &self.domain
    }

    fn ops(&self) -> Vec<CustomOp> {
        self.ops.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The operators of a session's domains, with their domains and names.
#[derive(Debug)]
pub(crate) struct CustomOps(Vec<(String, String, CustomOp)>);

impl CustomOps {
    pub(crate) fn of(domains: &[CustomOpDomain]) -> Self {
        let ops = domains.iter().flat_map(|domain| {
            domain.ops().into_iter().map(|op| (domain.domain.clone(), op.name(), op))
        });
        Self(ops.collect())
    }
}

/// Whether an operator runs on the CPU.
fn is_for_cpu(op: &CustomOp) -> bool {
    op.provider().is_none_or(|provider| provider == "CPUExecutionProvider")
}

impl OperatorSource for CustomOps {
    fn names(&self) -> Vec<(String, String)> {
        self.0.iter().map(|(domain, name, _)| (domain.clone(), name.clone())).collect()
    }

    fn build(
        &self,
        domain: &str,
        op_type: &str,
        spec: &NodeSpec<'_>,
    ) -> Option<Result<Arc<dyn Operator>, RegistryError>> {
        let has_name = |(its_domain, name, _): &&(String, String, CustomOp)| {
            (its_domain.as_str(), name.as_str()) == (domain, op_type)
        };
        let ops = self.0.iter().filter(has_name).map(|(.., op)| *op).filter(is_for_cpu);
        let ops: Vec<CustomOp> = ops.collect();
        let (oldest, newest) =
            ops.iter().map(CustomOp::versions).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        let found = spec.since_version;
        let covers = |op: &CustomOp| (op.versions().0..=op.versions().1).contains(&found);
        let ops: Vec<CustomOp> = ops.into_iter().filter(covers).collect();
        if ops.is_empty() {
            let (domain, op_type) = (domain.to_owned(), op_type.to_owned());
            return Some(Err(RegistryError::UnknownVersion {
                domain,
                op_type,
                oldest,
                newest,
                found,
            }));
        }
        let (attrs, n_outputs) = (spec.attrs().clone(), spec.n_outputs);
        Some(Ok(Arc::new(CustomOperator { ops, attrs, n_outputs })))
    }
}

export! {
    fn CreateCustomOpDomain(domain: &str, out: OutHandle<'_, CustomOpDomain>) {
        let domain = if domain == "ai.onnx" { "" } else { domain }.to_owned();
        out.set(CustomOpDomain { domain, ops: Arc::default() });
        Ok(())
    }

    fn ReleaseCustomOpDomain(domain: Option<Box<CustomOpDomain>>) -> () = (); {
        drop(domain);
        Ok(())
    }

    /// The program keeps the operator as long as sessions use it.
    fn CustomOpDomain_Add(custom_op_domain: Shared<'_, CustomOpDomain>, op: CustomOp) {
        custom_op_domain.ops.lock().unwrap_or_else(PoisonError::into_inner).push(op);
        Ok(())
    }

    fn AddCustomOpDomain(
        options: &mut SessionOptions,
        custom_op_domain: Shared<'_, CustomOpDomain>,
    ) {
        options.domains.push(CustomOpDomain::clone(&custom_op_domain));
        Ok(())
    }

    /// Calls the library's function `RegisterCustomOps`. The program closes the library.
    fn RegisterCustomOpsLibrary(
        options: *mut ort_sys::OrtSessionOptions,
        library_path: &Path,
        library_handle: Out<'_, *mut c_void>,
    ) {
        library_handle.set(Library::open(library_path)?.register(options, "RegisterCustomOps")?);
        Ok(())
    }

    /// The same; the library stays loaded.
    fn RegisterCustomOpsLibrary_V2(
        options: *mut ort_sys::OrtSessionOptions,
        library_name: &Path,
    ) {
        Library::open(library_name)?.register(options, "RegisterCustomOps").map(drop)
    }

    /// Calls a function that the process has loaded.
    fn RegisterCustomOpsUsingFunction(
        options: *mut ort_sys::OrtSessionOptions,
        registration_func_name: &str,
    ) {
        Library::of_process()?.register(options, registration_func_name).map(drop)
    }

    /// They are a library of their own.
    fn EnableOrtCustomOps(_options: &mut SessionOptions) {
        Err(Error::fail("EnableOrtCustomOps: onnxruntime-extensions is not part of this library; register its library with RegisterCustomOpsLibrary_V2"))
    }
}
