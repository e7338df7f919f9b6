//! Runs whose outputs hold the inputs that they extend, and whose inputs have room, filled with NaN.

use ort_ep::{Extension, Io, Kernel};
use ort_tensor::{AlignedBuf, GrowingTensor, Inputs, Output, Tensor, ValueView};

use super::{Case, Kind, StdThreads, bits};

/// Entries of room.
const ROOM: usize = 3;

impl Case {
    /// Checks that results are the same for outputs that extend an input in place, and for inputs with spare capacity.
    /// What the past has behind what is new may stay.
    pub(super) fn check_growing(&self, kernel: &dyn Kernel, made: &[Tensor], what: &str) {
        let extensions = kernel.extensions();
        let extensions = extensions.iter().filter(|extension| {
            let is_wanted =
                extension.output < made.len() && !self.unwanted.contains(&extension.output);
            is_wanted && self.given(extension.input).is_some()
        });
        let extensions: Vec<&Extension> = extensions.collect();
        let has_room = |&(input, axis): &(usize, usize)| kernel.reads_room(input, axis);
        let axes = (0..self.inputs.len()).flat_map(|input| {
            self.given(input)
                .into_iter()
                .flat_map(move |x| (1..x.shape().len()).map(move |axis| (input, axis)))
        });
        let roomy: Vec<_> = axes.filter(has_room).collect();
        if extensions.is_empty() && roomy.is_empty() {
            return;
        }
        for room in [0, ROOM] {
            let mut held: Vec<_> = extensions
                .iter()
                .map(|extension| {
                    let len = made[extension.output].shape()[extension.axis];
                    self.growing(extension.input, extension.axis, (len + room) * room.min(1))
                })
                .collect();
            let found = self.run_growing(kernel, made, (&extensions, &mut held), &roomy);
            let is_extended = |i: usize| extensions.iter().any(|extension| extension.output == i);
            for i in (0..made.len()).filter(|i| !self.unwanted.contains(i) && !is_extended(*i)) {
                assert_eq!(bits(&found[i..=i]), bits(&made[i..=i]), "output {i}, extended: {what}");
            }
            for (extension, growing) in extensions.iter().zip(held) {
                let past = self.growing(extension.input, extension.axis, 0);
                let like = &made[extension.output];
                compare([growing, past], like, &format!("output {}: {what}", extension.output));
            }
        }
    }

    /// An input that is no constant.
    fn given(&self, input: usize) -> Option<&Tensor> {
        let given = self.inputs.get(input)?.as_ref();
        given.filter(|(_, kind)| matches!(kind, Kind::Given)).map(|(tensor, _)| tensor)
    }

    /// An input with room for `len` entries, and NaN in it.
    fn growing(&self, input: usize, axis: usize, len: usize) -> GrowingTensor {
        let (x, _) = self.inputs[input].as_ref().unwrap();
        let (n, mut shape) = (x.shape()[axis], x.shape().to_vec());
        let mut growing = GrowingTensor::new(x.clone(), axis).unwrap();
        growing.reserve(len).unwrap();
        shape[axis] = len.max(n);
        let view = growing.extend(x.dtype(), &shape).unwrap();
        let n_rows: usize = shape[..axis].iter().product();
        let old = x.n_bytes() / n_rows.max(1);
        let bytes = view.into_bytes().unwrap();
        let row = (bytes.len() / n_rows.max(1)).max(1);
        bytes.chunks_exact_mut(row).for_each(|row| row[old..].fill(0xff));
        growing.truncate(n);
        growing
    }

    fn run_growing(
        &self,
        kernel: &dyn Kernel,
        made: &[Tensor],
        (extensions, held): (&[&Extension], &mut [GrowingTensor]),
        roomy: &[(usize, usize)],
    ) -> Vec<Tensor> {
        let shapes = self.shapes();
        let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
        let prepared = kernel.prepare(&shapes).unwrap();
        let mut scratch = AlignedBuf::zeroed(prepared.scratch_bytes);
        let with_room = roomy.iter().map(|&(input, axis)| {
            let len = shapes[input][axis];
            (input, self.growing(input, axis, len + ROOM))
        });
        let with_room: Vec<_> = with_room.collect();
        let released = self.released();
        let mut views: Vec<_> = self.views().collect();
        for (input, growing) in &with_room {
            views[*input] = Some(ValueView::Tensor(growing.with_room()));
        }
        for extension in extensions {
            let released = released[extension.input].as_ref().unwrap();
            views[extension.input] = Some(ValueView::Tensor(released.view()));
        }
        let mut found: Vec<Tensor> = made.iter().map(super::garbage).collect();
        let mut outputs: Vec<_> = found.iter_mut().map(|y| Output::planned(y.view_mut())).collect();
        self.unwanted.iter().for_each(|&i| outputs[i] = Output::unwanted());
        for (extension, growing) in extensions.iter().zip(held) {
            outputs[extension.output] = Output::growing(growing, extension.input);
        }
        let (inputs, threads) = (Inputs::new(&views), &StdThreads(2));
        let mut io = Io { inputs, outputs: &mut outputs, scratch: scratch.as_mut(), threads };
        kernel.run(&prepared, &mut io).unwrap();
        drop(outputs);
        found
    }
}

/// That each byte is that of `made`, or of what was there before.
fn compare([found, past]: [GrowingTensor; 2], made: &Tensor, what: &str) {
    let axis = found.axis();
    let row = |x: &Tensor| x.n_bytes() / x.shape()[..axis].iter().product::<usize>().max(1);
    let [found, past] = [found, past].map(|growing| growing.to_tensor().unwrap());
    assert_eq!(found.shape(), made.shape(), "{what}");
    let [of_past, of_made] = [row(&past), row(made).max(1)];
    let tensors = [found, past, made.clone()];
    let [found, past, made] = &bits(&tensors)[..] else { return };
    for (i, (x, y)) in found.iter().zip(*made).enumerate() {
        let (row, at) = (i / of_made, i % of_made);
        let is_left = at < of_past && past[row * of_past + at] == *x;
        assert!(x == y || is_left, "byte {i}, extended: {what}");
    }
}
