import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { createLogger } from '../../platform/logger.ts'
import { createTestClickHouse, createTestPostgres } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { startWindows } from './run-closed-windows.ts'
import { type TimeWindow, windowAt, type WindowTask } from './window-task.ts'

const logger = createLogger({ component: 'test', level: 'silent' })
const [{ sql }, { client: clickhouse }] = await Promise.all([createTestPostgres(t), createTestClickHouse(t)])
const hour = (iso: string): string => `2026-05-04T${iso}:00:00.000Z`

async function completeThrough (iso: string): Promise<void> {
  await clickhouse.command({
    query: 'INSERT INTO watermark_reached SELECT 0, {through: DateTime64(3)}, tuple(now64(3), \'\')',
    query_params: { through: new Date(iso) }
  })
}

const start = (owner: string, tasks: WindowTask[], leaseMs = 2000): ReturnType<typeof startWindows> =>
  startWindows({ sql, clickhouse, owner, kinds: [{ list: async () => tasks, limit: 4 }], roundMs: 20, leaseMs, logger })

const progressOf = async (subject: string): Promise<Record<string, unknown> | undefined> =>
  (await sql`SELECT * FROM window_tasks WHERE subject = ${subject}`)[0]

t.test('windows are whole hours, days, and weeks from Monday, of UTC', async (t) => {
  const moment = new Date('2026-05-06T13:59:59.999Z')
  t.same(windowAt('hour', moment), { from: new Date('2026-05-06T13:00:00Z'), to: new Date('2026-05-06T14:00:00Z') })
  t.same(windowAt('day', moment), { from: new Date('2026-05-06'), to: new Date('2026-05-07') })
  t.same(windowAt('week', moment), { from: new Date('2026-05-04'), to: new Date('2026-05-11') })
  t.same(windowAt('week', new Date('2026-05-04')).from, new Date('2026-05-04'))
})

t.test('each closed window runs once, in order, in one of several processes, and none that is open', async (t) => {
  const ran: string[] = []
  const task: WindowTask = {
    subject: 'test:once',
    size: 'hour',
    since: new Date(hour('02')),
    run: async ({ from }) => async (transaction) => {
      ran.push(from.toISOString())
      await transaction`INSERT INTO projects (name) VALUES (${from.toISOString()})`
    }
  }
  const processes = ['a', 'b', 'c'].map((owner) => start(owner, [task]))
  await completeThrough('2026-05-04T04:59:59.999Z')
  await waitFor(async () => ran.length === 2)
  await completeThrough(hour('07'))
  await waitFor(async () => ran.length === 5)
  await Promise.all(processes.map(async (each) => await each.stop()))

  t.same(ran, ['02', '03', '04', '05', '06'].map(hour))
  t.equal((await sql`SELECT DISTINCT name FROM projects WHERE name LIKE '2026-05%'`).length, 5)
  t.match(await progressOf('test:once'), { done_through: new Date(hour('07')), error: '' })
})

t.test('a task that fails is tried again later, with its error, and delays no other one', async (t) => {
  let tries = 0
  const windows: TimeWindow[] = []
  const failing: WindowTask = {
    subject: 'test:failing',
    size: 'hour',
    since: new Date(hour('06')),
    async run (window) {
      windows.push(window)
      if (++tries === 1) throw new Error('the target is full')
      return undefined
    }
  }
  const hanging: WindowTask = {
    ...failing,
    subject: 'test:hanging',
    run: async (_, signal) => await new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(new Error('ended early')))
    })
  }
  // With a lease that no busy machine loses.
  const process = start('d', [hanging, failing], 60_000)
  await waitFor(async () => (await progressOf('test:failing'))?.['failures'] === 1)
  t.match(await progressOf('test:failing'), { error: 'the target is full', done_through: new Date(hour('06')) })
  t.equal(tries, 1, 'not at once')
  await sql`UPDATE window_tasks SET retry_at = now() WHERE subject = 'test:failing'`
  await waitFor(async () => (await progressOf('test:failing'))?.['failures'] === 0)
  await process.stop()
  t.same(windows.map(({ from }) => from.toISOString()), [hour('06'), hour('06')])
  t.match(await progressOf('test:hanging'), { failures: 0 }, 'a stop is no failure')
})

