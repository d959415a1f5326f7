//! Protobuf over gRPC, with buffers of a call's size.
//!
//! tonic begins each message stream with a buffer of 8 KiB, for each direction, and the messages of a call have some hundred
//! bytes. A request that waits to be sent keeps its buffer: of ten thousand calls in flight, those that waited for a place at
//! the worker had 48 MB of them.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::BufferSettings;
use tonic_prost::ProstCodec;

/// What a buffer begins with. It grows with what is put into it.
const BUFFER_BYTES: usize = 1024;

/// So much of a stream is put together before it is handed on, as with tonic itself.
const BATCH_BYTES: usize = 32 * 1024;

/// [`ProstCodec`], with smaller buffers.
#[derive(Debug)]
pub(crate) struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as tonic::codec::Codec>::Encoder;
    type Decoder = <ProstCodec<T, U> as tonic::codec::Codec>::Decoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(BUFFER_BYTES, BATCH_BYTES))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(BufferSettings::new(BUFFER_BYTES, BATCH_BYTES))
    }
}
