import { randomUUID } from 'node:crypto'
import t from 'tap'
import { startStackOnSharedStores } from '../start-stack.ts'
import { startTestPipeline } from '../support/test-processes.ts'
import { waitFor } from '../support/wait-for.ts'

/** Deletion as clients see it, of the whole system while it runs. */
const SETTINGS = { MILLRACE_ROLL_UP_INTERVAL_MS: '200' }

const stack = await startStackOnSharedStores(t, SETTINGS)

async function call (method: 'GET' | 'POST' | 'DELETE', path: string, body?: object): Promise<any> {
  const response = await fetch(`${stack.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  if (!response.ok) throw new Error(`${method} ${path} ${response.status} ${await response.text()}`)
  return response.status === 204 ? undefined : await response.json()
}

t.test('deleted definitions stay away while two pipeline processes roll up, and come back with the next event', async (t) => {
  const send = async (): Promise<void> => await call('POST', '/capture/', {
    api_key: stack.projectApiKey, event: 'unwanted', distinct_id: 'd', uuid: randomUUID(), properties: { unwanted: 1 }
  })
  const find = async (): Promise<any[]> => (await Promise.all(['event', 'property'].map(async (kind) =>
    (await call('GET', `/api/projects/1/${kind}_definitions/?search=unwanted`)).results))).flat()
  const findBoth = async (): Promise<any[]> => await waitFor(async () => {
    const found = await find()
    return found.length === 2 && found
  })
  await send()
  const [event, property] = await findBoth()
  const { natsUrl, clickhouseUrl, databaseUrl } = stack
  const second = await startTestPipeline(t, { natsUrl, clickhouseUrl, databaseUrl, env: SETTINGS })

  await call('DELETE', `/api/projects/1/event_definitions/${event.id}/`)
  await call('DELETE', `/api/projects/1/property_definitions/${property.id}/`)

  // The sweep of the day is done again, by either of them.
  await stack.sql`DELETE FROM roll_up_state WHERE source = 'daily sweep'`
  const rounds = new Set<string>()
  await waitFor(async () => {
    const states = await stack.sql`SELECT read_up_to::text FROM roll_up_state WHERE source IN ('recent changes', 'daily sweep')`
    if (states.length === 2) rounds.add(states.map((state) => state['read_up_to']).join())
    return rounds.size >= 4
  })
  t.same(await find(), [])

  await second.kill('SIGKILL')
  await send()
  t.match(await findBoth(), [{ volume_30_day: 2 }, { property_type: 'Numeric' }])
})
