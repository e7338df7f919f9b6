//! Files built slot by slot, with content that the writer never produces but the reader must handle.

use flatbuffers::{FlatBufferBuilder, TableFinishedWIPOffset, WIPOffset};
use ort_format::{Limits, Oddity, open, open_with_warnings};

type Builder = FlatBufferBuilder<'static>;
type Table = WIPOffset<TableFinishedWIPOffset>;

/// The position of field `id` in a vtable.
pub(crate) fn slot(id: u16) -> u16 {
    4 + 2 * id
}

/// A file of version 4 with this graph, and with what `fill` adds to the root table.
pub(crate) fn finish(mut builder: Builder, graph: Table, fill: impl Fn(&mut Builder)) -> Vec<u8> {
    let version = builder.create_string("4");
    let table = builder.start_table();
    builder.push_slot_always(slot(7), graph);
    let model = builder.end_table(table);
    let table = builder.start_table();
    builder.push_slot_always(slot(0), version);
    builder.push_slot_always(slot(1), model);
    fill(&mut builder);
    let file = builder.end_table(table);
    builder.finish(file, Some("ORTM"));
    builder.finished_data().to_vec()
}

/// A table with one field.
fn wrap(builder: &mut Builder, id: u16, value: impl flatbuffers::Push) -> Table {
    let table = builder.start_table();
    builder.push_slot_always(slot(id), value);
    builder.end_table(table)
}

#[test]
fn kernel_hashes_of_old_files_can_be_read() {
    let mut builder = Builder::new();
    let graph = wrap(&mut builder, 3, 0_u32);
    let nodes = builder.create_vector(&[3_u32, 5]);
    let hashes = builder.create_vector(&[u64::MAX, 7]);
    let table = builder.start_table();
    builder.push_slot_always(slot(0), nodes);
    builder.push_slot_always(slot(1), hashes);
    let kernels = builder.end_table(table);
    let inner = wrap(&mut builder, 0, kernels);
    let graph_id = builder.create_string("0_then_branch");
    let table = builder.start_table();
    builder.push_slot_always(slot(0), graph_id);
    builder.push_slot_always(slot(1), inner);
    let sub_graph = builder.end_table(table);
    let sub_graphs = builder.create_vector(&[sub_graph]);
    let state = wrap(&mut builder, 1, sub_graphs);
    let bytes = finish(builder, graph, |builder| builder.push_slot_always(slot(2), state));

    let file = open(&bytes, &Limits::default()).unwrap();
    let state = file.session_state().unwrap();
    assert!(state.kernels().is_none());
    let sub_graph = state.sub_graph_session_states().get(0).unwrap();
    assert_eq!(sub_graph.graph_id(), "0_then_branch");
    let kernels = sub_graph.session_state().unwrap().kernels().unwrap();
    assert_eq!(kernels.node_indices().iter().collect::<Vec<_>>(), [3, 5]);
    assert_eq!(kernels.kernel_def_hashes().iter().collect::<Vec<_>>(), [u64::MAX, 7]);
}

#[test]
fn data_outside_the_file_is_refused() {
    let mut builder = Builder::new();
    let dims = builder.create_vector(&[2_i64]);
    let table = builder.start_table();
    builder.push_slot_always(slot(2), dims);
    builder.push_slot_always(slot(3), 1_i32);
    builder.push_slot_always(slot(6), 4096_i64);
    let tensor = builder.end_table(table);
    let tensors = builder.create_vector(&[tensor]);
    let graph = wrap(&mut builder, 0, tensors);
    let bytes = finish(builder, graph, |_| {});
    assert_eq!(
        open(&bytes, &Limits::default()).unwrap_err().to_string(),
        "graph.initializers[0]: its data is external, at offset 4096; an ORT model must contain its data"
    );
}

#[test]
fn a_type_of_unknown_kind_reads_as_none() {
    let mut builder = Builder::new();
    let name = builder.create_string("x");
    let unknown = wrap(&mut builder, 0, 1_u8);
    let table = builder.start_table();
    builder.push_slot_always(slot(1), 4_u8);
    builder.push_slot_always(slot(2), unknown);
    let info = builder.end_table(table);
    let table = builder.start_table();
    builder.push_slot_always(slot(0), name);
    builder.push_slot_always(slot(2), info);
    let value = builder.end_table(table);
    let values = builder.create_vector(&[value]);
    let graph = wrap(&mut builder, 1, values);
    let bytes = finish(builder, graph, |_| {});

    let (file, warnings) = open_with_warnings(&bytes, &Limits::default()).unwrap();
    let info = file.model().graph().node_args().get(0).unwrap().type_info().unwrap();
    assert!(info.value().is_none());
    assert_eq!(info.value_type(), 4);
    assert_eq!(warnings[0].oddity, Oddity::UnknownValue { field: "value_type", value: 4 });
}

#[test]
fn an_empty_vector_need_not_be_aligned() {
    // The C++ builder does not align the start of an empty vector. Here it would be four bytes before the end.
    let mut builder = Builder::new();
    builder.push(0_u32);
    builder.start_vector::<u32>(0);
    let dims = builder.end_vector::<u32>(0);
    let raw_data = builder.create_vector(&[1_u8]);
    let table = builder.start_table();
    builder.push_slot_always(slot(2), dims);
    builder.push_slot_always(slot(3), 2_i32);
    builder.push_slot_always(slot(4), raw_data);
    builder.push_slot_always(slot(6), -1_i64);
    let tensor = builder.end_table(table);
    let tensors = builder.create_vector(&[tensor]);
    let graph = wrap(&mut builder, 0, tensors);
    let bytes = finish(builder, graph, |_| {});
    assert_eq!((bytes.len() - 4) % 8, 4);
    assert!(open(&bytes, &Limits::default()).is_ok());
}
