//! The schema: one line for each field, `id name: type "description"`.
//!
//! - `T` reads as empty where it is absent, and is always written; `(T)` is an option, where absence has a meaning.
//! - `[T]` is a vector, `str` a string, `[u8]` the bytes of a tensor.
//! - A field with `if` is written only if that function of its record returns true.
//! - `computed` fields are views only; a record has none, the writer computes each `by` a function of its record.
//!
//! Ids are those of ONNX Runtime 1.31's schema; the root table is called `InferenceSession` there.

schema! {
    table File<'a> "A whole file." {
        1 model: Model "The model.";
        3 kernel_type_str_resolver: (KernelTypeStrResolver) if resolver_covers_nodes "The arguments that type constraints bind; from version 5.";
    }
    computed {
        0 ort_version: (str) by written_version, "The format's version, a decimal number.";
        2 session_state: (DeprecatedSessionState) by dropped, "Kernel hashes; before version 5.";
    }

    table Model<'a> "A model: a graph, its requirements and metadata." {
        0 ir_version: i64 "ONNX's IR version.";
        1 opset_import: [OperatorSetId] "The version of each domain of operators.";
        2 producer_name: (str) "The tool that made the model.";
        3 producer_version: (str) "That tool's version.";
        4 domain: (str) "The model's namespace in reverse DNS notation.";
        5 model_version: i64 "The version of the model; `i64::MAX` if it was not set.";
        6 doc_string: (str) "Documentation of the model.";
        7 graph: Graph "The graph.";
        8 graph_doc_string: (str) "Documentation of the graph; from version 3.";
        9 metadata_props: [StringStringEntry] "Metadata, in no particular order.";
    }

    table OperatorSetId<'a> "A domain of operators and its version." {
        0 domain: str "Empty for ONNX's own.";
        1 version: i64 "The version in use.";
    }

    table StringStringEntry<'a> "A key and its value." {
        0 key: str "Its name.";
        1 value: str "The text.";
    }

    table Graph<'a> "Values, and the nodes between them. A graph has no name in this format." {
        0 initializers: [Tensor] "Constants, in no particular order; of several with the same name, the last is used.";
        1 node_args: [ValueInfo] "Every value by name, including stale and captured ones.";
        2 nodes: [Node] "Ordered by index, which need not be the order of execution.";
        5 inputs: [str] "All inputs, including initializers that can be overridden.";
        6 outputs: [str] "The results.";
        7 sparse_initializers: [SparseTensor] "Constants that are mostly zero; from version 2.";
        8 runtime_optimizations: (RuntimeOptimizations) "Fusions that a minimal build may replay; a hint.";
    }
    computed {
        3 max_node_index: u32 by node_slots, "A number greater than every node's index.";
        4 node_edges: [NodeEdge] by node_edges, "Edges between nodes, which also follow from names; a hint.";
    }

    table Node<'a> "An operator applied to values. An absent input or output is an empty name." {
        0 name: str "May be empty, and need not be unique.";
        1 doc_string: (str) "Documentation of the node.";
        2 domain: str "The operator's domain; empty for ONNX's own.";
        3 since_version: i32 "The version of the domain that introduced this version of the operator.";
        4 index: u32 "Identifies the node within its graph.";
        5 op_type: str "The operator.";
        6 node_type: NodeType "Primitive.";
        7 execution_provider_type: (str) "The provider it was assigned to when saved; a hint.";
        8 inputs: [str] "The values it reads.";
        9 outputs: [str] "The values it computes.";
        10 attributes: [Attribute] "Its attributes, in no particular order.";
        11 input_arg_counts: [i32] "The number of inputs for each formal parameter.";
        12 implicit_inputs: [str] "The values of outer graphs that its subgraphs capture.";
    }

    table NodeEdge "The edges of one node." {
        0 node_index: u32 "The node.";
        1 input_edges: [EdgeEnd] "Edges from producers of its inputs.";
        2 output_edges: [EdgeEnd] "Edges to consumers of its outputs.";
    }

    table ValueInfo<'a> "A value's name and type." {
        0 name: str "Empty for the value that represents absent arguments.";
        1 doc_string: (str) "Documentation of the value.";
        2 type_info: (TypeInfo) "Its type.";
    }

    table TypeInfo<'a> "The type of a value." {
        0 denotation: (str) "The meaning of the value, such as `IMAGE`.";
        2 value: (TypeInfoValue) "The type; `None` if this version does not know its kind.";
    }
    computed {
        1 value_type: u8 by value_type, "The kind of `value`: 1 tensor, 2 sequence, 3 map.";
    }

    table TensorTypeAndShape<'a> "A tensor's element type and shape." {
        0 elem_type: DataType "The element type.";
        1 shape: (Shape) "`None` if the rank is unknown.";
    }

    table Shape<'a> "A shape; of rank 0 if it has no dimensions." {
        0 dim: [Dimension] "Outermost first.";
    }

    table Dimension<'a> "One dimension." {
        0 value: DimensionValue "Its size: a number, a symbol, or unknown.";
        1 denotation: (str) "Its meaning, such as `DATA_BATCH`.";
    }

    table DimensionValue<'a> "The size of a dimension." {
        0 dim_type: DimensionValueType "Which of the other fields is used.";
        1 dim_value: i64 "Its size.";
        2 dim_param: (str) "A symbol; equal symbols mean equal sizes.";
    }

    table SequenceType<'a> "A sequence's type." {
        0 elem_type: (TypeInfo) "The type of its elements.";
    }

    table MapType<'a> "A map's type." {
        0 key_type: DataType "The type of its keys: an integer or a string.";
        1 value_type: (TypeInfo) "The type of its values.";
    }

    table Tensor<'a> "A constant." {
        0 name: str "The value it initializes; empty in attributes.";
        1 doc_string: (str) "Documentation of the tensor.";
        2 dims: [i64] "Its shape.";
        3 data_type: DataType "The element type.";
        4 raw_data: ([u8]) "The elements, row-major and little-endian, unless they are strings.";
        5 string_data: ([str]) "The elements, if they are strings.";
    }
    computed {
        6 external_data_offset: (i64) by dropped, "Position of the elements of a training checkpoint; never in a model.";
    }

    table SparseTensor<'a> "A constant that is mostly zero." {
        0 values: Tensor "The non-zero elements, `[nnz]`; its name is the constant's.";
        1 indices: Tensor "Their indices, int64: `[nnz]` linear, or `[nnz, rank]`.";
        2 dims: [i64] "The shape of the tensor.";
    }

    table Attribute<'a> "An attribute of a node; `attribute_type` selects the field that holds its value." {
        0 name: str "Its name.";
        1 doc_string: (str) "Documentation of the attribute.";
        2 attribute_type: AttributeType "Which of the other fields holds the value.";
        3 f: f32 "A number.";
        4 i: i64 "An integer.";
        5 s: (str) "A text.";
        6 t: (Tensor) "A tensor.";
        7 g: (Graph) "A sub-graph.";
        8 floats: ([f32]) "Numbers.";
        9 ints: ([i64]) "Integers.";
        10 strings: ([str]) "Texts.";
        11 tensors: ([Tensor]) "Tensors.";
        12 graphs: ([Graph]) "Sub-graphs.";
    }

    table RuntimeOptimizations<'a> "Fusions found when the model was saved, and not applied." {
        0 records: [RuntimeOptimizationRecordContainerEntry] "By optimizer.";
    }

    table RuntimeOptimizationRecordContainerEntry<'a> "The fusions of one optimizer." sorted by optimizer_name {
        0 optimizer_name: str "The optimizer.";
        1 runtime_optimization_records: [RuntimeOptimizationRecord] "In the order of application.";
    }

    table RuntimeOptimizationRecord<'a> "One fusion." {
        0 action_id: str "The action.";
        1 nodes_to_optimize_indices: (NodesToOptimizeIndices) "The nodes that it applies to.";
        3 produced_op_ids: [str] "The operators that replace them, as `domain:name:version`.";
    }
    computed {
        2 produced_nodes: [DeprecatedNodeIndexAndKernelDefHash] by dropped, "Before version 5.";
    }

    table NodesToOptimizeIndices "The nodes of a fusion." {
        0 node_indices: [u32] "Inputs, target, outputs; `u32::MAX` for an optional node that is absent.";
        1 num_inputs: u32 "The number of inputs.";
        2 num_outputs: u32 "The number of outputs.";
        3 has_variadic_input: bool "Whether the last input is variadic.";
        4 has_variadic_output: bool "Whether the last output is variadic.";
        5 num_variadic_inputs: u32 "How many.";
        6 num_variadic_outputs: u32 "How many.";
    }

    table KernelTypeStrResolver<'a> "Which arguments of each operator share a type." {
        0 op_kernel_type_str_args: [OpIdKernelTypeStrArgsEntry] "By operator.";
    }

    table OpIdKernelTypeStrArgsEntry<'a> "The type constraints of one operator." sorted by op_id {
        0 op_id: str "As `domain:name:version`.";
        1 kernel_type_str_args: [KernelTypeStrArgsEntry] "By constraint.";
    }

    table KernelTypeStrArgsEntry<'a> "The arguments that one type constraint binds." sorted by kernel_type_str {
        0 kernel_type_str: str "The constraint, or the parameter's name where it has none.";
        1 args: [ArgTypeAndIndex] "Formal parameters.";
    }

    table ArgTypeAndIndex "A formal parameter." {
        0 arg_type: ArgType "Input or output.";
        1 index: u32 "Which.";
    }

    table Adapter<'a> "A LoRA adapter, a file of its own: values for inputs of a model." {
        0 format_version: i32 "1.";
        1 adapter_version: i32 "The version of the adapter.";
        2 model_version: i32 "The version of the model that it is for.";
        3 parameters: [Parameter] "The values, in no particular order.";
    }

    table Parameter<'a> "The value of an input." {
        0 name: str "The input.";
        1 dims: [i64] "Its shape.";
        2 data_type: DataType "What it holds; no strings.";
        3 raw_data: ([u8]) "Elements, row-major and little-endian.";
    }

    deprecated DeprecatedSessionState "Kernels by hash; before version 5." {
        0 kernels: (DeprecatedKernelCreateInfos) "The kernels of the main graph.";
        1 sub_graph_session_states: [DeprecatedSubGraphSessionState] "Those of its subgraphs.";
    }

    deprecated DeprecatedKernelCreateInfos "The kernel of each node; before version 5." {
        0 node_indices: [u32] "Nodes.";
        1 kernel_def_hashes: [u64] "Their kernels.";
    }

    deprecated DeprecatedSubGraphSessionState "Kernels of a sub-graph; before version 5." {
        0 graph_id: str "The sub-graph.";
        1 session_state: (DeprecatedSessionState) "Its kernels.";
    }

    deprecated DeprecatedNodeIndexAndKernelDefHash "A node that a fusion makes; before version 5." {
        0 node_index: u32 "The node.";
        1 kernel_def_hash: u64 "Its kernel.";
    }
}
