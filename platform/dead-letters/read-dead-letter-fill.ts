import { jetstreamManager } from '@nats-io/jetstream'
import { DEAD_LETTER_STREAM } from '../../schema/streams.ts'
import { type NatsConnection } from '../nats/connect-nats.ts'

/** How full the dead-letter stream is. */
export interface DeadLetterFill {
  letters: number
  bytes: number
  maxBytes: number
  /** 0 to 1. From 0.8 on it should be attended to: at 1 partitions wait. */
  ratio: number
}

export const NEARLY_FULL = 0.8

export async function readDeadLetterFill (connection: NatsConnection): Promise<DeadLetterFill> {
  const { state, config } = await (await jetstreamManager(connection)).streams.info(DEAD_LETTER_STREAM)
  const maxBytes = config.max_bytes > 0 ? config.max_bytes : Infinity
  return { letters: state.messages, bytes: state.bytes, maxBytes, ratio: state.bytes / maxBytes }
}
