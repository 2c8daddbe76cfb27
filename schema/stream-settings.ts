import { DEAD_LETTER_STREAM, DUPLICATE_WINDOW_NANOS, EVENTS_STREAM, PERSONS_STREAM } from './streams.ts'

/** What an operator chooses about the streams. */
export interface StreamLimits {
  replicas: number
  /** Bytes of EVENTS; PERSONS gets a tenth of it. */
  eventsMaxBytes: number
  deadLetterMaxBytes: number
}

/** One stream, in the words of the JetStream API (names of its JSON fields). */
export interface StreamSettings {
  name: string
  subjects: string[]
  retention: 'workqueue' | 'limits'
  storage: 'file'
  discard: 'new'
  max_bytes: number
  max_age: number
  num_replicas: number
  duplicate_window: number
  allow_direct: boolean
}

/** The settings of every stream, from one source for the embedded stack, clusters and tests. */
export function streamSettings (limits: StreamLimits): StreamSettings[] {
  const common = {
    storage: 'file',
    discard: 'new',
    // No message expires by age: waiting is what a stream is for, and a full one is answered by the spool.
    max_age: 0,
    num_replicas: limits.replicas,
    duplicate_window: DUPLICATE_WINDOW_NANOS,
    allow_direct: true
  } as const
  return [
    {
      ...common, name: EVENTS_STREAM, subjects: ['events.>'], retention: 'workqueue', max_bytes: limits.eventsMaxBytes
    },
    {
      ...common, name: PERSONS_STREAM, subjects: ['persons.>'], retention: 'workqueue',
      max_bytes: Math.ceil(limits.eventsMaxBytes / 10)
    },
    {
      ...common, name: DEAD_LETTER_STREAM, subjects: ['dead.>'], retention: 'limits',
      max_bytes: limits.deadLetterMaxBytes
    }
  ]
}
