import { type Msg } from '@nats-io/transport-node'

/** Where a delivered message stands. */
export interface MessagePlace {
  sequence: number
  /** When the stream stored it, epoch microseconds. */
  storedUs: number
  /** Position in the deliveries of its consumer, from 1 without gaps. */
  delivery: number
  /** Messages of the consumer behind it. */
  pending: number
  /** Subject that acknowledges it. */
  ackSubject: string
}

/**
 * Reads where a message stands from the subject that acknowledges it:
 * `$JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.<delivery>.<nanoseconds>.<pending>`; clusters put a domain and
 * an account hash before the stream.
 */
export function readMessagePlace (message: Msg): MessagePlace {
  const ackSubject = message.reply ?? ''
  const tokens = ackSubject.split('.')
  const shift = tokens.length > 9 ? 2 : 0
  return {
    sequence: Number(tokens[5 + shift]),
    delivery: Number(tokens[6 + shift]),
    storedUs: Math.floor(Number(tokens[7 + shift]) / 1000),
    pending: Number(tokens[8 + shift]),
    ackSubject
  }
}
