import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Reading } from './build-status.ts'
import { createPoll, createStatusPoll } from './poll-status.ts'

function createReadings (): { poll: () => Promise<Reading>, count: () => number } {
  let count = 0
  return {
    async poll () {
      count++
      await sleep(1)
      return { time: new Date(), tiers: [], stores: { nats: null, clickhouse: null, postgres: null, watermark: null } }
    },
    count: () => count
  }
}

t.test('many who ask at once cost two readings', async (t) => {
  const { poll, count } = createReadings()
  const waited: number[] = []
  const status = createStatusPoll({ poll, sleep: async (ms) => { waited.push(ms) } })

  const answers = await Promise.all(Array.from({ length: 20 }, async () => await status()))

  t.equal(count(), 2)
  t.ok(answers.every(({ status }) => status === 'down'), 'nothing answers')
  t.ok(waited[0]! > 900 && waited[0]! <= 1000, `${waited[0]} ms between the readings, for rates`)
})

t.test('one who asks again soon waits for the second to pass, and costs one reading more', async (t) => {
  const { poll, count } = createReadings()
  const waited: number[] = []
  const status = createStatusPoll({ poll, sleep: async (ms) => { waited.push(ms) } })
  await status()

  await status()

  t.equal(count(), 3)
  t.ok(waited[1]! > 500 && waited[1]! <= 1000)
})

t.test('a failure is reported, and the next poll tries again', async (t) => {
  const { poll } = createReadings()
  let isBroken = true
  const status = createStatusPoll({
    poll: async () => {
      if (isBroken) throw new Error('broken')
      return await poll()
    },
    sleep: async () => {}
  })

  await t.rejects(status(), { message: 'broken' })
  isBroken = false
  t.match(await status(), { status: 'down' })
})

t.test('a name that nobody knows is a process that does not answer; an address stays as it is', async (t) => {
  const unavailable = async (): Promise<never> => { throw new Error('unavailable') }
  const poll = createPoll({
    urls: { ingest: ['http://no-such-host.invalid:8000'], pipeline: ['http://127.0.0.1:9'], api: ['http://[::1]:9', 'http://localhost:9'] },
    connections: { nats: unavailable, clickhouse: unavailable, postgres: unavailable },
    now: () => 0
  })

  const { tiers } = await poll()

  t.same(tiers.map(({ tier, url, health }) => [tier, url, health]), [
    ['ingest', 'http://no-such-host.invalid:8000', null], ['pipeline', 'http://127.0.0.1:9', null],
    ['api', 'http://[::1]:9', null], ['api', 'http://localhost:9', null]
  ])
})
