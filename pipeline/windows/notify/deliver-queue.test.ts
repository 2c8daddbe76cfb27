import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { SMTPServer } from 'smtp-server'
import { Webhook } from 'standardwebhooks'
import t from 'tap'
import { drawPicture } from '../../../engines/charts/draw-picture.ts'
import { replayDeadLetters } from '../../../platform/dead-letters/replay-and-purge.ts'
import { readDeadLetters } from '../../../test/support/read-letters.ts'
import { createLogger } from '../../../platform/logger.ts'
import { createMetrics } from '../../../platform/metrics.ts'
import { connectNats } from '../../../platform/nats/connect-nats.ts'
import { ensureStreams } from '../../../platform/nats/prepare-jetstream.ts'
import { type NewNotification, queueNotifications, requeueNotification } from '../../../platform/notifications.ts'
import { hashPersonalKey } from '../../../schema/key-text.ts'
import { startTestNats } from '../../../test/support/test-processes.ts'
import { createTestPostgres } from '../../../test/support/test-stores.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { receiveRequests } from '../testing/receive-requests.ts'
import { createReadPicture, renderPicture } from '../alerts/tile-pictures.ts'
import { readPng } from '../testing/read-png.ts'
import { pauseMs, startDeliveries } from './deliver-queue.ts'
import { createSender } from './send-notification.ts'

const logger = createLogger({ component: 'test', level: 'silent' })
const [{ sql }, nats] = await Promise.all([createTestPostgres(t), startTestNats(t)])
const connection = await connectNats({ url: nats.url, name: 'test', logger })
t.teardown(async () => await connection.close())
await ensureStreams(connection, { replicas: 1, eventsMaxBytes: 1e8, deadLetterMaxBytes: 1e7 })
const [{ id: project }] = await sql<[{ id: number }]>`INSERT INTO projects (name) VALUES ('test') RETURNING id`

const mails: string[] = []
const smtp = new SMTPServer({
  authOptional: true, disabledCommands: ['STARTTLS'],
  onData (stream, _, done) {
    let text = ''
    stream.setEncoding('utf8').on('data', (part: string) => { text += part }).on('end', () => { mails.push(text); done() })
  }
})
const smtpServer = smtp.listen(0, '127.0.0.1')
await once(smtpServer, 'listening')
t.teardown(() => smtp.close())

/** Ahead of the clock of the machine, in milliseconds. */
let ahead = 0
const now = (): number => Date.now() + ahead
const { send, close } = createSender({
  allowed: '127.0.0.1', smtpUrl: `smtp://127.0.0.1:${(smtpServer.address() as AddressInfo).port}`, mailFrom: 'millrace@example.com', readPicture: createReadPicture(sql), timeoutMs: 1000, now,
  resolve: async (name) => [{ address: name === 'inside.example' ? '127.0.0.2' : '127.0.0.1', family: 4 }]
})
const metrics = createMetrics('pipeline')
const deliveries = startDeliveries({
  sql, connection, hasRoom: async () => true, send, leads: () => true, now, roundMs: 20, metrics, logger
})
t.teardown(async () => { await deliveries.stop(); await close() })

let targets = 0
async function addTarget (kind: string, url: string, enabled = true): Promise<{ id: number, secret: string }> {
  const [target] = await sql<[{ id: number, secret: string }]>`
    INSERT INTO targets ${sql({ project_id: project, name: `target ${++targets}`, kind, url, enabled })} RETURNING id, secret`
  return target
}

const numbered = (count: number): NewNotification[] =>
  Array.from({ length: count }, (_, index) => ({ type: 'event', data: `{"n":${index},"big":12345678901234567890}`, text: `number ${index}` }))

async function stateOf (id: number) {
  const [state] = await sql<[{ failing: Date | null, error: string | null, waiting: number }]>`
    SELECT failing_since AS failing, last_error AS error, (SELECT count(*)::integer FROM notifications WHERE target_id = targets.id) AS waiting FROM targets WHERE id = ${id}`
  return state
}

