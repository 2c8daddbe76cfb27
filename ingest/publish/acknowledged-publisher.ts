import { createInbox, type Msg, type MsgHdrs } from '@nats-io/transport-node'
import { MillraceError } from '../../engines/errors.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'

/** A message for a stream: the same bytes and the same id however often it is tried. */
export interface OutgoingMessage {
  subject: string
  /** `Nats-Msg-Id`: makes a second publish of the message harmless within the stream's duplicate window. */
  id: string
  headers: Readonly<Record<string, string>>
  payload: Uint8Array
}

/** Publishes a message and resolves when it is durable. */
export type Publish = (message: OutgoingMessage) => Promise<void>

/** Publishes on one connection and waits for the stream's acknowledgements. */
export interface AcknowledgedPublisher {
  /** @throws {MillraceError} `MILLRACE_STREAM_REFUSED`, `MILLRACE_STREAM_MISSING`, `MILLRACE_STREAM_TIMEOUT`,
   * `MILLRACE_MESSAGE_TOO_LARGE`. */
  publish (message: OutgoingMessage): Promise<void>
  /** Rejects everything that waits: its acknowledgements will never come. */
  abandon (error: Error): void
}

interface Waiting {
  resolve: () => void
  reject: (error: unknown) => void
  timer: NodeJS.Timeout
  subject: string
}

/**
 * The publish call of the JetStream client does the same, for any kind of publish, with a stack trace, a race of
 * promises and five checked header objects a message. Single events make small messages, where that is most of the
 * cost; this one knows its headers.
 *
 * @param ackTimeoutMs  How long to wait for an acknowledgement.
 */
export function createAcknowledgedPublisher (
  connection: NatsConnection, ackTimeoutMs: number
): AcknowledgedPublisher {
  const inbox = `${createInbox()}.`
  const waiting = new Map<string, Waiting>()
  let messages = 0
  connection.subscribe(`${inbox}*`, { callback: onAnswer })

  return {
    publish: async (message) => await new Promise((resolve, reject) => {
      const headers = encodeHeaders(message)
      const maxBytes = connection.info?.max_payload ?? Infinity
      if (headers.length + message.payload.length > maxBytes) return reject(tooLarge(message))
      const token = (messages++).toString(36)
      const timer = setTimeout(() => complete(token, silent(ackTimeoutMs)), ackTimeoutMs)
      waiting.set(token, { resolve, reject, timer, subject: message.subject })
      try {
        connection.publish(message.subject, message.payload, {
          reply: inbox + token, headers: { encode: () => headers } as unknown as MsgHdrs
        })
      } catch (error) {
        complete(token, error)
      }
    }),
    abandon (error) {
      for (const token of [...waiting.keys()]) complete(token, error)
    }
  }

  function onAnswer (error: Error | null, answer: Msg): void {
    // Errors of the subscription itself have no answer; anyone who waits finds out by the timeout.
    if (error !== null) return
    const token = answer.subject.slice(inbox.length)
    complete(token, answer.data.length === 0 ? missingStream(waiting.get(token)?.subject) : readRefusal(answer))
  }

  function complete (token: string, error: unknown): void {
    const waiter = waiting.get(token)
    if (waiter === undefined) return
    waiting.delete(token)
    clearTimeout(waiter.timer)
    if (error === null) waiter.resolve()
    else waiter.reject(error)
  }
}

/** All the client asks of headers is their bytes. Names and values are our own and have no line breaks. */
function encodeHeaders ({ id, headers }: OutgoingMessage): Buffer {
  let text = `NATS/1.0\r\nNats-Msg-Id: ${id}\r\n`
  for (const name in headers) text += `${name}: ${headers[name]}\r\n`
  return Buffer.from(`${text}\r\n`)
}

/** For an answer without content: nobody listens on the subject. */
function missingStream (subject = ''): MillraceError {
  return new MillraceError('MILLRACE_STREAM_MISSING', `no stream has the subject ${subject}`, { action: 'retry' })
}

/** The server would close the connection on it, so it is not sent. */
function tooLarge ({ subject, payload }: OutgoingMessage): MillraceError {
  return new MillraceError('MILLRACE_MESSAGE_TOO_LARGE', `a message of ${payload.length} bytes for ${subject} is larger than max_payload of NATS`, {
    details: { bytes: payload.length }
  })
}

/** Null when the stream has the message, be it as a duplicate. */
function readRefusal (answer: Msg): Error | null {
  const { error } = answer.json<{ error?: { err_code: number, description: string } }>()
  if (error === undefined) return null
  return new MillraceError('MILLRACE_STREAM_REFUSED', `the stream refused a message: ${error.description}`, {
    action: 'retry', details: { errCode: error.err_code }
  })
}

function silent (timeoutMs: number): MillraceError {
  return new MillraceError('MILLRACE_STREAM_TIMEOUT', `the stream did not acknowledge within ${timeoutMs} ms`, {
    action: 'retry', details: { timeoutMs }
  })
}
