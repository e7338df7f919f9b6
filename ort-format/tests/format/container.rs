//! Bytes that are not an ORT model of a supported version, and unusual ones that are.

use ort_format::{Limits, open, write};

use crate::models;

fn message(bytes: &[u8]) -> String {
    match open(bytes, &Limits::default()) {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn other_files_are_distinguished() {
    let cases: [(&[u8], &str); 8] = [
        (b"", "the file is empty"),
        (b"ORT", "the file has 3 bytes, too few for an ORT model"),
        (b"\x20\0\0\0ORTM", "the file has 8 bytes, too few for an ORT model"),
        (b"\x08\x07\x12\x07pytorch", "this is an ONNX protobuf, not an ORT model: convert it"),
        (b"\x08\x08:", "this is an ONNX protobuf, not an ORT model: convert it"),
        (
            b"\x89PNG\r\n\x1a\n____",
            r#"not an ORT model: the identifier is "\\r\\n\\x1a\\n", not "ORTM""#,
        ),
        (b"\xff\xff\xff\xffORTM____", "file: byte 4294967295 is misaligned"),
        (b"\0\0\0\0ORTM____", "file: no ort_version"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(message(bytes), expected, "{}", bytes.escape_ascii());
    }
}

#[test]
fn versions_up_to_6_or_not_a_number_are_supported() {
    let bytes = write(&models::conv_relu()).unwrap();
    for (text, version, expected) in [
        (b'0', Some(0), "ok"),
        (b'5', Some(5), "ok"),
        (b'6', Some(6), "ok"),
        (b'x', None, "ok"),
        (b'7', None, "the file is of version 7; versions up to 6 are supported"),
    ] {
        let mut bytes = bytes.clone();
        let at = open(&bytes, &Limits::default()).unwrap().ort_version().unwrap();
        let at = at.as_ptr().addr() - bytes.as_ptr().addr();
        bytes[at] = text;
        assert_eq!(message(&bytes), expected);
        assert_eq!(open(&bytes, &Limits::default()).ok().and_then(|file| file.version()), version);
    }
}

#[test]
fn a_newer_version_is_reported_even_with_another_layout() {
    let mut bytes = write(&models::conv_relu()).unwrap();
    let offset = |text: &[u8]| bytes.windows(text.len()).position(|window| window == text).unwrap();
    let (version, name) = (offset(b"\x01\0\0\x006\0"), offset(b"conv\0"));
    bytes[version + 4] = b'9';
    // A string of four gigabytes: no table that contains it can be verified.
    bytes[name - 4..name].fill(0xff);
    assert_eq!(message(&bytes), "the file is of version 9; versions up to 6 are supported");
}

#[test]
fn bytes_after_the_end_are_ignored() {
    let mut bytes = write(&models::conv_relu()).unwrap();
    bytes.extend_from_slice(b"trailing");
    assert_eq!(message(&bytes), "ok");
}
