/**
 * Every screen of the console while ClickHouse, Postgres or NATS is unavailable: it names the store instead of waiting
 * forever, and recovers when that is back. The services are real processes that are stopped.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import path from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import type { Service, ServiceOptions } from '../../embedded/supervisor/processes/service.ts'
import { startClickHouse } from '../../embedded/supervisor/start-clickhouse.ts'
import { startPostgres } from '../../embedded/postgres/start-postgres.ts'
import { publishDeadLetter } from '../../platform/dead-letters/publish-dead-letter.ts'
import { createLogger } from '../../platform/logger.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { startStack, type Stack } from '../start-stack.ts'
import { storesFolder } from '../support/stores-folder.ts'
import { startTestNats } from '../support/test-processes.ts'
import type { TestContext } from '../support/test-context.ts'
import { waitFor } from '../support/wait-for.ts'
import { FILE_TIMEOUT_MS } from '../test-pool.ts'
import { openConsoleOf, recover, send, settle, type Watched } from './open-console.ts'

t.setTimeout(FILE_TIMEOUT_MS)

/** Where a page waits for the next outage: it asks for nothing until something is typed. */
const PARKED = '/projects/1/find'

/** The uuid of no event: whether that is so, only all stores together can say. */
const UNKNOWN = 'ffffffff-ffff-7fff-8fff-ffffffffffff'

/**
 * Screens that name a store which is away, and screens that read nothing of it, and so are as ever; any other that
 * fails names it too. Ids are left out.
 */
const SCREENS: Record<'ClickHouse' | 'NATS' | 'Postgres', { naming: RegExp, untouched: RegExp }> = {
  ClickHouse: {
    naming: /^(health|find\?.*|experiments\/id|events.*|persons(\/id|\?.*)|sql.*|warnings)$/,
    untouched: /^(find|properties|dead-letters.*|flags|flags\/id|experiments|persons|connect|keys|installation)$/
  },
  NATS: {
    naming: /^(health|find\?distinct_id.*|find\?uuid=f.*|dead-letters.*)$/,
    untouched: /^(?!health|dead-letters|find\?)|^find\?uuid=0/
  },
  // The projects are those of the session.
  Postgres: { naming: /^(?!(find|installation)$)/, untouched: /^(find|installation)$/ }
}

interface Store { stop: () => Promise<unknown>, restart: () => Promise<unknown> }