t.test('webhooks come in order, signed, with their id, sequence and attempt', async (t) => {
  const { url, received } = await receiveRequests(t, (response, count) => {
    response.writeHead(count === 2 ? 500 : 200).end()
  })
  const { id, secret } = await addTarget('webhook', url)
  await queueNotifications(sql, id, numbered(4))
  await waitFor(async () => (await stateOf(id)).waiting === 0)

  t.same(received.map(({ body }) => JSON.parse(body).data.n), [0, 1, 1, 2, 3])
  t.same(received.map(({ headers }) => headers['millrace-attempt']), ['1', '1', '2', '1', '1'])
  t.same(received.map(({ headers }) => headers['millrace-sequence']), ['1', '2', '2', '3', '4'])
  t.equal(received[1]?.headers['webhook-id'], received[2]?.headers['webhook-id'])
  t.equal(new Set(received.map(({ headers }) => headers['webhook-id'])).size, 4)
  for (const { headers, body } of received) {
    t.match(new Webhook(secret).verify(body, headers as Record<string, string>), { type: 'event', sequence: Number(headers['millrace-sequence']) })
    t.match(body, '12345678901234567890')
    t.throws(() => new Webhook(secret).verify(body.replace('"n"', '"m"'), headers as Record<string, string>))
  }
  t.match(await stateOf(id), { failing: null, error: null })
})

t.test('Slack gets a text that names no channel, and mail goes by SMTP', async (t) => {
  const { url, received } = await receiveRequests(t)
  const slack = await addTarget('slack', url)
  const mail = await addTarget('mail', 'mailto:ops%40example.com')
  const notification: NewNotification = { type: 'events', data: '{}', text: 'order <!channel> & <@U1>: 3 received\nhttp://127.0.0.1/x' }
  await Promise.all([slack, mail].map(async ({ id }) => await queueNotifications(sql, id, [notification])))
  await waitFor(async () => (await stateOf(slack.id)).waiting + (await stateOf(mail.id)).waiting === 0)
  t.same(JSON.parse(received[0]!.body), { text: 'order &lt;!channel&gt; &amp; &lt;@U1&gt;: 3 received\nhttp://127.0.0.1/x' })
  t.match(mails[0], /^Subject: order <!channel> & <@U1>: 3 received\r$/m)
  t.match(mails[0], /^To: ops@example.com\r$/m)
})

