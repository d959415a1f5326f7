//! Peers that attack the protocol, the connections or the memory of the gateway harm nobody but themselves.

mod crowds;
mod floods;
mod grpc;
mod heads;
mod neighbour;
mod pages;
mod raw;
