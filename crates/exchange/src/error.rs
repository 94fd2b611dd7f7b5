use crate::Form;

/// Why an update could not be encoded, or why a setting makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A buffer with more elements than a message can count.
    #[error("the residual has {found} elements, but a message counts at most {}", u32::MAX)]
    TooManyElements {
        /// Its length.
        found: usize,
    },
    /// An update for another network.
    #[error("the update has {found} elements, but the residual has {expected}")]
    WrongLength {
        /// Elements of the residual.
        expected: usize,
        /// Elements of the update.
        found: usize,
    },
    /// A threshold that nothing can be compared with.
    #[error("the threshold is {found}: expected a finite number above 0")]
    BadThreshold {
        /// The threshold given.
        found: f32,
    },
    /// An element that is NaN or infinite.
    #[error("element {index} of the {buffer} is {found}: expected a finite number")]
    NotFinite {
        /// Which buffer it is in: the update, or the residual after the update was added.
        buffer: &'static str,
        /// Its index.
        index: usize,
        /// What it is.
        found: f32,
    },
    /// A setting with a value that makes no sense.
    #[error("`{setting}`: expected {expected}, found {found}")]
    BadSetting {
        /// The setting.
        setting: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it is.
        found: f64,
    },
}

/// Why bytes are no message, or not one for these parameters. Parameters are untouched whenever it is returned.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MessageError {
    /// Fewer bytes than a header has.
    #[error("the message has {found} bytes, but its header alone has {expected}")]
    NoHeader {
        /// Bytes of a header.
        expected: usize,
        /// Bytes of the message.
        found: usize,
    },
    /// A message of another version.
    #[error("the message has version {found}, but this program reads version {expected}")]
    UnknownVersion {
        /// The version that we read.
        expected: u8,
        /// The version that it has.
        found: u8,
    },
    /// A form that does not exist.
    #[error("the message has form {found}, expected 0 (sparse), 1 (bitmap) or 2 (dense)")]
    UnknownForm {
        /// The form byte.
        found: u8,
    },
    /// Something in a byte that must be 0.
    #[error("byte 3 of the message is {found}, expected 0")]
    NotReserved {
        /// The byte.
        found: u8,
    },
    /// A Rice parameter that the form has not.
    #[error("the {form} message has Rice parameter {found}, expected at most {expected}")]
    BadRiceParameter {
        /// The form of the message.
        form: Form,
        /// The largest that the form has.
        expected: u8,
        /// The parameter.
        found: u8,
    },
    /// A threshold that the form has not.
    #[error("the {form} message has threshold {found}, expected {expected}")]
    BadThreshold {
        /// The form of the message.
        form: Form,
        /// What it may be.
        expected: &'static str,
        /// The threshold.
        found: f32,
    },
    /// More sent elements than there are, or fewer in a dense message.
    #[error("the {form} message says that {found} of {elements} elements were sent")]
    BadSentCount {
        /// The form of the message.
        form: Form,
        /// Elements that it is about.
        elements: usize,
        /// Elements that it says were sent.
        found: usize,
    },
    /// A payload that is too short or too long for the counts of the header.
    #[error("the {form} message has {found} bytes after its header, but its counts ask for {expected}")]
    WrongLength {
        /// The form of the message.
        form: Form,
        /// Bytes of the payload by the header, or the fewest.
        expected: u64,
        /// Bytes that there are.
        found: u64,
    },
    /// A payload with another number of elements than the header says.
    #[error("the {form} message carries {found} elements, but its header says {expected}")]
    WrongSentCount {
        /// The form of the message.
        form: Form,
        /// Elements by the header.
        expected: usize,
        /// Elements in the payload.
        found: usize,
    },
    /// An index that is too large.
    #[error("the message sends element {found}, but is about {elements} elements")]
    IndexOutOfRange {
        /// Elements that it is about.
        elements: usize,
        /// The last index.
        found: u64,
    },
    /// Bits that are set where nothing is.
    #[error("the {form} message has bits set in its padding")]
    BitsInPadding {
        /// The form of the message.
        form: Form,
    },
    /// A sign of an element that was not sent.
    #[error("the bitmap has a sign for element {index}, which it does not send")]
    SignWithoutElement {
        /// The element.
        index: usize,
    },
    /// A dense value that is NaN or infinite.
    #[error("element {index} of the dense message is {found}: expected a finite number")]
    NotFinite {
        /// The element.
        index: usize,
        /// What it is.
        found: f32,
    },
    /// A message for another network.
    #[error("the message is about {found} elements, but there are {expected} parameters")]
    WrongElements {
        /// Parameters given.
        expected: usize,
        /// Elements of the message.
        found: usize,
    },
    /// A scale that makes an infinite step of a finite message.
    #[error("the scale {scale:e} times the largest element of the message, {largest:e}, is not finite")]
    BadScale {
        /// The scale given.
        scale: f32,
        /// The largest magnitude in the message.
        largest: f32,
    },
}
