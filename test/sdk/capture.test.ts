import { PostHog } from 'posthog-node'
import t from 'tap'
import { createStackProject, waitUntilKnown } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'
import { openPage, shareBrowser } from './open-page.ts'

interface StoredEvent {
  uuid: string
  event: string
  distinct_id: string
  timestamp: string
  groups: Record<string, string>
  properties: string
}

interface PageEvent {
  event: string
  session_id: string
  current_url: string
  lib: string
  browser: string
  plan: string
}

// One project for both SDKs, of which some tests count everything.
const stack = await createStackProject(t)
const { project } = stack
await waitUntilKnown(stack)

async function storedEvents (distinctIdPrefix: string, count: number): Promise<StoredEvent[]> {
  let events: StoredEvent[] = []
  await waitFor(async () => {
    events = await stack.select<StoredEvent>(
      `SELECT uuid, event, distinct_id, timestamp, groups, properties FROM events
       WHERE project_id = {project:UInt32} AND startsWith(distinct_id, {prefix:String}) ORDER BY timestamp, uuid`,
      { project, prefix: distinctIdPrefix })
    return events.length >= count
  })
  return events
}

function sum (numbers: number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}

t.test('1,000 compressed events of posthog-node are each stored once, as sent', async (t) => {
  const client = new PostHog(stack.projectApiKey, { host: stack.url, disableCompression: false, flushAt: 100 })
  const sentAt = Date.now()
  const sent = Array.from({ length: 1000 }, (_, index) => ({
    distinctId: `node-${index % 50}`,
    event: index % 3 === 0 ? 'order paid' : 'order viewed',
    properties: { index, amount: index / 4, note: `line\n"quoted" ${index} ✓`, nested: { list: [index, null, true] } },
    ...(index % 2 === 0 ? { groups: { company: `company-${index % 7}` } } : {})
  }))

  for (const event of sent) client.capture(event)
  await client.shutdown()
  const stored = await storedEvents('node-', 1000)

  t.equal(stored.length, 1000)
  t.equal(new Set(stored.map(({ uuid }) => uuid)).size, 1000)
  const byIndex = new Map(stored.map((row) => {
    const properties = JSON.parse(row.properties)
    return [properties.index as number, { ...row, properties }]
  }))
  t.equal(byIndex.size, 1000)
  const differences = sent.filter((event) => {
    const row = byIndex.get(event.properties.index)
    return row === undefined ||
      row.event !== event.event || row.distinct_id !== event.distinctId ||
      row.groups.company !== event.groups?.company ||
      Math.abs(Date.parse(`${row.timestamp}Z`) - sentAt) > 30_000 ||
      Object.entries(event.properties).some(([name, value]) =>
        JSON.stringify(row.properties[name]) !== JSON.stringify(value)) ||
      row.properties.$lib !== 'posthog-node'
  })
  t.same(differences, [])
})

t.test('identify, alias and groupIdentify of posthog-node are stored as their events', async (t) => {
  const client = new PostHog(stack.projectApiKey, { host: stack.url, flushAt: 1 })

  client.identify({ distinctId: 'persons-1', properties: { $set: { plan: 'pro' }, $set_once: { first: 'yes' } } })
  client.alias({ distinctId: 'persons-1', alias: 'persons-alias' })
  client.groupIdentify({
    groupType: 'company', groupKey: 'acme', properties: { seats: 12 }, distinctId: 'persons-1'
  })
  await client.shutdown()
  const stored = await storedEvents('persons-1', 3)

  const byName = new Map(stored.map((row) => [row.event, JSON.parse(row.properties)]))
  t.same([...byName.keys()].sort(), ['$create_alias', '$groupidentify', '$identify'])
  t.match(byName.get('$identify'), { $set: { plan: 'pro' }, $set_once: { first: 'yes' } })
  t.match(byName.get('$create_alias'), { alias: 'persons-alias' })
  t.match(byName.get('$groupidentify'), { $group_type: 'company', $group_key: 'acme', $group_set: { seats: 12 } })
})

t.test('volumes, properties and definitions say what posthog-node sent', async (t) => {
  const sent = { 'order paid': 334, 'order viewed': 666, $identify: 1, $create_alias: 1, $groupidentify: 1 }
  let volumes: Record<string, number> = {}
  // ClickHouse fills a view a moment after the table.
  await waitFor(async () => {
    const rows = await stack.select<{ event: string, volume: number }>(
      'SELECT event, toUInt32(volume) AS volume FROM event_volumes WHERE project_id = {project:UInt32}', { project })
    volumes = Object.fromEntries(rows.map(({ event, volume }) => [event, volume]))
    return sum(Object.values(volumes)) >= sum(Object.values(sent))
  })
  t.same(volumes, sent)

  let properties: Record<string, string | null>[] = []
  await waitFor(async () => {
    const [definition] = await stack.sql`SELECT volume_30_day FROM event_definitions WHERE project_id = ${project} AND name = 'order viewed'`
    properties = await stack.sql`
      SELECT name, type, property_type FROM property_definitions
      WHERE project_id = ${project} AND name IN ('amount', 'note', 'nested', 'plan', 'seats') ORDER BY name`
    return Number(definition?.volume_30_day) === 666 && properties.length === 5
  })
  t.same(properties.map(({ name, type, property_type: valueType }) => [name, type, valueType]), [
    ['amount', 'event', 'Numeric'],
    ['nested', 'event', null],
    ['note', 'event', 'String'],
    ['plan', 'person', 'String'],
    ['seats', 'group', 'Numeric']
  ])
})

t.test('a page view and a custom event of posthog-js arrive with their promoted columns filled', async (t) => {
  const { page, url, close } = await openPage(undefined, await shareBrowser(t))
  t.teardown(close)

  await page.evaluate(({ key, host }) => {
    const posthog = (globalThis as any).posthog
    posthog.init(key, {
      api_host: host,
      autocapture: false,
      disable_session_recording: true,
      // The SDK keeps quiet in automated browsers otherwise.
      opt_out_useragent_filter: true
    })
    posthog.capture('plan chosen', { plan: 'pro' })
  }, { key: stack.projectApiKey, host: stack.url })

  let stored: PageEvent[] = []
  await waitFor(async () => {
    stored = await stack.select<PageEvent>(
      `SELECT event, session_id, current_url, lib, browser, JSONExtractString(properties, 'plan') AS plan
       FROM events WHERE project_id = {project:UInt32} AND event IN ('$pageview', 'plan chosen') ORDER BY event`, { project })
    return stored.length >= 2
  })

  t.match(stored, [
    { event: '$pageview', current_url: url, lib: 'web', browser: /Chrome/, plan: '' },
    { event: 'plan chosen', current_url: url, lib: 'web', browser: /Chrome/, plan: 'pro' }
  ])
  t.match(stored[0]?.session_id, /^[0-9a-f-]{36}$/)
  t.equal(stored[0]?.session_id, stored[1]?.session_id)
})
