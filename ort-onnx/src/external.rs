//! External data: the files that hold elements, and the byte ranges in them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use bytes::Bytes;

use crate::error::ElementsError;
use crate::schema::{AttributeProto, GraphProto, ModelProto, SparseTensorProto, TensorProto};

/// The external files of a model, by the names that it uses for them.
pub type ExternalFiles = BTreeMap<String, Bytes>;

/// The value of `data_location` for external data.
pub(crate) const EXTERNAL: i32 = 1;

impl TensorProto {
    /// Whether the elements are external.
    pub const fn is_external(&self) -> bool {
        self.data_location == EXTERNAL
    }

    /// The name of the file with the elements: a relative path that stays inside the model's folder.
    ///
    /// # Errors
    /// If there is none, or it may lead out of the folder.
    pub fn location(&self) -> Result<&str, ElementsError> {
        let location = self.entry("location").filter(|location| !location.is_empty());
        let no_location = ElementsError::ExternalKey { key: "location", value: String::new() };
        let location = location.ok_or(no_location)?;
        match is_inside(location) {
            true => Ok(location),
            false => Err(ElementsError::Outside { location: location.to_owned() }),
        }
    }

    /// The elements in an external file: `n_bytes`, unless the model specifies the length.
    pub(crate) fn external_bytes(
        &self,
        files: &ExternalFiles,
        n_bytes: Option<usize>,
    ) -> Result<Bytes, ElementsError> {
        let location = self.location()?;
        let no_file = || ElementsError::NoFile { location: location.to_owned() };
        let file = files.get(location).ok_or_else(no_file)?;
        let offset = self.number("offset")?.unwrap_or(0);
        let len = u64::try_from(file.len()).unwrap_or(u64::MAX);
        let whole = n_bytes.and_then(|n| u64::try_from(n).ok());
        let length = self.number("length")?.or(whole).unwrap_or(len.saturating_sub(offset));
        let end = offset.saturating_add(length);
        let range = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
        match range.filter(|_| end <= len) {
            Some((start, end)) => Ok(file.slice(start..end)),
            None => {
                let location = location.to_owned();
                Err(ElementsError::Range { location, offset, end, len: file.len() })
            }
        }
    }

    fn entry(&self, key: &str) -> Option<&str> {
        let entry = self.external_data.iter().find(|entry| entry.key == key)?;
        Some(&entry.value)
    }

    fn number(&self, key: &'static str) -> Result<Option<u64>, ElementsError> {
        let number = |text: &str| {
            let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse().ok().filter(|_| is_decimal);
            number.ok_or_else(|| ElementsError::ExternalKey { key, value: text.to_owned() })
        };
        self.entry(key).map(number).transpose()
    }
}

/// Whether a path stays inside the folder that it is relative to, on every system.
fn is_inside(location: &str) -> bool {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    let leads_up = location.split(['/', '\\']).any(|part| part == "..");
    !leads_up
        && !location.starts_with('\\')
        && !location.contains('\0')
        && Path::new(location).components().all(is_plain)
}

/// The names of all external files of a model.
///
/// # Errors
/// If one may lead out of the model's folder.
pub fn locations(model: &ModelProto) -> Result<BTreeSet<&str>, ElementsError> {
    let mut found = BTreeSet::new();
    let graph = model.graph.iter();
    graph.into_iter().try_for_each(|graph| in_graph(graph, &mut found))?;
    let nodes = model.functions.iter().flat_map(|function| &function.node);
    let mut attributes = nodes.flat_map(|node| &node.attribute);
    attributes.try_for_each(|attribute| in_attribute(attribute, &mut found))?;
    Ok(found)
}

fn in_graph<'m>(graph: &'m GraphProto, found: &mut BTreeSet<&'m str>) -> Result<(), ElementsError> {
    graph.initializer.iter().try_for_each(|tensor| in_tensor(tensor, found))?;
    graph.sparse_initializer.iter().try_for_each(|sparse| in_sparse(sparse, found))?;
    let mut attributes = graph.node.iter().flat_map(|node| &node.attribute);
    attributes.try_for_each(|attribute| in_attribute(attribute, found))
}

