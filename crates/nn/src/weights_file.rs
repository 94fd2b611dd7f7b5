//! Weights by name from a `safetensors` file of any program, and what it takes to use them here.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors};

use crate::{Error, LayerInfo, Shape};

/// Whose names and layouts a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Ours: what [`crate::model_file`] describes.
    Own,
    /// PyTorch's: weights by output, then input; images by channel, then row and column.
    PyTorch,
}

/// The arrays of a file.
#[derive(Debug)]
pub struct WeightsFile {
    path: PathBuf,
    arrays: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    /// Whether it is a model file of ours.
    pub is_own: bool,
    metadata: HashMap<String, String>,
}

impl WeightsFile {
    /// Reads all arrays of numbers; whole ones, such as counters, are left out.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let wrong =
            |found: String| Error::ModelFile { path: path.to_owned(), expected: "a `safetensors` file".into(), found };
        let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let (_, metadata) = SafeTensors::read_metadata(&bytes).map_err(|error| wrong(error.to_string()))?;
        let metadata = metadata.metadata().clone().unwrap_or_default();
        let is_own = metadata.contains_key("network");
        let file = SafeTensors::deserialize(&bytes).map_err(|error| wrong(error.to_string()))?;
        let mut arrays = BTreeMap::new();
        for (name, array) in file.tensors() {
            let data = array.data();
            let values: Vec<f32> = match array.dtype() {
                Dtype::F32 => data.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
                Dtype::F64 => {
                    let wide = |b: &[u8]| f64::from_le_bytes(b.try_into().expect("eight bytes")) as f32;
                    data.chunks_exact(8).map(wide).collect()
                }
                Dtype::BF16 => data
                    .chunks_exact(2)
                    .map(|b| f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16))
                    .collect(),
                Dtype::F16 => data.chunks_exact(2).map(|b| half(u16::from_le_bytes([b[0], b[1]]))).collect(),
                _ => continue,
            };
            arrays.insert(name, (array.shape().to_vec(), values));
        }
        Ok(Self { path: path.to_owned(), arrays, is_own, metadata })
    }

    /// The names of its arrays.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.arrays.keys().map(String::as_str)
    }

    /// The text that a model file of ours keeps under this key.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Numbers for a parameter of a layer that the file calls `prefix`, in our order, and the arrays that they are from; none if it
    /// has none, or of another shape.
    pub fn find(
        &self,
        layout: Layout,
        prefix: &str,
        layer: &LayerInfo,
        parameter: &str,
        shape: &[usize],
    ) -> Option<(Vec<f32>, Vec<String>)> {
        let named = |own: &str| if prefix.is_empty() { own.to_owned() } else { format!("{prefix}.{own}") };
        let get = |own: &str| {
            let name = named(own);
            self.arrays.get(&name).map(|(shape, values)| (name, &shape[..], &values[..]))
        };
        let count: usize = shape.iter().product();
        let plain = |own: &str| {
            let (name, found, values) = get(own)?;
            (found == shape || (found.len() == 1 && values.len() == count)).then(|| (values.to_vec(), vec![name]))
        };
        if layout == Layout::Own {
            return plain(parameter);
        }
        match (layer.kind, parameter) {
            ("batch_norm" | "layer_norm", "gain") => plain("weight"),
            ("batch_norm" | "layer_norm", "shift") => plain("bias"),
            ("batch_norm", "mean") => plain("running_mean"),
            ("batch_norm", "variance") => plain("running_var"),
            ("prelu", "alpha") => plain("weight"),
            ("simple_rnn" | "lstm" | "gru", _) => {
                let (suffix, own) = match parameter.strip_prefix("reverse_") {
                    Some(own) => ("_reverse", own),
                    None => ("", parameter),
                };
                let matrix = |own: String| {
                    let (name, found, values) = get(&own)?;
                    (found == [shape[1], shape[0]]).then(|| (transposed(values, found), vec![name]))
                };
                match own {
                    "weight" => matrix(format!("weight_ih_l0{suffix}")),
                    "recurrent_weight" => matrix(format!("weight_hh_l0{suffix}")),
                    "bias" => {
                        let [(one, _, by_x), (two, _, by_h)] =
                            [get(&format!("bias_ih_l0{suffix}"))?, get(&format!("bias_hh_l0{suffix}"))?];
                        Some((biases(layer.kind, by_x, by_h).filter(|biases| biases.len() == count)?, vec![one, two]))
                    }
                    _ => None,
                }
            }
            (_, "weight") => {
                let (name, found, values) = get("weight")?;
                let values = match (found, shape) {
                    // Images lie by channel there and by pixel here.
                    ([outputs, inputs], [own_inputs, units])
                        if inputs == own_inputs && outputs == units && layer.kind != "embedding" =>
                    {
                        by_pixel(&transposed(values, found), layer.input, *outputs)
                    }
                    ([a, b, height, width], [own_height, own_width, own_b, own_a])
                        if [a, b, height, width] == [own_a, own_b, own_height, own_width] =>
                    {
                        kernels(values, found)
                    }
                    ([a, b, steps], [own_steps, 1, own_b, own_a]) if [a, b, steps] == [own_a, own_b, own_steps] => {
                        kernels(values, &[found[0], found[1], *steps, 1])
                    }
                    (found, shape) if found == shape => values.to_vec(),
                    _ => return None,
                };
                Some((values, vec![name]))
            }
            (_, own) => plain(own),
        }
    }
}

