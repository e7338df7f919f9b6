//! Types of values.

use super::path::Path;
use super::{Checker, each};
use crate::enums::{DataType, DimensionValueType};
use crate::error::{Fault, FormatError};
use crate::type_info::TypeInfoValue;
use crate::view::{TensorTypeAndShape, TypeInfo};

impl Checker<'_> {
    pub(super) fn type_info(
        &mut self,
        info: TypeInfo<'_>,
        path: &Path<'_>,
    ) -> Result<(), FormatError> {
        match info.value() {
            Some(TypeInfoValue::Tensor(tensor)) => self.tensor_type(tensor, path),
            Some(TypeInfoValue::Sequence(sequence)) => self.element(sequence.elem_type(), path),
            Some(TypeInfoValue::Map(map)) => {
                self.data_type(map.key_type(), path);
                self.element(map.value_type(), path)
            }
            None => {
                if info.value_type() != 0 {
                    self.unknown(path, "value_type", info.value_type());
                }
                Ok(())
            }
        }
    }

    fn element(&mut self, info: Option<TypeInfo<'_>>, path: &Path<'_>) -> Result<(), FormatError> {
        match info {
            Some(info) => self.type_info(info, path),
            None => path.fail(Fault::Missing { field: "element type" }),
        }
    }

    fn tensor_type(
        &mut self,
        tensor: TensorTypeAndShape<'_>,
        path: &Path<'_>,
    ) -> Result<(), FormatError> {
        self.data_type(tensor.elem_type(), path);
        let dims = tensor.shape().unwrap_or_default().dim();
        each(path, "dim", dims)?;
        for dimension in dims {
            if let DimensionValueType::Other(value) = dimension.value().dim_type() {
                self.unknown(path, "dim_type", value);
            }
        }
        Ok(())
    }

    fn data_type(&mut self, data_type: DataType, path: &Path<'_>) {
        if let DataType::Other(value) = data_type {
            self.unknown(path, "elem_type", value);
        }
    }
}
