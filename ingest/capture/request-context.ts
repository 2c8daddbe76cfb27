/** A project that events can be stored for. */
export interface Project {
  id: number
  /** The addresses of its clients are not stored. */
  anonymizeIps: boolean
}

/** What the events of one request have in common. */
export interface RequestContext {
  project: Project
  /** Id of the request, for tracing. */
  requestId: string
  /** Epoch milliseconds. */
  receivedAt: number
  /** When the SDK says it sent the request, epoch milliseconds. */
  sentAt: number | null
  /** Address of the client; empty when it is not to be stored. */
  ip: string
  /** An import, as the request says: its events take the historical partitions. */
  historical: boolean
}