t.test('effects of a process that lost its lease are not committed', async (t) => {
  const { promise: isLost, resolve: lose } = Promise.withResolvers<undefined>()
  const committed: string[] = []
  const taskOf = (owner: string, wait: Promise<undefined>): WindowTask => ({
    subject: 'test:lost',
    size: 'hour',
    since: new Date(hour('06')),
    run: async () => {
      await wait
      return async () => { committed.push(owner) }
    }
  })
  const slow = start('slow', [taskOf('slow', isLost)], 60_000)
  await waitFor(async () => (await progressOf('test:lost'))?.['owner'] === 'slow')
  await sql`UPDATE window_tasks SET leased_until = now() - interval '1 second' WHERE subject = 'test:lost'`
  const other = start('other', [taskOf('other', Promise.resolve(undefined))])
  await waitFor(async () => committed.length === 1)
  lose(undefined)
  await Promise.all([slow.stop(), other.stop()])
  t.same(committed, ['other'])
})

t.test('a process whose renewals get no answer stops before another may take over', async (t) => {
  const reasons: unknown[] = []
  const task: WindowTask = {
    subject: 'test:silent',
    size: 'hour',
    since: new Date(hour('06')),
    async run (_, signal) {
      await sql.begin(async (transaction) => {
        await transaction`SELECT FROM window_tasks WHERE subject = 'test:silent' FOR UPDATE`
        if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve))
        reasons.push(signal.reason)
      })
      return undefined
    }
  }
  const process = start('f', [task], 600)
  await waitFor(async () => reasons.length === 1)
  t.match(reasons, [{ message: /the lease of test:silent has ended/ }])
  await process.stop()
})

t.test('further work runs first, under the same lease', async (t) => {
  const order: string[] = []
  const task: WindowTask = {
    subject: 'test:beside',
    size: 'hour',
    since: new Date(hour('06')),
    beside: async () => { order.push('beside'); return undefined },
    run: async () => { order.push('window'); return undefined }
  }
  const process = start('e', [task])
  await waitFor(async () => order.includes('window'))
  await process.stop()
  t.same(order.slice(0, 2), ['beside', 'window'])
})

t.test('slow tasks leave their places to others, and wait for each other the next time', async (t) => {
  let [through, running, most] = ['', 0, 0]
  const ends: (() => void)[] = []
  const done: string[] = []
  const task = (name: string): WindowTask => ({
    subject: `test:${name}`, size: 'hour', since: new Date(hour('10')),
    async run ({ to }) {
      most = Math.max(most, ++running)
      if (name !== 'quick') await new Promise<void>((resolve) => { ends.push(resolve) })
      running--
      return async () => { done.push(`${name} ${to.toISOString()}`) }
    }
  })
  const tasks = ['a', 'b', 'c', 'd', 'e', 'quick'].map(task)
  const windows = startWindows({
    sql, clickhouse, owner: 'slow', kinds: [{ list: async () => through === '' ? [] : tasks, limit: 4 }], roundMs: 20, quickMs: 2000, logger
  })
  t.teardown(async () => {
    const stopped = windows.stop()
    for (const end of ends) end()
    await stopped
  })
  for (const [window, atOnce, pauseMs] of [['11', 6, 2500], ['12', 3, 500]] as const) {
    await completeThrough(hour(window))
    most = 0
    through = window
    await waitFor(() => done.includes(`quick ${hour(window)}`))
    t.same(done.filter((each) => each.endsWith(hour(window))), [`quick ${hour(window)}`], 'while all others run')
    await waitFor(() => ends.length === atOnce - 1)
    // The last one to begin is slow by then.
    await setTimeout(pauseMs)
    await waitFor(() => {
      for (const end of ends.splice(0)) end()
      return done.filter((each) => each.endsWith(hour(window))).length === 6
    })
    t.ok(most <= atOnce, `${most} at once`)
  }
})
