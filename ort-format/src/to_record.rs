//! Conversion of views into records.

use std::borrow::Cow;

use crate::edge::EdgeEnd;
use crate::enums::{ArgType, AttributeType, DataType, DimensionValueType, NodeType};
use crate::wire::{Element, Vector};

/// A view with a corresponding record.
pub(crate) trait ToRecord {
    type Record;
    fn to_record(self) -> Self::Record;
}

macro_rules! same {
    ($($same:ident)*) => {$(
        impl ToRecord for $same {
            type Record = $same;
            fn to_record(self) -> $same {
                self
            }
        }
    )*};
}
same! { bool i32 u32 i64 f32 DataType AttributeType NodeType DimensionValueType ArgType EdgeEnd }

impl<'a> ToRecord for &'a str {
    type Record = Cow<'a, str>;
    fn to_record(self) -> Cow<'a, str> {
        Cow::Borrowed(self)
    }
}

impl<'a> ToRecord for &'a [u8] {
    type Record = Cow<'a, [u8]>;
    fn to_record(self) -> Cow<'a, [u8]> {
        Cow::Borrowed(self)
    }
}

impl<T: ToRecord> ToRecord for Option<T> {
    type Record = Option<T::Record>;
    fn to_record(self) -> Self::Record {
        self.map(T::to_record)
    }
}

impl<'a, T: ToRecord + Element<'a>> ToRecord for Vector<'a, T> {
    type Record = Vec<T::Record>;
    fn to_record(self) -> Self::Record {
        self.iter().map(T::to_record).collect()
    }
}
