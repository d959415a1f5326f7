//! `search_and_install_tools` and `openskill tools`: from an index to a call, and everything that is refused.

mod ask;
mod killed;
mod listed;
mod published;
mod refused;
mod stage;
