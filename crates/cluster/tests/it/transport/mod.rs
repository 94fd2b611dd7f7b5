//! One suite that every transport passes, and what each must stand beyond it.

mod conformance;
mod hostile;
mod side;
mod tcp;
mod tls;
