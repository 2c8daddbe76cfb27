import { type Msg } from '@nats-io/transport-node'

/** A message of PEOPLE as it was delivered. */
export interface PartitionMessage {
  data: Uint8Array
  sequence: number
  /** When the stream stored it, epoch microseconds. */
  publishedUs: number
  /** Position in the deliveries of its consumer, from 1 without gaps. */
  delivery: number
  /** Messages of the partition behind it. */
  pending: number
  /** Subject that acknowledges it. */
  ackSubject: string
}

/**
 * Reads where a message stands from the subject that acknowledges it:
 * `$JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.<delivery>.<nanoseconds>.<pending>`; some servers put a domain
 * and an account hash before the stream.
 */
export function readPartitionMessage (message: Msg): PartitionMessage {
  const ackSubject = message.reply ?? ''
  const tokens = ackSubject.split('.')
  const shift = tokens.length > 9 ? 2 : 0
  return {
    data: message.data,
    sequence: Number(tokens[5 + shift]),
    delivery: Number(tokens[6 + shift]),
    publishedUs: Math.floor(Number(tokens[7 + shift]) / 1000),
    pending: Number(tokens[8 + shift]),
    ackSubject
  }
}
