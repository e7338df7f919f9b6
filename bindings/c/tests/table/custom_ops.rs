//! Custom operators: registered, chosen for nodes, and run.

use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use onnxruntime::ort_sys::{
    ONNXTensorElementDataType as Type, OrtCustomOp,
    OrtCustomOpInputOutputCharacteristic as Characteristic, OrtErrorCode, OrtSession,
    OrtSessionOptions, OrtStatusPtr,
};
use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};

use crate::call::{self, call, failed, made, ok, rejected};
use crate::custom_kernels::{self as kernels, Op};
use crate::{env, numbers, run, session_with, tensor};

pub(crate) const FLOAT: Type = Type::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
pub(crate) const INT64: Type = Type::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
pub(crate) const ANY: Type = Type::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;

/// A node of the domain, for the text of a model: nothing is known of its outputs.
#[derive(Debug)]
struct Unknown(usize);

impl Operator for Unknown {
    fn infer(&self, _: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        Ok(vec![Fact::UNKNOWN; self.0])
    }

    fn eval(
        &self,
        _: ort_session::provider::Inputs<'_>,
        _: &mut [ort_session::provider::Output<'_>],
    ) -> Result<(), OpError> {
        Err(OpError::Unsupported { what: "a node of text" })
    }
}

/// The bytes of a model whose nodes `test:Op` are custom.
pub(crate) fn model(text: &str) -> Vec<u8> {
    let def = OpDef {
        domain: "test",
        name: "Op",
        versions: (1, 9),
        types: |_| true,
        build: |spec: &NodeSpec<'_>| {
            spec.attrs();
            Ok(Arc::new(Unknown(spec.n_outputs)))
        },
    };
    crate::model_with(text, &ort_ops::registry().with(&[def]), &[("test", 3)])
}

/// Options with the operators, which live as long as the tests.
pub(crate) fn options(ops: Vec<Op>) -> (*mut OrtSessionOptions, &'static [Op]) {
    let options = made!(CreateSessionOptions());
    let domain = made!(CreateCustomOpDomain(c"test".as_ptr()));
    ok(call!(AddCustomOpDomain(options, domain)));
    let ops: &'static [Op] = Vec::leak(ops);
    for op in ops {
        // The options already have the domain.
        ok(call!(CustomOpDomain_Add(domain, &raw const op.base)));
    }
    call!(ReleaseCustomOpDomain(domain));
    (options, ops)
}

pub(crate) fn create(
    model: &[u8],
    options: *const OrtSessionOptions,
) -> (OrtStatusPtr, *mut OrtSession) {
    let mut session = null_mut();
    let (data, n) = (model.as_ptr().cast(), model.len());
    (call!(CreateSessionFromArray(env(), data, n, options, &raw mut session)), session)
}

#[test]
fn a_kernel_lives_as_long_as_its_session_and_runs_on_any_thread() {
    for is_old in [false, true] {
        let op = kernels::new(c"Op", &[FLOAT], &[FLOAT], kernels::scale);
        let (options, ops) = options(vec![if is_old { kernels::old(op) } else { op }]);
        let text = "graph(x: float[n]) -> (y) {
            a = Neg-13 (x)
            b: float[...] = test:Op-3 [factor: 3.0] (a)
            y = Neg-13 (b)
        }";
        let session = session_with(&model(text), options);
        call!(ReleaseSessionOptions(options));
        let count = || ops[0].n_alive.load(Ordering::Relaxed);
        assert_eq!(count(), 1);
        let address = session.expose_provenance();
        std::thread::scope(|scope| {
            for i in 0..4_u8 {
                scope.spawn(move || {
                    let session = std::ptr::with_exposed_provenance_mut(address);
                    for n in 1..50 {
                        let mut data = vec![f32::from(i); n];
                        let x = tensor(&mut data, &[i64::try_from(n).unwrap_or_default()]);
                        let mut outputs = [("y", null_mut())];
                        ok(run(session, &[("x", x)], &mut outputs));
                        assert_eq!(numbers(outputs[0].1), vec![3.0 * f32::from(i); n]);
                        call!(ReleaseValue(outputs[0].1));
                        call!(ReleaseValue(x));
                    }
                });
            }
        });
        assert_eq!((count(), ops[0].n_created.load(Ordering::Relaxed)), (1, 1));
        call!(ReleaseSession(session));
        assert_eq!(count(), 0);
    }
}

