/** What the kept backups of `backups/` hold: planted through HTTP and the command line, the same in every version. */

/** Keys of the planted project and its first user; they open nothing but a restored fixture. */
export const PLANTED_KEYS = { project: 'phc_fixture_project_key', personal: 'phx_fixture_personal_key' } as const

/** One request, so that each table of ClickHouse gets one part. */
export const PLANTED_EVENTS = [
  event(1, 'order paid', 'anonymous-1', { amount: 12.5, plan: 'free', tags: ['a', 'b'] }),
  event(2, '$identify', 'jo', { $anon_distinct_id: 'anonymous-1', $set: { plan: 'pro', age: 31 } }),
  event(3, 'order paid', 'jo', { amount: 9007199254740993n, plan: 'pro', $set_once: { first_seen: 'shop' } }),
  event(4, 'order paid', 'sam', { amount: -1, plan: 'free', text: 'Zürich ✓ "quoted"' }),
  event(5, '$create_alias', 'sam', { alias: 'samuel' }),
  event(6, '$groupidentify', 'jo', { $group_type: 'company', $group_key: 'acme', $group_set: { seats: 5 } }),
  event(7, 'page seen', 'samuel', { $current_url: 'https://shop.example/', $set: { plan: 'team' } }),
  // Its person would become larger than a person may be: the event is stored, the update dead-lettered.
  event(8, 'page seen', 'large', { $set: { blob: 'x'.repeat(700_000) } })
] as const

/** A flag whose answer depends on the person. */
export const PLANTED_FLAG = {
  key: 'checkout-beta',
  name: 'New checkout',
  active: true,
  filters: { groups: [{ properties: [{ key: 'plan', value: 'pro', operator: 'exact', type: 'person' }], rollout_percentage: 100 }] }
} as const

/** Of the event definition of `order paid`. */
export const PLANTED_TAGS = ['revenue', 'kept']

/** The commands after which `events` has a column `p_plan`, and events of the second project go after 4,000 days. */
export const PLANTED_COMMANDS = [
  ['projects', 'create', 'Second'],
  ['retention', 'set', '--project', '2', '--days', '4000'],
  ['properties', 'promote', 'plan', '--type', 'String']
] as const

/** The body of a batch; numbers beyond 2^53 as they are. */
export function plantedBatch (): string {
  const body = { api_key: PLANTED_KEYS.project, batch: PLANTED_EVENTS }
  const text = JSON.stringify(body, (_, value: unknown) => typeof value === 'bigint' ? `bigint ${value}` : value)
  return text.replaceAll(/"bigint (\d+)"/g, '$1')
}

function event (number: number, name: string, distinctId: string, properties: Record<string, unknown>): PlantedEvent {
  return {
    uuid: `018f0000-0000-7000-8000-00000000000${number}`,
    event: name,
    distinct_id: distinctId,
    timestamp: `2026-11-${10 + number}T10:00:00.000Z`,
    properties
  }
}

interface PlantedEvent {
  uuid: string
  event: string
  distinct_id: string
  timestamp: string
  properties: Record<string, unknown>
}