fn in_attribute<'m>(
    attribute: &'m AttributeProto,
    found: &mut BTreeSet<&'m str>,
) -> Result<(), ElementsError> {
    let mut tensors = attribute.t.iter().map(|tensor| &**tensor).chain(&attribute.tensors);
    tensors.try_for_each(|tensor| in_tensor(tensor, found))?;
    attribute.sparse_tensor.iter().try_for_each(|sparse| in_sparse(sparse, found))?;
    let mut graphs = attribute.g.iter().map(|graph| &**graph).chain(&attribute.graphs);
    graphs.try_for_each(|graph| in_graph(graph, found))
}

fn in_sparse<'m>(
    sparse: &'m SparseTensorProto,
    found: &mut BTreeSet<&'m str>,
) -> Result<(), ElementsError> {
    let mut parts = sparse.values.iter().chain(&sparse.indices);
    parts.try_for_each(|tensor| in_tensor(tensor, found))
}

fn in_tensor<'m>(
    tensor: &'m TensorProto,
    found: &mut BTreeSet<&'m str>,
) -> Result<(), ElementsError> {
    if tensor.is_external() {
        found.insert(tensor.location()?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::StringStringEntryProto;

    fn external(entries: &[(&str, &str)]) -> TensorProto {
        let entry = |&(key, value): &(&str, &str)| {
            let (key, value) = (key.to_owned(), value.to_owned());
            StringStringEntryProto { key, value }
        };
        let external_data = entries.iter().map(entry).collect();
        TensorProto { external_data, data_location: EXTERNAL, ..TensorProto::default() }
    }

    #[test]
    fn paths_that_may_lead_out_are_refused() {
        for inside in ["a", "a.data", "a/b", "./a", "a..b/c", "onnx::MatMul_1"] {
            assert_eq!(external(&[("location", inside)]).location(), Ok(inside));
        }
        for outside in
            ["/a", "../a", "a/../../b", "a/..", "..", "\\a", "a\\..\\b", "\\\\host\\a", "a\0b"]
        {
            let location = outside.to_owned();
            let error = Err(ElementsError::Outside { location });
            assert_eq!(external(&[("location", outside)]).location(), error);
        }
        assert!(external(&[("location", "")]).location().is_err());
        assert!(external(&[]).location().is_err());
    }

    #[test]
    fn bytes_are_slices_of_the_file_and_never_more_than_it_has() {
        let files = ExternalFiles::from([("f".to_owned(), Bytes::from_static(b"0123456789"))]);
        let slice = |offset: &str, length: &str| {
            let entries = [("location", "f"), ("offset", offset), ("length", length)];
            let entries: Vec<_> =
                { entries }.into_iter().filter(|(_, it)| !it.is_empty()).collect();
            external(&entries).external_bytes(&files, Some(3))
        };
        assert_eq!(slice("2", "4").unwrap(), "2345");
        assert_eq!(slice("2", "").unwrap(), "234");
        assert_eq!(slice("", "10").unwrap(), "0123456789");
        assert_eq!(slice("10", "0").unwrap(), "");
        for (offset, length) in [("8", "3"), ("8", ""), ("11", "0"), ("18446744073709551615", "2")]
        {
            let error = slice(offset, length).unwrap_err();
            assert!(matches!(error, ElementsError::Range { len: 10, .. }), "{error}");
        }
        for (offset, length) in
            [("-1", "3"), ("x", "3"), ("1", "+3"), ("1", "18446744073709551616")]
        {
            let error = slice(offset, length).unwrap_err();
            assert!(matches!(error, ElementsError::ExternalKey { .. }), "{error}");
        }
        let other = external(&[("location", "g")]).external_bytes(&files, None).unwrap_err();
        assert_eq!(other.to_string(), "external data: there is no file `g`");
    }
}