#[test]
fn a_kernel_determines_the_shapes_of_its_outputs() {
    let op = kernels::new(c"Op", &[FLOAT], &[FLOAT, INT64], kernels::positive);
    let (options, _) = options(vec![op]);
    let text = "graph(x: float[n]) -> (y, n) {
        y: float[...], n: int64[...] = test:Op-3 (x)
    }";
    let session = session_with(&model(text), options);
    let rows: [(&mut [f32], &[f32]); 2] =
        [(&mut [1.0, -2.0, 3.0, 0.0], &[1.0, 3.0]), (&mut [1.0, 2.0, 4.0], &[1.0, 2.0, 4.0])];
    for (x, expected) in rows {
        let n = i64::try_from(x.len()).unwrap_or_default();
        let (x, mut outputs) = (tensor(x, &[n]), [("y", null_mut()), ("n", null_mut())]);
        ok(run(session, &[("x", x)], &mut outputs));
        assert_eq!(kernels::elements::<f32>(outputs[0].1), expected);
        let n = i64::try_from(expected.len()).unwrap_or_default();
        assert_eq!(kernels::elements::<i64>(outputs[1].1), [n]);
    }
    call!(ReleaseSession(session));
}

#[test]
fn an_operator_of_any_type_takes_numbers_and_strings() {
    let op = kernels::new(c"Op", &[ANY], &[ANY], kernels::copy);
    let (options, _) = options(vec![op]);
    let text = "graph(x: int64[n], s: string[1]) -> (y, t) {
        a: int64[...] = test:Op-3 (x)
        y = Neg-13 (a)
        b: string[...] = test:Op-3 (s)
        t = Identity-14 (b)
    }";
    let session = session_with(&model(text), options);
    let (mut x, dims) = ([1_i64, -2], [2_i64]);
    let x = made!(CreateTensorWithDataAsOrtValue(
        crate::cpu(),
        x.as_mut_ptr().cast(),
        16,
        dims.as_ptr(),
        1,
        INT64
    ));
    let (allocator, one) = (made!(GetAllocatorWithDefaultOptions()), [1_i64]);
    let string = Type::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
    let s = made!(CreateTensorAsOrtValue(allocator, one.as_ptr(), 1, string));
    ok(call!(FillStringTensorElement(s, c"text".as_ptr(), 0)));
    let mut outputs = [("y", null_mut()), ("t", null_mut())];
    ok(run(session, &[("x", x), ("s", s)], &mut outputs));
    assert_eq!(kernels::elements::<i64>(outputs[0].1), [-1, 2]);
    let mut text = [0_u8; 4];
    ok(call!(GetStringTensorElement(outputs[1].1, 4, 0, text.as_mut_ptr().cast())));
    assert_eq!(&text, b"text");
}

#[test]
fn inputs_may_be_absent_or_repeated_as_the_operator_says() {
    use Characteristic::{INPUT_OUTPUT_OPTIONAL, INPUT_OUTPUT_REQUIRED, INPUT_OUTPUT_VARIADIC};

    let cases = [
        (INPUT_OUTPUT_REQUIRED, "x, x", Some([2, 2])),
        (INPUT_OUTPUT_REQUIRED, "x", None),
        (INPUT_OUTPUT_REQUIRED, "x, x, x", None),
        (INPUT_OUTPUT_OPTIONAL, "x", Some([1, 1])),
        (INPUT_OUTPUT_OPTIONAL, "x, _", Some([2, 1])),
        (INPUT_OUTPUT_VARIADIC, "x, x, i, x", Some([4, 4])),
        // The operator wants two of the last.
        (INPUT_OUTPUT_VARIADIC, "x, x", None),
    ];
    for (last, inputs, expected) in cases {
        let op = kernels::new(c"Op", &[FLOAT, ANY], &[INT64], kernels::count);
        let (options, _) = options(vec![Op { last, ..op }]);
        let text = format!(
            "graph(x: float[n], i: int64[n]) -> (y) {{
            y: int64[...] = test:Op-3 ({inputs})
        }}"
        );
        let (status, session) = create(&model(&text), options);
        let Some(expected) = expected else {
            let (code, message) = failed(status);
            assert_eq!(code, OrtErrorCode::ORT_INVALID_GRAPH, "{message}");
            assert!(message.contains("Op"), "{message}");
            continue;
        };
        ok(status);
        let (mut x, mut i, dims) = ([1.0_f32], [1_i64], [1_i64]);
        let x = tensor(&mut x, &[1]);
        let i = made!(CreateTensorWithDataAsOrtValue(
            crate::cpu(),
            i.as_mut_ptr().cast(),
            8,
            dims.as_ptr(),
            1,
            INT64
        ));
        let mut outputs = [("y", null_mut())];
        ok(run(session, &[("x", x), ("i", i)], &mut outputs));
        assert_eq!(kernels::elements::<i64>(outputs[0].1), expected);
        call!(ReleaseSession(session));
    }
}

