//! Who is asked about refusals: the same for every fence that can hold a call.

pub use ringfence_fence::approval::{Approval, AskAbout, Settled};
