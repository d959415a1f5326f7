//! Protobuf over gRPC, with buffers as small as the messages of a call.
//!
//! tonic allocates a buffer of 8 KiB for each message stream and direction, while a call's messages have a few hundred bytes.
//! A request that waits to be sent keeps its buffer: with ten thousand calls in flight, those queued for a worker held 48 MB.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::BufferSettings;
use tonic_prost::ProstCodec;

/// Initial size of a buffer. It grows as needed.
const BUFFER_BYTES: usize = 1024;

/// How many bytes of a stream are batched before they are sent: tonic's own default.
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
