/** A message on its way to a stream: the same bytes and the same id however often it is tried. */
export interface OutgoingMessage {
  subject: string
  /** `Nats-Msg-Id`: makes a second publish of the message harmless within the stream's duplicate window. */
  id: string
  headers: Readonly<Record<string, string>>
  payload: Uint8Array
}

/** Publishes a message and resolves when it is durable. */
export type Publish = (message: OutgoingMessage) => Promise<void>