#[test]
fn the_operator_whose_types_fit_is_chosen() {
    let ops = vec![
        kernels::new(c"Op", &[INT64], &[INT64], kernels::fail),
        kernels::new(c"Op", &[FLOAT], &[FLOAT], kernels::scale),
    ];
    let (options, ops) = options(ops);
    let text = "graph(x: float[n]) -> (y) { y: float[...] = test:Op-3 (x) }";
    call!(ReleaseSession(session_with(&model(text), options)));
    let created = ops.iter().map(|op| op.n_created.load(Ordering::Relaxed));
    assert_eq!(created.collect::<Vec<_>>(), [0, 1]);
    let text = "graph(x: double[n]) -> (y) { y: double[...] = test:Op-3 (x) }";
    let (code, message) = failed(create(&model(text), options).0);
    assert_eq!(code, OrtErrorCode::ORT_INVALID_GRAPH, "{message}");
    assert!(message.contains("input 0") && message.contains("int64"), "{message}");
}

#[test]
fn inferred_shapes_are_those_of_the_session() {
    let op = kernels::new(c"Op", &[FLOAT], &[FLOAT], kernels::twice);
    let base = OrtCustomOp { InferOutputShapeFn: Some(kernels::infer_twice), ..op.base };
    let (options, _) = options(vec![Op { base, ..op }]);
    let text = "graph(x: float[1,3]) -> (y) {
        a: float[...] = test:Op-3 [factor: 2.0] (x)
        y = Neg-13 (a)
    }";
    let session = session_with(&model(text), options);
    let info = made!(SessionGetOutputTypeInfo(session, 0));
    let tensor_info = made!(CastTypeInfoToTensorInfo(info));
    let mut dims = [0_i64; 2];
    ok(call!(GetDimensions(tensor_info, dims.as_mut_ptr(), 2)));
    assert_eq!(dims, [1, 6]);
    call!(ReleaseTypeInfo(info));
    let mut x = [1.0_f32, 2.0, 3.0];
    let (x, mut outputs) = (tensor(&mut x, &[1, 3]), [("y", null_mut())]);
    ok(run(session, &[("x", x)], &mut outputs));
    assert_eq!(numbers(outputs[0].1), [-1.0, -2.0, -3.0, -1.0, -2.0, -3.0]);
}

#[test]
fn a_kernel_uses_threads_and_scratch_memory() {
    let (options, _) = options(vec![kernels::new(c"Op", &[FLOAT], &[FLOAT], kernels::squares)]);
    ok(call!(SetIntraOpNumThreads(options, 2)));
    let text = "graph(x: float[n]) -> (y) { y: float[...] = test:Op-3 (x) }";
    let session = session_with(&model(text), options);
    let mut data: Vec<f32> = (0..1000_u16).map(f32::from).collect();
    let expected: Vec<f32> = data.iter().map(|x| x * x).collect();
    let (x, mut outputs) = (tensor(&mut data, &[1000]), [("y", null_mut())]);
    ok(run(session, &[("x", x)], &mut outputs));
    assert_eq!(numbers(outputs[0].1), expected);
}

#[test]
fn errors_name_the_node_and_carry_the_message() {
    let text = "graph(x: float[n]) -> (y) { y: float[...] = test:Op-3 [factor: -1.0] (x) }";
    // When the kernel is created.
    let (with_scale, _) = options(vec![kernels::new(c"Op", &[FLOAT], &[FLOAT], kernels::scale)]);
    let (_, message) = failed(create(&model(text), with_scale).0);
    assert!(message.contains("Op") && message.contains("a negative factor"), "{message}");
    // When it computes.
    let text = "graph(x: float[n]) -> (y) { y: float[...] = test:Op-3 (x) }";
    let cases: [(fn(&_, _) -> _, &str); 2] = [
        (kernels::fail, "the kernel of the test failed"),
        (kernels::nothing, "output 0 was not computed"),
    ];
    for (compute, expected) in cases {
        let (options, _) = options(vec![kernels::new(c"Op", &[FLOAT], &[FLOAT], compute)]);
        let session = session_with(&model(text), options);
        let mut x = [1.0_f32];
        let x = tensor(&mut x, &[1]);
        let (_, message) = failed(run(session, &[("x", x)], &mut [("y", null_mut())]));
        assert!(message.contains("Op") && message.contains(expected), "{message}");
        call!(ReleaseSession(session));
    }
}

