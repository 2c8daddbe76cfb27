import t from 'tap'
import { createMetrics } from '../../platform/metrics.ts'
import type { ActiveQuota, MeasuredUsage } from '../../schema/project-quotas.ts'
import { createQuotas, quotaOfEach, type Quotas } from './quotas.ts'

const QUOTA: ActiveQuota = {
  eventsPerSecond: null, burst: null, eventsPerMonth: null, beyond: 'reject', sampleRate: 0.1, usage: null
}
const A_SECOND: ActiveQuota = { ...QUOTA, eventsPerSecond: 100, burst: 500 }
const A_MONTH: ActiveQuota = { ...QUOTA, eventsPerMonth: 1000 }
const MAY = Date.UTC(2026, 4, 1)
const JUNE = Date.UTC(2026, 5, 1)

interface Clock { quotas: Quotas, set: (time: number) => void, wait: (ms: number) => void }

function create (time = Date.UTC(2026, 4, 10)): Clock {
  return {
    quotas: createQuotas({ metrics: createMetrics('ingest'), now: () => time }),
    set: (to) => { time = to },
    wait: (ms) => { time += ms }
  }
}

function measured (events: number, countedThrough: number, monthBegin = MAY): MeasuredUsage {
  return { monthBegin, events, countedThrough }
}

t.test('lets the burst through at once, then as many as come in by the second; other projects have their own', async (t) => {
  const { quotas, wait } = create()

  t.equal(quotas.admit(1, A_SECOND), 1)
  quotas.spend(1, 500)
  t.throws(() => quotas.admit(1, A_SECOND), { status: 429, code: 'throttled', details: { retryAfterSeconds: 1, projectId: 1 } })
  t.equal(quotas.admit(2, A_SECOND), 1)
  wait(10)
  t.equal(quotas.admit(1, A_SECOND), 1)
})

t.test('takes a batch of any size, and then nothing until it is paid', async (t) => {
  const { quotas, wait } = create()

  quotas.admit(1, A_SECOND)
  quotas.spend(1, 1500)
  t.throws(() => quotas.admit(1, A_SECOND), { code: 'throttled', details: { retryAfterSeconds: 10 } })
  wait(9990)
  t.throws(() => quotas.admit(1, A_SECOND), { code: 'throttled', details: { retryAfterSeconds: 1 } })
  wait(20)
  t.equal(quotas.admit(1, A_SECOND), 1)
  wait(3_600_000)
  quotas.spend(1, 501)
  t.throws(() => quotas.admit(1, A_SECOND), { code: 'throttled' }, 'never more than the burst is saved up')
})

t.test('a quota that samples never refuses, and a peak is no debt for long', async (t) => {
  const { quotas, wait } = create()
  const quota: ActiveQuota = { ...A_SECOND, beyond: 'sample', sampleRate: 0.25 }

  t.equal(quotas.admit(1, quota), 1)
  quotas.spend(1, 1_000_000)
  t.equal(quotas.admit(1, quota), 0.25)
  wait(5010)
  t.equal(quotas.admit(1, quota), 1)
})

t.test('another limit holds at once, with a full bucket', async (t) => {
  const { quotas } = create()

  quotas.admit(1, A_SECOND)
  quotas.spend(1, 100_000)
  t.throws(() => quotas.admit(1, A_SECOND))
  t.equal(quotas.admit(1, { ...A_SECOND, eventsPerSecond: 200 }), 1)
})

t.test('a month: usage measured over all processes, plus events of this one since', async (t) => {
  const { quotas, wait } = create()
  const quota: ActiveQuota = { ...A_MONTH, usage: measured(900, Date.UTC(2026, 4, 10)) }

  t.equal(quotas.admit(1, quota), 1)
  quotas.spend(1, 60)
  wait(20_000)
  t.equal(quotas.admit(1, quota), 1)
  quotas.spend(1, 40)
  t.throws(() => quotas.admit(1, quota), { status: 429, code: 'quota_exceeded', details: { retryAfterSeconds: 60, projectId: 1 } })
  // Measured again: the first 60 are in it, and 10 of another process; the last 40 are not.
  const again: ActiveQuota = { ...A_MONTH, usage: measured(970, Date.UTC(2026, 4, 10) + 10_000) }
  t.throws(() => quotas.admit(1, again), { code: 'quota_exceeded' })
  t.equal(quotas.admit(1, { ...again, eventsPerMonth: 1011 }), 1, '1,010 are used')
  t.throws(() => quotas.admit(1, { ...again, eventsPerMonth: 1010 }))
  t.equal(quotas.admit(1, { ...again, beyond: 'sample' }), 0.1)
})

t.test('nothing measured refuses nothing but what this process has counted itself', async (t) => {
  const { quotas, wait } = create()

  for (let taken = 0; taken < 1000; taken++) {
    t.equal(quotas.admit(1, A_MONTH), 1)
    quotas.spend(1, 1)
    wait(7000)
  }
  t.throws(() => quotas.admit(1, A_MONTH), { code: 'quota_exceeded' })
  // Two hours later, when ClickHouse answers again, only what came after the measurement is added to it.
  t.equal(quotas.admit(1, { ...A_MONTH, usage: measured(990, Date.UTC(2026, 4, 10) + 999 * 7000 - 5000) }), 1)
})

t.test('the month ends at midnight, UTC: own events and measured ones of the month before count no more', async (t) => {
  const { quotas, set } = create(JUNE - 1000)
  const quota: ActiveQuota = { ...A_MONTH, usage: measured(995, JUNE - 30_000) }

  t.equal(quotas.admit(1, quota), 1)
  quotas.spend(1, 5)
  t.throws(() => quotas.admit(1, quota), { code: 'quota_exceeded', details: { retryAfterSeconds: 1 } })
  set(JUNE)
  t.equal(quotas.admit(1, quota), 1, 'although the last measurement is of May')
  quotas.spend(1, 999)
  t.equal(quotas.admit(1, quota), 1)
  quotas.spend(1, 1)
  t.throws(() => quotas.admit(1, quota), { code: 'quota_exceeded' })
  set(JUNE + 20_000)
  t.throws(() => quotas.admit(1, { ...A_MONTH, usage: measured(0, JUNE - 1000, JUNE) }), 'measured before they were taken')
  t.equal(quotas.admit(1, { ...A_MONTH, usage: measured(998, JUNE + 10_000, JUNE) }), 1, 'two of them had been stored before')
})

t.test('a limit of all projects is a quota with a burst of ten seconds; 0 disables it', async (t) => {
  const { quotas } = create()
  const quota = quotaOfEach(10)

  t.equal(quotaOfEach(0), undefined)
  quotas.admit(1, quota!)
  quotas.spend(1, 99)
  quotas.admit(1, quota!)
  quotas.spend(1, 1)
  t.throws(() => quotas.admit(1, quota!), { code: 'throttled', status: 429 })
})