t.test('a board has its pictures in mail, and in Slack where its servers can read them', async (t) => {
  const png = await renderPicture(drawPicture({ title: 'Sales', facts: ['as of 21:17 Berlin'] }, { kind: 'numbers', of: [{ name: 'paid', value: 3 }] }))
  const about = sql.json({ kind: 'board', id: 1 })
  const [{ id: alert }] = await sql<[{ id: number }]>`INSERT INTO alerts ${sql({ project_id: project, name: 'daily', about, every: 'day', targets: sql.json([]) })} RETURNING id`
  await sql`INSERT INTO report_pictures ${sql({ key_hash: hashPersonalKey('phl_known'), alert_id: alert, shows_sql: false, png })}`
  const tiles = [['Sales <1>', 'paid: 3'], ['question 7: the project has no question 7'], ['Gone', 'seen: "1"']]
  const report = (base: string): NewNotification => {
    const pictures = [`${base}/api/shared_board/pictures/phl_known`, null, `${base}/api/shared_board/pictures/phl_gone`]
    return { type: 'report', data: JSON.stringify({ tiles, pictures, url: `${base}/console/boards/1` }), text: `Daily: Sales & more\n\n${tiles.map((lines) => lines.join('\n')).join('\n\n')}\n\n${base}` }
  }
  const send = async (target: { id: number }, base: string): Promise<void> => {
    await queueNotifications(sql, target.id, [report(base)])
    await waitFor(async () => (await stateOf(target.id)).waiting === 0)
  }
  await send(await addTarget('mail', 'mailto:ops%40example.com'), 'http://127.0.0.1:8000')
  const mail = mails.at(-1)?.replaceAll('=\r\n', '').replaceAll('=3D', '=').replaceAll('\r\n', '\n') ?? ''
  t.match(mail, /^Content-Type: text\/plain[^]*\nSales <1>\npaid: 3\n\nquestion 7[^]*\nContent-Type: text\/html/m)
  t.match(mail, /<img src="cid:tile-0@millrace" alt="Sales &#60;1&#62;; paid: 3" width="800"[^>]*>[^]*<pre>question 7: [^]*<pre>Gone\nseen: &#34;1&#34;<\/pre>/)
  const [, head = '', content = ''] = /\n(Content-Type: image\/png[^]*?)\n\n([A-Za-z0-9+/=\n]+)/.exec(mail) ?? []
  t.match(head, /^Content-Id: <tile-0@millrace>$/mi)
  t.match(head, /^Content-Disposition: inline/mi)
  t.same(Buffer.from(content, 'base64'), png)
  t.match(readPng(png), { width: 800, height: 150 })

  let refused = 0
  const { url, received } = await receiveRequests(t, (response) => response.writeHead(refused-- > 0 ? 400 : 200).end())
  const slack = await addTarget('slack', url)
  for (const base of ['http://127.0.0.1:8000', 'http://millrace:8000', 'http://10.1.2.3', 'https://millrace.localhost', '']) await send(slack, base)
  t.same(received.map(({ body }) => Object.keys(JSON.parse(body))), Array(5).fill(['text']), 'Slack cannot read these')
  await send(slack, 'https://stats.example.com')
  t.match(JSON.parse(received.at(-1)!.body), {
    text: /^Daily: Sales &amp; more/,
    blocks: [
      { type: 'section', text: { type: 'mrkdwn', text: 'Daily: Sales &amp; more' } },
      { type: 'image', image_url: 'https://stats.example.com/api/shared_board/pictures/phl_known', alt_text: 'Sales <1>; paid: 3' },
      { type: 'section' }, { type: 'image' }, { type: 'section', text: { text: 'https://stats.example.com/console/boards/1' } }
    ]
  })
  refused = 3
  await queueNotifications(sql, slack.id, [report('https://stats.example.com')])
  await waitFor(async () => {
    ahead += 5000
    return (await stateOf(slack.id)).waiting === 0
  })
  t.same(received.slice(-4).map(({ body }) => 'blocks' in JSON.parse(body)), [true, true, true, false], 'what is refused goes as text')
})

t.test('targets that hang, reset, refuse, stream without end or redirect inside delay nobody and lose nothing', async (t) => {
  let isRepaired = false
  const broken = await Promise.all([
    receiveRequests(t, (response) => { if (isRepaired) response.end() }),
    receiveRequests(t, (response) => isRepaired ? response.end() : response.destroy()),
    receiveRequests(t, (response) => response.writeHead(isRepaired ? 200 : 500).end('a secret of the other side')),
    receiveRequests(t, (response) => isRepaired ? response.end() : response.writeHead(307, { location: 'http://127.0.0.2:1/inside' }).end()),
    receiveRequests(t, (response) => isRepaired ? response.end() : response.writeHead(308, { location: 'http://inside.example:1/' }).end()),
    receiveRequests(t, (response) => isRepaired ? response.end() : response.writeHead(302, { location: '/' }).end())
  ])
  const endless = await receiveRequests(t, (response) => { response.writeHead(200).write('x'); setInterval(() => response.write('x'), 50).unref() })
  const healthy = await receiveRequests(t)
  const ids = await Promise.all([...broken, endless, healthy].map(async ({ url }) => (await addTarget('webhook', url)).id))
  for (const id of ids) await queueNotifications(sql, id, numbered(5))
  await waitFor(() => healthy.received.length === 5 && endless.received.length === 5)
  t.match(await stateOf(ids[0]!), { waiting: 5 }, 'while all of the one that hangs wait')

  await waitFor(async () => (await Promise.all(ids.slice(0, 6).map(stateOf))).every(({ failing }) => failing !== null))
  const errors = (await Promise.all(ids.slice(0, 6).map(stateOf))).map(({ error }) => error)
  t.match(errors, ['it did not answer in time', /^the connection failed/, 'it answered 500', /127\.0\.0\.2 is a loopback address/, /127\.0\.0\.2 is a loopback address/, 'it answered 302'])
  t.notMatch(JSON.stringify(errors), 'secret')

  // An hour in which they are broken.
  for (let minute = 0; minute < 60; minute += 10) {
    ahead += 600_000
    await queueNotifications(sql, ids[7]!, numbered(1))
    await waitFor(() => healthy.received.length === 6 + minute / 10)
  }
  isRepaired = true
  await waitFor(async () => {
    ahead += 20_000
    return (await Promise.all(ids.map(stateOf))).every(({ waiting }) => waiting === 0)
  })
  for (const { received } of broken) {
    const numbers = received.map(({ body }) => JSON.parse(body).data.n as number)
    t.same([...new Set(numbers)], [0, 1, 2, 3, 4])
    t.same(numbers, numbers.toSorted((one, other) => one - other))
    t.same(new Set(received.map(({ headers }) => headers['webhook-id'])).size, 5)
  }
  t.same((await Promise.all(ids.map(stateOf))).map(({ failing }) => failing), ids.map(() => null))
})

t.test('after a day it is a dead letter, which is replayed with its id; a disabled target keeps its queue', async (t) => {
  let isRepaired = false
  const { url, received } = await receiveRequests(t, (response) => response.writeHead(isRepaired ? 204 : 503).end())
  const { id } = await addTarget('webhook', url, false)
  await queueNotifications(sql, id, numbered(2))
  ahead += 90_000_000
  await waitFor(async () => await sql`SELECT 1`)
  t.equal(received.length, 0)
  await sql`UPDATE notifications SET created_at = ${new Date(now())}, next_attempt_at = ${new Date(now())} WHERE target_id = ${id}`
  await sql`UPDATE targets SET enabled = true WHERE id = ${id}`
  await waitFor(async () => (await stateOf(id)).failing !== null)
  ahead += 80_000_000
  const before = received.length
  await waitFor(() => received.length > before)
  t.match(await stateOf(id), { waiting: 2 })
  await waitFor(async () => {
    ahead += 1_000_000
    return (await stateOf(id)).waiting === 0
  })

  const letters = await readDeadLetters(connection, { stage: 'notify' })
  t.match(letters, [{ reason: 'undelivered', project, error: 'it answered 503' }, {}])
  isRepaired = true
  const requeue = async (body: Uint8Array) => await requeueNotification(sql, JSON.parse(Buffer.from(body).toString()))
  t.match(await replayDeadLetters(connection, { stage: 'notify', requeue }), { matched: 2, replayed: 2 })
  await waitFor(async () => (await stateOf(id)).waiting === 0)
  t.same(received.slice(-2).map(({ body }) => JSON.parse(body).data.n), [0, 1])
  t.ok(received.slice(0, -2).some(({ headers }) => headers['webhook-id'] === received.at(-1)?.headers['webhook-id']))
  t.same(await readDeadLetters(connection, { stage: 'notify' }), [])
})

t.test('a process that no longer leads ends its drains: the one that leads would send everything a second time', async (t) => {
  const other = await createTestPostgres(t)
  let isLeading = true
  const { url, received } = await receiveRequests(t, (response, count) => {
    isLeading = count < 2
    response.end()
  })
  await other.sql`INSERT INTO projects (id, name) VALUES (1, 'test')`
  const [{ id }] = await other.sql<[{ id: number }]>`
    INSERT INTO targets (project_id, name, kind, url) VALUES (1, 'busy', 'webhook', ${url}) RETURNING id`
  await queueNotifications(other.sql, id, numbered(5))
  const leader = startDeliveries({
    sql: other.sql, connection, hasRoom: async () => true, send, leads: () => isLeading, now, roundMs: 20, metrics: createMetrics('other'), logger
  })
  await waitFor(async () => (await other.sql`SELECT FROM notifications`).length === 3)
  await leader.stop()
  t.same([received.length, (await other.sql`SELECT FROM notifications`).length], [2, 3])
})

t.test('pauses grow to five minutes', async (t) => {
  const pauses = [1, 2, 3, 9, 10, 100].map((attempts) => pauseMs(attempts, () => 1))
  t.same(pauses, [1000, 2000, 4000, 256_000, 300_000, 300_000])
  t.equal(pauseMs(1, () => 0), 500)
})
