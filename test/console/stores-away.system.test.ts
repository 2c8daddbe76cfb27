/** Screens while a store is away, by a broken network in front of it: they say so, and keep what they know. */
import t from 'tap'
import { startTcpFaultProxy } from '../faults/system/tcp-fault-proxy.ts'
import { createTestClickHouse, createTestPostgres } from '../support/test-stores.ts'
import { waitFor } from '../support/wait-for.ts'
import { findBarriers, openConsole, recover, send, settle } from './open-console.ts'

t.test('screens while ClickHouse or Postgres is away', async (t) => {
  const clickhouse = await createTestClickHouse(t)
  const postgres = await createTestPostgres(t)
  const throughProxy = async (url: string) => {
    const target = new URL(url)
    const proxy = await startTcpFaultProxy({ port: Number(target.port) })
    t.teardown(async () => await proxy.close())
    target.port = String(proxy.port)
    target.hostname = '127.0.0.1'
    return { proxy, url: target.href }
  }
  const [toClickHouse, toPostgres] = [await throughProxy(clickhouse.url), await throughProxy(postgres.url)]
  const { stack, open } = await openConsole(t, { CLICKHOUSE_URL: toClickHouse.url, DATABASE_URL: toPostgres.url })
  await send(stack, [{ event: 'paid', properties: { plan: 'pro' } }])
  await waitFor(async () => Number((await stack.select<{ n: string }>('SELECT count() AS n FROM events'))[0]!.n) === 1)
  const call = async (path: string, body: object): Promise<{ id: number }> => await (await fetch(`${stack.url}/api/projects/1/${path}`, {
    method: 'POST', headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' }, body: JSON.stringify(body)
  })).json() as { id: number }
  const schema = await call('event_schemas/', { event: 'paid', schema: { required: ['plan'] } })
  const rule = await call('rules/', { name: 'none', actions: [{ type: 'drop' }] })

  await t.test('without ClickHouse data of Postgres is shown, and missing counts are reported', async (t) => {
    for (const [path, shown, ask] of [
      [`/projects/1/schemas/${schema.id}`, 'paid', 'Check the draft'], [`/projects/1/rules/${rule.id}`, 'none', 'Check the draft'],
      ['/projects/1/rules', 'Rules', null], ['/projects/1/schemas', 'Schemas', null], ['/projects/1/usage', 'Usage and quota', null]
    ] as const) {
      const watched = await open(path)
      const { page } = watched
      await page.getByRole('heading', { name: shown, level: 1 }).waitFor()
      if (ask !== null) await page.getByRole('button', { name: ask }).waitFor()
      // What else the page asks for is answered: it would fail, too.
      await settle(watched)
      toClickHouse.proxy.set('refuse')
      if (ask === null) await page.reload()
      else await page.getByRole('button', { name: ask }).click()
      await page.getByRole('alert').getByRole('button', { name: 'Try again' }).waitFor()
      t.ok(await page.getByRole('heading', { name: shown, level: 1 }).isVisible(), path)
      if (path === '/projects/1/rules') await page.getByRole('link', { name: 'none' }).waitFor()
      if (path === '/projects/1/schemas') await page.getByRole('link', { name: 'paid' }).waitFor()
      if (path === '/projects/1/usage') await page.getByText('all events are accepted').waitFor()
      t.same(await findBarriers(page), [], path)
      toClickHouse.proxy.set('pass')
      await recover(watched)
      await page.close()
    }
  })

  await t.test('without ClickHouse the list of flags stays', async (t) => {
    await call('feature_flags/', { key: 'checkout', filters: { groups: [{ properties: [], rollout_percentage: 50 }] } })
    toClickHouse.proxy.set('refuse')
    const { page } = await open('/projects/1/flags')
    await page.getByText('checkout').first().waitFor()
    t.same(await findBarriers(page), [])
    toClickHouse.proxy.set('pass')
    await page.close()
  })

  await t.test('without Postgres each list says so, and comes back', async (t) => {
    for (const [path, title] of [['/projects/1/schemas', 'Schemas'], ['/projects/1/rules', 'Rules'], ['/projects/1/usage', 'Usage and quota']] as const) {
      const watched = await open('/projects/1/warnings')
      const { page } = watched
      await page.getByRole('heading', { name: 'Warnings', level: 1 }).waitFor()
      toPostgres.proxy.set('refuse')
      // Within the page: its session is known, and asked for again with every request.
      await page.getByRole('navigation').getByRole('link', { name: path.endsWith('usage') ? 'Usage' : title }).click()
      await page.getByRole('heading', { name: title, level: 1 }).waitFor()
      await page.getByRole('alert').getByRole('button', { name: 'Try again' }).first().waitFor()
      t.same(await findBarriers(page), [], path)
      toPostgres.proxy.set('pass')
      await recover(watched)
      await page.close()
    }
  })
})