#[test]
fn a_node_needs_a_registered_operator_of_its_version() {
    let bytes = model("graph(x: float[n]) -> (y) { y: float[...] = test:Op-3 (x) }");
    let (code, message) = failed(create(&bytes, null()).0);
    assert_eq!(code, OrtErrorCode::ORT_INVALID_GRAPH);
    assert!(message.contains("test") && message.contains("Op"), "{message}");
    let other = kernels::new(c"Other", &[FLOAT], &[FLOAT], kernels::scale);
    let (other, _) = options(vec![other]);
    assert!(failed(create(&bytes, other).0).1.contains("Op"));
    // Versions 1 to 2, and one for another provider.
    extern "system" fn two(_: *const OrtCustomOp) -> i32 {
        2
    }
    extern "system" fn cuda(_: *const OrtCustomOp) -> *const std::ffi::c_char {
        c"CUDAExecutionProvider".as_ptr()
    }
    let op = kernels::new(c"Op", &[FLOAT], &[FLOAT], kernels::scale);
    let base = OrtCustomOp { GetEndVersion: Some(two), ..op.base };
    let (old, _) = options(vec![Op { base, ..op }]);
    assert!(failed(create(&bytes, old).0).1.contains("versions 1 to 2, not 3"));
    let op = kernels::new(c"Op", &[FLOAT], &[FLOAT], kernels::scale);
    let base = OrtCustomOp { GetExecutionProviderType: Some(cuda), ..op.base };
    let (gpu, _) = options(vec![Op { base, ..op }]);
    failed(create(&bytes, gpu).0);
    // The standard's operators cannot be replaced.
    let options = made!(CreateSessionOptions());
    let domain = made!(CreateCustomOpDomain(c"".as_ptr()));
    let neg: &'static Op =
        Box::leak(Box::new(kernels::new(c"Neg", &[FLOAT], &[FLOAT], kernels::scale)));
    ok(call!(CustomOpDomain_Add(domain, &raw const neg.base)));
    ok(call!(AddCustomOpDomain(options, domain)));
    let (code, message) = failed(create(&bytes, options).0);
    assert_eq!(code, OrtErrorCode::ORT_INVALID_ARGUMENT, "{message}");
    assert!(message.contains("Neg"), "{message}");
}

#[test]
fn invalid_operators_and_domains_are_rejected() {
    let mut domain = null_mut();
    rejected(call!(CreateCustomOpDomain(null(), &raw mut domain)), "domain");
    rejected(call!(CreateCustomOpDomain(c"test".as_ptr(), null_mut())), "out");
    let domain = made!(CreateCustomOpDomain(c"test".as_ptr()));
    rejected(call!(CustomOpDomain_Add(domain, null())), "op");
    let op = kernels::new(c"Op", &[FLOAT], &[FLOAT], kernels::scale);
    rejected(call!(CustomOpDomain_Add(null_mut(), &raw const op.base)), "custom_op_domain");
    let bases = [
        (OrtCustomOp { version: 0, ..op.base }, "version 0"),
        (OrtCustomOp { version: 99, ..op.base }, "version 99"),
        (OrtCustomOp { GetName: None, ..op.base }, "GetName"),
        (OrtCustomOp { KernelComputeV2: None, ..op.base }, "KernelCompute"),
        (OrtCustomOp { version: 15, ..op.base }, "CreateKernel"),
    ];
    for (base, word) in bases {
        let status = call!(CustomOpDomain_Add(domain, &raw const base));
        let (code, message) = failed(status);
        assert_eq!(code, OrtErrorCode::ORT_INVALID_ARGUMENT);
        assert!(message.contains("`op`") && message.contains(word), "{message}");
    }
    let options = made!(CreateSessionOptions());
    rejected(call!(AddCustomOpDomain(options, null_mut())), "custom_op_domain");
    rejected(call!(AddCustomOpDomain(null_mut(), domain)), "options");
    call!(ReleaseCustomOpDomain(domain));
    call!(ReleaseCustomOpDomain(null_mut()));
    let (mut handle, path) = (null_mut(), c"/no/such/library.so".as_ptr());
    for status in [
        call!(RegisterCustomOpsLibrary(options, path, &raw mut handle)),
        call!(RegisterCustomOpsLibrary_V2(options, path)),
        call!(RegisterCustomOpsUsingFunction(options, c"NoSuchFunction".as_ptr())),
        call!(EnableOrtCustomOps(options)),
    ] {
        let (code, message) = failed(status);
        assert_eq!(code, OrtErrorCode::ORT_FAIL, "{message}");
    }
    rejected(call!(RegisterCustomOpsLibrary_V2(options, null())), "library_name");
    call::rejected(
        call!(RegisterCustomOpsUsingFunction(options, null())),
        "registration_func_name",
    );
    call!(ReleaseSessionOptions(options));
}
