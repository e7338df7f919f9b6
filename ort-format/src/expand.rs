//! The expansion of the schema: views that read a file in place with its verifier, and records with their writer.

/// The type of a field in a view.
macro_rules! view_type {
    ($a:lifetime str) => { &$a str };
    ($a:lifetime [u8]) => { &$a [u8] };
    ($a:lifetime [$element:tt]) => { Vector<$a, view_type!($a $element)> };
    ($a:lifetime ($optional:tt)) => { Option<view_type!($a $optional)> };
    ($a:lifetime $leaf:ident) => { leaf!($a $leaf) };
}

/// The type a field has in a record.
macro_rules! record_type {
    ($a:lifetime str) => { Cow<$a, str> };
    ($a:lifetime [u8]) => { Cow<$a, [u8]> };
    ($a:lifetime [$element:tt]) => { Vec<record_type!($a $element)> };
    ($a:lifetime ($optional:tt)) => { Option<record_type!($a $optional)> };
    // Tables without strings borrow nothing.
    ($a:lifetime ArgTypeAndIndex) => { ArgTypeAndIndex };
    ($a:lifetime NodeEdge) => { NodeEdge };
    ($a:lifetime NodesToOptimizeIndices) => { NodesToOptimizeIndices };
    ($a:lifetime $leaf:ident) => { leaf!($a $leaf) };
}

/// The type of anything but a vector, string or option: a scalar, or the table with that name in the current module.
macro_rules! leaf {
    ($a:lifetime bool) => { bool };
    ($a:lifetime u8) => { u8 };
    ($a:lifetime i32) => { i32 };
    ($a:lifetime u32) => { u32 };
    ($a:lifetime i64) => { i64 };
    ($a:lifetime u64) => { u64 };
    ($a:lifetime f32) => { f32 };
    ($a:lifetime DataType) => { DataType };
    ($a:lifetime AttributeType) => { AttributeType };
    ($a:lifetime NodeType) => { NodeType };
    ($a:lifetime DimensionValueType) => { DimensionValueType };
    ($a:lifetime ArgType) => { ArgType };
    ($a:lifetime EdgeEnd) => { EdgeEnd };
    ($a:lifetime $Table:ident) => { $Table<$a> };
}

macro_rules! schema {
    (
        $(
            table $Table:ident $(<$a:lifetime>)? $doc:literal $(sorted by $key:ident)? {
                $($id:literal $field:ident: $ty:tt $(if $condition:ident)? $field_doc:literal;)*
            }
            $(computed {
                $($computed_id:literal $computed:ident: $computed_ty:tt by $by:ident, $computed_doc:literal;)*
            })?
        )*
        $(
            deprecated $Old:ident $old_doc:literal { $($old_id:literal $old:ident: $old_ty:tt $old_field_doc:literal;)* }
        )*
    ) => {
        /// Tables in a file: `Copy`, borrowed from its bytes. Accessors never fail, whatever the bytes are.
        pub(crate) mod view {
            use flatbuffers::{ForwardsUOffset, InvalidFlatbuffer, Verifiable, Verifier};

            use crate::edge::EdgeEnd;
            use crate::enums::{ArgType, AttributeType, DataType, DimensionValueType, NodeType};
            use crate::type_info::TypeInfoValue;
            use crate::wire::{Element, Field, Position, Vector, count_visit};

            $(view! {
                $doc $Table {
                    $($id $field: $ty $field_doc;)*
                    $($($computed_id $computed: $computed_ty $computed_doc;)*)?
                }
            })*
            $(view! { $old_doc $Old { $($old_id $old: $old_ty $old_field_doc;)* } })*
        }

        /// The same tables for writing: owned or borrowed, without computed fields.
        pub mod record {
            use std::borrow::Cow;

            use super::view;
            use crate::computed;
            pub use crate::attribute::record::AttributeValue;
            use crate::edge::EdgeEnd;
            use crate::enums::{ArgType, AttributeType, DataType, DimensionValueType, NodeType};
            use crate::put::{Fill, Item, Offset, Put, Writer};
            use crate::to_record::ToRecord;
            pub use crate::type_info::record::TypeInfoValue;
            use crate::wire::slot_of;

            $(
                record! { $doc $Table [$($a)?] { $($field: $ty $field_doc;)* } }

                impl<'a> view::$Table<'a> {
                    /// The table as a record; strings and tensors stay borrowed.
                    pub fn to_record(self) -> record_type!('a $Table) {
                        $Table { $($field: ToRecord::to_record(self.$field()),)* }
                    }
                }

                impl<'a> ToRecord for view::$Table<'a> {
                    type Record = record_type!('a $Table);
                    fn to_record(self) -> Self::Record {
                        self.to_record()
                    }
                }

                impl Put for record_type!('_ $Table) {
                    type Slot = Offset;

                    fn put(&self, writer: &mut Writer<'_>) -> Offset {
                        if !writer.goes_on() {
                            return Offset::default();
                        }
                        $(
                            let $field = (true $(&& computed::$condition(self))?)
                                .then(|| self.$field.put(writer));
                        )*
                        $($(let $computed = computed::$by(self).put(writer);)*)?
                        let table = writer.start_table();
                        $($field.fill(writer, slot_of($id));)*
                        $($($computed.fill(writer, slot_of($computed_id));)*)?
                        writer.end_table(table)
                    }
                }

                impl Item for record_type!('_ $Table) {
                    fn put_all(items: &[Self], writer: &mut Writer<'_>) -> Offset {
                        let order: Vec<&Self> = items.iter().collect();
                        $(let order = { let mut order = order; order.sort_by(|a, b| a.$key.cmp(&b.$key)); order };)?
                        let offsets: Vec<Offset> = order.into_iter().map(|item| item.put(writer)).collect();
                        writer.references(&offsets)
                    }
                }
            )*
        }
    };
}

/// One record.
macro_rules! record {
    ($doc:literal $Table:ident [$a:lifetime] { $($field:ident: $ty:tt $field_doc:literal;)* }) => {
        #[doc = $doc]
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $Table<$a> {
            $(#[doc = $field_doc] pub $field: record_type!($a $ty),)*
        }
    };
    ($doc:literal $Table:ident [] { $($field:ident: $ty:tt $field_doc:literal;)* }) => {
        #[doc = $doc]
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $Table {
            $(#[doc = $field_doc] pub $field: record_type!('static $ty),)*
        }
    };
}

/// One table read in place: its accessors and its verifier.
macro_rules! view {
    ($doc:literal $Table:ident { $($id:literal $field:ident: $ty:tt $field_doc:literal;)* }) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $Table<'a>(Position<'a>);

        impl<'a> $Table<'a> {
            $(
                #[doc = $field_doc]
                pub fn $field(self) -> view_type!('a $ty) {
                    Field::get(self.0, $id)
                }
            )*

            /// Whether the table is present; an absent one reads as empty.
            pub fn is_present(self) -> bool {
                self.0.is_present()
            }
        }

        impl<'a> Element<'a> for $Table<'a> {
            type Wire = ForwardsUOffset<$Table<'a>>;
            const IS_REFERENCE: bool = true;
            fn read(at: Position<'a>) -> Option<Self> {
                at.follow().map(Self)
            }
        }

        impl Verifiable for $Table<'_> {
            fn run_verifier(verifier: &mut Verifier<'_, '_>, at: usize) -> Result<(), InvalidFlatbuffer> {
                count_visit()?;
                let table = verifier.visit_table(at)?;
                $(let table = <view_type!('static $ty)>::verify(table, stringify!($field), $id)?;)*
                table.finish();
                Ok(())
            }
        }
    };
}