/// Half precision.
fn half(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff));
    match exponent {
        0 => sign * fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
    }
}

/// Rows become columns.
fn transposed(values: &[f32], shape: &[usize]) -> Vec<f32> {
    let (rows, columns) = (shape[0], shape[1]);
    (0..columns).flat_map(|column| (0..rows).map(move |row| values[row * columns + column])).collect()
}

/// Rows of a matrix that belong to channel, row, column of an image, in the order of row, column, channel.
fn by_pixel(values: &[f32], input: Shape, columns: usize) -> Vec<f32> {
    let Shape::Image { height, width, channels } = input else { return values.to_vec() };
    let pixels = height * width;
    if values.len() != pixels * channels * columns {
        return values.to_vec();
    }
    let row = |at: usize| &values[(at % channels * pixels + at / channels) * columns..][..columns];
    (0..pixels * channels).flat_map(row).copied().collect()
}

/// From (a, b, row, column) to (row, column, b, a).
fn kernels(values: &[f32], shape: &[usize]) -> Vec<f32> {
    let &[a, b, height, width] = shape else { unreachable!("four dimensions") };
    let cell = move |cell: usize| {
        (0..b).flat_map(move |b_at| (0..a).map(move |a_at| (a_at * b + b_at) * height * width + cell))
    };
    (0..height * width).flat_map(cell).map(|at| values[at]).collect()
}

/// Of both sides of a recurrent layer: a GRU keeps that of what it proposes apart.
fn biases(kind: &str, by_x: &[f32], by_h: &[f32]) -> Option<Vec<f32>> {
    if by_x.len() != by_h.len() {
        return None;
    }
    let sum = by_x.iter().zip(by_h).map(|(x, h)| x + h);
    if kind != "gru" {
        return Some(sum.collect());
    }
    let units = by_x.len() / 3;
    let (x_new, h_new) = (&by_x[2 * units..], &by_h[2 * units..]);
    Some(sum.take(2 * units).chain(x_new.iter().copied()).chain(h_new.iter().copied()).collect())
}

#[cfg(test)]
mod tests {
    use super::{biases, half, kernels, transposed};

    #[test]
    fn numbers_come_to_lie_as_they_do_here() {
        assert_eq!(transposed(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        // Two filters over one channel of 1 × 2 pixels.
        assert_eq!(kernels(&[1.0, 2.0, 3.0, 4.0], &[2, 1, 1, 2]), [1.0, 3.0, 2.0, 4.0]);
        assert_eq!(biases("gru", &[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]), Some(vec![11.0, 22.0, 3.0, 30.0]));
        assert_eq!(biases("lstm", &[1.0], &[10.0]), Some(vec![11.0]));
        for (bits, value) in
            [(0x3c00, 1.0), (0xc000, -2.0), (0x3555, 0.333_251_95), (0x0001, 5.960_464_5e-8), (0x7bff, 65504.0)]
        {
            assert_eq!(half(bits), value);
        }
        assert!(half(0x7e00).is_nan() && half(0xfc00) == f32::NEG_INFINITY);
    }
}