t.test('screens of the console while a store is away', async (t) => {
  const clickhouse = await startOwn(t, async (options) => await startClickHouse({ ...options, password: 'outage', analystPassword: 'analyst' }))
  const postgres = await startOwn(t, async (options) => await startPostgres({ ...options, password: 'outage', durable: false }))
  const nats = await startTestNats(t)
  const analystUrl = new URL(clickhouse.url)
  analystUrl.username = 'analyst'
  analystUrl.password = 'analyst'
  const starting = startStack({
    env: {
      NATS_URL: nats.url, CLICKHOUSE_URL: clickhouse.url, DATABASE_URL: postgres.url,
      MILLRACE_CLICKHOUSE_ANALYST_URL: analystUrl.href
    }
  })
  t.teardown(async () => { await (await starting).stop() })
  const { stack, open } = await openConsoleOf(t, starting)
  const details = await plantDetails(stack)

  // Every screen that there is, by the navigation, so that none is forgotten.
  const { page: first } = await open('/keys')
  const menu = first.getByRole('navigation').getByRole('link')
  await menu.first().waitFor()
  const links = await menu.evaluateAll((found) => found.map((link: any) => link.getAttribute('href') as string))
  await first.close()
  const paths = [...links.map((link) => link.slice('/console'.length)), ...details]
  t.ok(links.length >= 14, links.join(' '))
  // Opened before anything is away, as by somebody at work.
  const pages = new Map<string, Watched>()
  for (const path of paths) pages.set(path, await open(PARKED))
  for (const { page } of pages.values()) await page.getByRole('heading', { level: 1 }).waitFor()

  const stores: [keyof typeof SCREENS, Store][] = [['ClickHouse', clickhouse], ['NATS', nats], ['Postgres', postgres]]
  for (const [name, store] of stores) {
    await t.test(`${name} is away`, async (t) => {
      await store.stop()
      // All at once: each waits until the API gives up on the unavailable store.
      await Promise.all([...pages].map(async ([path, { page }]) => { await goTo(page, path) }))
      const settled = await Promise.all([...pages].map(async ([path, watched]) => ({ path, ...await settle(watched) })))
      for (const { path, text, isFailed } of settled) {
        const screen = path.replace('/projects/1/', '').replace(/^\//, '').replace(/(?<=\/)[\w-]+$/, 'id')
        const { naming, untouched } = SCREENS[name]
        if (untouched.test(screen)) t.notOk(isFailed, `${path} does not need it: ${text}`)
        else if (isFailed || naming.test(screen)) t.match(text, new RegExp(name, 'i'), `${path} names the unavailable store: ${text}`)
        t.notMatch(text, /A server error|console failed|undefined|NaN/, path)
      }
      const fresh = await open('/health')
      t.match((await settle(fresh)).text, name, 'a page that is opened now says it too')

      await store.restart()
      await Promise.all([...pages].map(async ([path, watched]) => await t.resolves(recover(watched), `${path} goes on`)))
      await t.resolves(recover(fresh), 'so does the page that was opened meanwhile')
      await fresh.page.close()
      for (const [path, { page, problems }] of pages) {
        // The browser itself logs each answer of 400 and above.
        t.same(problems.filter((text) => !/status of (4|5)\d\d|ERR_INCOMPLETE|ERR_EMPTY/.test(text)), [], path)
        await goTo(page, PARKED)
      }
    })
  }
})

/** A service of this test alone, which starts again on its files and its port. */
async function startOwn (
  t: TestContext, start: (options: ServiceOptions) => Promise<Service>
): Promise<Store & { url: string }> {
  const dataDir = await mkdtemp(path.join(storesFolder(), 'millrace-outage-'))
  let service = await start({ dataDir, port: 0 })
  t.teardown(async () => {
    await service.stop()
    await rm(dataDir, { recursive: true, force: true })
  })
  return {
    url: service.url,
    stop: async () => await service.stop(),
    restart: async () => { service = await start({ dataDir, port: service.port }) }
  }
}

/** One of everything that has a page of its own. @returns the pages. */
async function plantDetails (stack: Stack): Promise<string[]> {
  const call = async (path: string, body: object): Promise<any> => await (await fetch(`${stack.url}/api/projects/1/${path}/`, {
    method: 'POST', body: JSON.stringify(body), headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' }
  })).json()
  const { id: experiment, feature_flag: { id: flag } } = await call('experiments', {
    name: 'Checkout', feature_flag_key: 'checkout', start_date: new Date(Date.now() - 60_000).toISOString(),
    filters: { insight: 'FUNNELS', events: [{ id: 'paid' }] }
  })
  const { id: saved } = await call('saved_queries', { name: 'All', query: 'SELECT count() FROM events' })
  await send(stack, [
    { event: 'paid', properties: { amount: 3, $set: { email: 'ann@example.com' } } },
    { event: '$feature_flag_called', properties: { $feature_flag: 'checkout', $feature_flag_response: 'test' } }
  ])
  const connection = await connectNats({ url: stack.natsUrl, name: 'test', logger: createLogger({ component: 'test', level: 'silent' }) })
  await publishDeadLetter(connection, {
    stage: 'persons', reason: 'invalid_update', error: 'no such person', subject: 'persons.0', sequence: 1, project: 1,
    event: 'paid', headers: {}, id: 'planted', body: Buffer.from('{"name": "x"}')
  })
  await connection.close()
  const idOf = async (query: string): Promise<string> =>
    (await waitFor(async () => (await stack.select<{ id: string }>(query))[0])).id
  const { uuid } = await waitFor(async () =>
    (await stack.sql<{ uuid: string }[]>`SELECT uuid FROM persons LIMIT 1`)[0])
  const definition = async (table: string, name: string): Promise<string> => (await waitFor(async () =>
    (await stack.sql.unsafe<{ id: string }[]>(`SELECT id FROM ${table} WHERE name = $1 LIMIT 1`, [name]))[0])).id
  const event = await idOf("SELECT toString(uuid) AS id FROM events WHERE event = 'paid'")
  return [
    `flags/${flag}`, `experiments/${experiment}`, `events/${await definition('event_definitions', 'paid')}`,
    `properties/${await definition('property_definitions', 'amount')}`, `persons/${uuid}`, `sql?saved=${saved}`, `find?uuid=${event}`, 'find?distinct_id=ann', `find?uuid=${UNKNOWN}`,
    'dead-letters/1', 'dead-letters?stage=persons&reason=invalid_update&error_code=&event=paid', 'persons?search=ann'
  ].map((page) => `/projects/1/${page}`)
}

/** As a click on a link does, without loading the page again. */
async function goTo (page: Page, path: string): Promise<void> {
  await page.evaluate((target) => {
    const { history, dispatchEvent, PopStateEvent } = globalThis as any
    history.pushState(null, '', target)
    dispatchEvent(new PopStateEvent('popstate'))
  }, `/console${path}`)
}
