/** One attempt to deliver a notification: a signed webhook, a message of Slack, or a mail. */
import { createHmac } from 'node:crypto'
import { createTransport } from 'nodemailer'
import { type Dispatcher, request } from 'undici'
import { errorCode } from '../../../engines/errors.ts'
import { createGuardedAgent, type GuardOptions } from './guard-addresses.ts'
import { type Message, type ReadPicture, slackBody, webhookBody, writeMail } from './write-message.ts'

/** What an attempt needs to know. */
export interface Attempt extends Message {
  kind: 'slack' | 'webhook' | 'mail'
  url: string
  secret: string
  /** The same for all attempts. */
  id: string
}

/** Null: it was delivered. The texts are for people, and have nothing of what the other side sent. */
export type Failure = { error: string, retryAfterMs: number } | null

export type Send = (attempt: Attempt) => Promise<Failure>

export interface SendOptions extends Pick<GuardOptions, 'allowed' | 'resolve'> {
  smtpUrl: string
  mailFrom: string
  readPicture: ReadPicture
  /** For one attempt with its redirects. */
  timeoutMs?: number
  now: () => number
}

const TIMEOUT_MS = 10_000
const MAX_REDIRECTS = 3
/** These keep the method and the body. */
const REDIRECTS = new Set([307, 308])

export function createSender (options: SendOptions): { send: Send, close: () => Promise<void> } {
  const { timeoutMs = TIMEOUT_MS, smtpUrl, mailFrom, readPicture, now } = options
  const agent = createGuardedAgent({ ...options, connectTimeoutMs: timeoutMs })
  const [connectionTimeout, greetingTimeout, socketTimeout, dnsTimeout] = Array<number>(4).fill(timeoutMs)
  const limits = { connectionTimeout, greetingTimeout, socketTimeout, dnsTimeout }
  const mail = smtpUrl === '' ? null : createTransport({ url: smtpUrl, ...limits })

  async function send (attempt: Attempt): Promise<Failure> {
    try {
      if (attempt.kind !== 'mail') return await post(attempt, { agent, now, signal: AbortSignal.timeout(timeoutMs) })
      if (mail === null || mailFrom === '') return failure('mail is not set up: MILLRACE_SMTP_URL and MILLRACE_MAIL_FROM')
      const to = decodeURIComponent(new URL(attempt.url).pathname)
      await mail.sendMail({ from: mailFrom, to, ...await writeMail(attempt, readPicture), messageId: `<${attempt.id}@millrace>` })
      return null
    } catch (error) {
      return failure(describe(error))
    }
  }
  return { send, close: async () => { mail?.close(); await agent.destroy() } }
}

/** The headers of Standard Webhooks, and two of ours. */
function signedHeaders ({ id, secret, sequence, attempt }: Attempt, body: string, now: number): Record<string, string> {
  const timestamp = String(Math.floor(now / 1000))
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return {
    'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}`,
    'millrace-sequence': sequence, 'millrace-attempt': String(attempt)
  }
}

async function post (
  attempt: Attempt, { agent, now, signal }: { agent: Dispatcher, now: () => number, signal: AbortSignal }
): Promise<Failure> {
  const body = attempt.kind === 'slack' ? slackBody(attempt) : webhookBody(attempt)
  const headers = { 'content-type': 'application/json', 'user-agent': 'Millrace', ...attempt.kind === 'webhook' && signedHeaders(attempt, body, now()) }
  let url = new URL(attempt.url)
  for (let redirects = 0; ; redirects++) {
    const { statusCode, headers: answered, body: answer } = await request(url, { method: 'POST', dispatcher: agent, headers, body, signal, bodyTimeout: 0 })
    // Nobody reads it, and it may have no end.
    answer.on('error', () => {}).destroy()
    if (statusCode >= 200 && statusCode < 300) return null
    if (!REDIRECTS.has(statusCode) || redirects === MAX_REDIRECTS) return failure(`it answered ${statusCode}`, retryAfter(answered['retry-after'], now()))
    const next = URL.parse(String(answered.location), url.href)
    if (next === null || !/^https?:$/.test(next.protocol) || (url.protocol === 'https:' && next.protocol !== 'https:')) {
      return failure(`it answered ${statusCode} with a location that is not followed`)
    }
    url = next
  }
}

/** Longest pause that the other side may ask for, in milliseconds. */
const MAX_RETRY_AFTER_MS = 3_600_000

function retryAfter (header: string | string[] | undefined, now: number): number {
  const text = String(header ?? '')
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now
  return Math.min(MAX_RETRY_AFTER_MS, Math.max(0, ms || 0))
}

const failure = (error: string, retryAfterMs = 0): Failure => ({ error, retryAfterMs })

/** In our words: a message of the other side may have anything in it. */
function describe (error: unknown): string {
  if (error instanceof Error && errorCode(error) === 'MILLRACE_ADDRESS_REFUSED') return error.message
  if (error instanceof Error && error.name === 'TimeoutError') return 'it did not answer in time'
  const code = errorCode(error)
  return code === '' ? 'the connection failed' : `the connection failed: ${code}`
}
