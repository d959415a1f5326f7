//! A Protobuf codec for gRPC with buffers sized for call messages and a limit on the decoded size of a message.
//!
//! tonic allocates a buffer of 8 KiB for each message stream and direction, but call messages have a few hundred
//! bytes. A request that waits to be sent keeps its buffer: with ten thousand calls in flight, the requests queued
//! for a worker took 48 MB.

use std::any::TypeId;
use std::marker::PhantomData;

use bytes::Buf as _;
use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf};
use tonic_prost::ProstCodec;

use crate::limits::MAX_JSON_VALUES;
use crate::v1::InvokeRequest;
use crate::wire;

/// The initial size of a buffer. It grows as needed.
const BUFFER_BYTES: usize = 1024;

/// The number of bytes of a stream that are batched before they are sent: tonic's default.
const BATCH_BYTES: usize = 32 * 1024;

/// [`ProstCodec`], with smaller buffers.
#[derive(Debug, Default)]
pub(crate) struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as tonic::codec::Codec>::Encoder;
    type Decoder = Decoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(BUFFER_BYTES, BATCH_BYTES))
    }

    fn decoder(&mut self) -> Self::Decoder {
        Decoder(ProstCodec::<U, U>::raw_decoder(BufferSettings::new(BUFFER_BYTES, BATCH_BYTES)))
    }
}

/// Decodes messages. Rejects a call whose `Struct` has too many values before building the tree.
#[derive(Debug)]
pub(crate) struct Decoder<U>(tonic_prost::ProstDecoder<U>);

impl<U> tonic::codec::Decoder for Decoder<U>
where
    U: Message + Default + 'static,
{
    type Item = U;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // A value takes at least two bytes, so shorter messages need no count. The buffer contains the whole
        // message in one chunk.
        if message.remaining() > 2 * MAX_JSON_VALUES
            && TypeId::of::<U>() == TypeId::of::<InvokeRequest>()
            && wire::input_values(message.chunk(), MAX_JSON_VALUES) > MAX_JSON_VALUES
        {
            return Err(Status::invalid_argument(format!(
                "the arguments have more than {MAX_JSON_VALUES} values: send fewer, or large data as text in one string"
            )));
        }
        self.0.decode(message)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}
