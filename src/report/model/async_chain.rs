//! Async callers: the functions that await the one of a frame.

/// The functions that await the function of a frame, innermost first: they are on no stack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AsyncChain {
    /// Index of the frame, counted from the innermost one of the whole stack.
    pub frame: u64,
    /// The addresses (avma) at which each caller resumes: looked up as they are.
    pub callers: Vec<u64>,
    /// The reason why there are no more of them.
    pub end: AsyncEnd,
}

/// A chain as captured. Its callers are a range of `RawChains::callers`, which all chains of the stack share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RawChain {
    /// Index of the frame.
    pub frame: u32,
    /// The first caller's index.
    pub first_caller: u32,
    /// Count of the callers.
    pub count: u32,
    /// The reason why there are no more of them.
    pub end: AsyncEnd,
}

/// The chains of one stack, for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RawChains<'a> {
    /// One for each frame of an async function, innermost first.
    pub chains: &'a [RawChain],
    /// The callers of all of them.
    pub callers: &'a [u64],
}

/// Chains to be written.
pub(crate) trait Chains {
    /// Count of the chains.
    fn len(&self) -> usize;

    /// The frame, the callers and the end of one.
    fn at(&self, index: usize) -> Option<(u64, &[u64], AsyncEnd)>;
}

impl Chains for Vec<AsyncChain> {
    fn len(&self) -> usize {
        self.as_slice().len()
    }

    fn at(&self, index: usize) -> Option<(u64, &[u64], AsyncEnd)> {
        let chain = self.get(index)?;
        Some((chain.frame, &chain.callers, chain.end))
    }
}

impl Chains for RawChains<'_> {
    fn len(&self) -> usize {
        self.chains.len()
    }

    fn at(&self, index: usize) -> Option<(u64, &[u64], AsyncEnd)> {
        let chain = self.chains.get(index)?;
        let callers = self.callers.get(chain.first_caller as usize..)?;
        let callers = callers.get(..chain.count as usize)?;
        Some((chain.frame.into(), callers, chain.end))
    }
}

words! {
    /// The reason why a chain of async callers ended.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum AsyncEnd {
        /// The task's first function was reached: nobody awaits it.
        Root = "root",
        /// As many callers as there is room or time for.
        Limit = "limit",
        /// A context could not be read.
        Unreadable = "unreadable",
        /// A context that the chain had been at before.
        Loop = "loop",
        /// A word that is no address of a context, or of code.
        Invalid = "invalid",
        /// The thread ran while they were read, and may have gone on: they may be of another moment.
        Changed = "changed",
        /// The frame's context is not known, as at a stop within a prologue.
        Unknown = "unknown",
        /// A word that this version does not know.
        #[default]
        #[serde(other)]
        Other = "other",
    }
}
