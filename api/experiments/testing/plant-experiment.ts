/** An experiment whose exposures and payments are known. */
import { randomUUID } from 'node:crypto'
import type { ClickHouseClient } from '@clickhouse/client'
import type { TestContext } from '../../../test/support/test-context.ts'
import { createTestClickHouse } from '../../../test/support/test-stores.ts'
import { createTestApi } from '../../testing/create-test-api.ts'

export const START = Date.parse('2026-01-01T00:00:00Z')
export const NOW = Date.parse('2026-01-10T12:00:00Z')
export const DAY = 86_400_000

/** The stores and the API of a test file; each test has a project of its own. */
export async function createExperiments (t: TestContext) {
  const { client } = await createTestClickHouse(t)
  const shared = await createTestApi(t, { clickhouse: client, now: () => NOW })
  const plantInto = async (project: number, planted: Planted): Promise<void> => await plant(client, project, planted)
  return { client, shared, plant: plantInto }
}

export const EXPERIMENT = {
  name: 'Checkout', feature_flag_key: 'checkout', start_date: '2026-01-01T00:00:00Z',
  filters: { insight: 'FUNNELS', events: [{ id: 'paid' }] },
  secondary_metrics: [
    { name: 'Revenue', filters: { insight: 'TRENDS', events: [{ id: 'paid', math: 'sum', math_property: 'amount' }] } },
    { name: 'Basket', kind: 'mean', event: 'paid', property: 'amount' }
  ]
}

export interface Planted {
  people: number
  /** Which variant a person sees. */
  variant: (person: number) => string
  /** Whether a person pays. */
  converts: (person: number, variant: string) => boolean
}

/** Plants exposures over the first eight days, and payments of 10 an hour after. */
async function plant (client: ClickHouseClient, projectId: number, planted: Planted): Promise<void> {
  const { people, variant, converts } = planted
  const values: object[] = []
  for (let person = 0; person < people; person++) {
    const at = START + Math.floor(person / people * 8 * DAY)
    const common = { project_id: projectId, distinct_id: `person ${person}`, received_at: at }
    const shown = variant(person)
    values.push({
      ...common, uuid: randomUUID(), event: '$feature_flag_called', timestamp: at, properties: '{}',
      feature_flag: 'checkout', feature_flag_response: shown
    })
    if (converts(person, shown)) {
      values.push({ ...common, uuid: randomUUID(), event: 'paid', timestamp: at + 3_600_000, properties: '{"amount": 10}' })
    }
  }
  await client.insert({ table: 'events', values, format: 'JSONEachRow' })
}

/** Spreads people evenly over 0 to 999, whatever their number's order. */
export const luck = (person: number): number => person * 7919 % 1000
