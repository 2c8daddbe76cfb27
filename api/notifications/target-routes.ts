import type { FastifyInstance } from 'fastify'
import { setTimeout as delay } from 'node:timers/promises'
import { HttpError, invalidField } from '../../engines/errors.ts'
import { queueNotifications } from '../../platform/notifications.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { array, boolean, object, string, timeOrNull } from '../http/json-schema.ts'
import { idParams } from '../http/request-values.ts'
import { routesOf } from '../http/routes.ts'
import { type DocumentKind, documentRoutes, findDocument } from '../queries/named-documents.ts'

/** Longest wait of a test for its delivery, and pause between two looks, in milliseconds. */
const TEST_MS = 12_000
const LOOK_MS = 200

const fields = {
  kind: { type: 'string', enum: ['slack', 'webhook', 'mail'] },
  url: { type: 'string', minLength: 1, maxLength: 2000, description: 'Slack and webhooks: https or http, returned as the host only. Mail: mailto:address.' },
  enabled: { type: 'boolean', description: 'A disabled target keeps its queue.' },
  events: { ...array({ type: 'string', minLength: 1, maxLength: 200 }), maxItems: 100, uniqueItems: true, description: 'Names of events to send.' },
  each_event: { type: 'boolean', description: 'true: send each event. false: send a count with samples, at most once per minute and event name.' }
} as const

const state = {
  waiting: { type: 'integer', description: 'Queued notifications.' },
  last_delivered_at: timeOrNull,
  failing_since: { ...timeOrNull, description: 'First failed attempt since the last delivery; null: the last attempt succeeded.' },
  last_error: { type: ['string', 'null'], description: 'Status or error of the last failed attempt.' },
  sent_events: { ...array(string), description: 'Names of the events sent: `events` and, for Slack, those whose definition has `post_to_slack`.' }
} as const

/** Whoever knows the whole url of a webhook may post there. Parsers read `https:host/` and backslashes as well. */
const HOST_ONLY = "CASE q.kind WHEN 'mail' THEN q.url ELSE regexp_replace(q.url, '^([a-zA-Z]+://[^/?#\\\\]*)?.*$', '\\1/…') END"

export const TARGETS: DocumentKind<typeof fields> = {
  table: 'targets', scope: 'project', id: 'Target', noun: 'target', plural: 'targets', fields, state,
  defaults: { enabled: true, events: [], each_event: false },
  shown: {
    url: HOST_ONLY,
    waiting: '(SELECT count(*)::integer FROM notifications WHERE target_id = q.id)',
    sent_events: "(SELECT coalesce(jsonb_agg(event ORDER BY event), '[]') FROM notified_events WHERE target_id = q.id)"
  },
  async check (given, { sql, access, projectId, id = null }) {
    const [stored = {}] = await sql<Record<string, unknown>[]>`
      SELECT kind, url, ${sql.unsafe(HOST_ONLY)} AS shown, events, each_event FROM targets AS q WHERE project_id = ${projectId} AND id = ${id}::integer`
    // Clients may send back what they were shown.
    const url = given.url === stored.shown ? stored.url : given.url ?? stored.url
    const { kind, events, each_event: isEach } = { ...stored, ...given }
    checkUrl(String(kind), String(url))
    const hasEvents = Array.isArray(events) && events.length > 0
    if (kind === 'mail' && (hasEvents || isEach === true)) {
      throw invalidField(hasEvents ? 'events' : 'each_event', 'Mail is for alerts and reports: send events to Slack or a webhook.')
    }
    if (given.events !== undefined && hasEvents) access.requireScope('event:read')
    // A url that is stored while a change without one is looked at stays.
    return given.url === undefined ? given : { ...given, url }
  }
}

function checkUrl (kind: string, text: string): void {
  const url = URL.parse(text)
  if (kind === 'mail') {
    if (!/^mailto:[^\s@,;?]+@[^\s@,;?]+$/.test(text)) throw invalidField('url', 'Give one address, such as mailto:ops@example.com.')
    return
  }
  if (url === null || !/^https?:$/.test(url.protocol) || /\s/.test(text)) throw invalidField('url', 'Give a URL that begins with https:// or http://.')
  if (url.username !== '' || url.password !== '') throw invalidField('url', 'A URL with a user or a password is not supported; verify the signature instead.')
  if (text.includes('…')) throw invalidField('url', 'Answers show the host only: give the whole URL.')
}

/** Where notifications go: Slack, webhooks and mail (`pipeline/windows/notify/` delivers them). */
export async function targetRoutes (app: FastifyInstance, deps: { sql: Sql, publicUrl: string }): Promise<void> {
  const { sql } = deps
  const routes = routesOf(app, { tag: 'targets', object: 'project' })
  await documentRoutes(app, deps, TARGETS)

  routes.post('/:id/secret', {
    summary: 'Show the signing secret of a target', description: 'Receivers verify webhooks with it (Standard Webhooks).', params: idParams,
    answer: object({ secret: string })
  }, async ({ params: { id } }, { projectId }) => {
    await findDocument(sql, TARGETS, { projectId, id })
    const [found] = await sql<[{ secret: string }]>`SELECT secret FROM targets WHERE id = ${id}`
    return found
  })

  routes.post('/:id/test', {
    summary: 'Send a test to a target', description: 'Waits up to 12 s for delivery. What was queued before the test is retried first, at once; the test itself is attempted once.', params: idParams,
    answer: object({ delivered: boolean, error: { type: ['string', 'null'] } })
  }, async ({ params: { id } }, { projectId }) => {
    const { name, enabled } = await findDocument(sql, TARGETS, { projectId, id })
    if (!enabled) throw new HttpError(409, 'invalid_request', 'conflict', 'The target is disabled: enable it first.')
    // Who tests has repaired something: what waits before the test is due as well.
    await sql`UPDATE notifications SET next_attempt_at = now() WHERE target_id = ${id}`
    const text = `Test of the target ${name.replaceAll(/\s+/g, ' ')} from Millrace`
    const sequence = await queueNotifications(sql, id, [{ type: 'test', data: JSON.stringify({ project_id: projectId, target: name }), text }])
    const deadline = performance.now() + TEST_MS
    for (;;) {
      const [now] = await sql<{ waits: boolean, error: string | null }[]>`
        SELECT EXISTS (SELECT 1 FROM notifications WHERE target_id = ${id} AND sequence = ${sequence}) AS waits, last_error AS error
        FROM targets WHERE id = ${id}`
      if (now?.waits !== true) return { delivered: now?.error === null, error: now?.error ?? null }
      if (performance.now() > deadline) return { delivered: false, error: now.error ?? 'It waits in the queue of the target.' }
      await delay(LOOK_MS)
    }
  })
}
