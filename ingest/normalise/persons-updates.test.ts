import t from 'tap'
import type { EventRow } from '../event.ts'
import { derivePersonsUpdates } from './persons-updates.ts'

const row: EventRow = {
  projectId: 1, uuid: { a: 1, b: 0x7000, c: 0x80000000, d: 2 }, event: 'order paid', distinctId: 'ann', timestamp: Date.UTC(2026, 10, 21),
  receivedAt: Date.UTC(2026, 10, 21), groups: [], properties: '', propertyTypes: '', promoted: [], schemaVersion: 0, isBot: false, sampleWeight: 1
}
const HOST = { $os: 'Linux', $os_version: '6.12', $os_name: 'Debian' }

function changeOf (properties: Record<string, unknown>): unknown {
  const [update] = derivePersonsUpdates(row, { $set: { plan: 'pro' }, ...properties }, () => true)
  return update?.kind === 'person' ? { set: update.set, setOnce: update.setOnce } : update
}

t.test('the operating system of a server is not the person\'s, the page that it reports is', async (t) => {
  const page = { $current_url: 'https://shop.example/', $browser: 'Firefox', utm_source: 'mail' }
  const initial = { $initial_current_url: 'https://shop.example/', $initial_browser: 'Firefox', $initial_utm_source: 'mail' }

  t.same(changeOf({ ...HOST, ...page, $is_server: true }), { set: { ...page, plan: 'pro' }, setOnce: initial })
  t.same(changeOf({ ...HOST, $is_server: true, $set: { $os: 'iOS' } }), { set: { $os: 'iOS' }, setOnce: undefined }, 'what is set is set')
  for (const isClient of [{}, { $is_server: false }, { $is_server: 'yes' }]) {
    t.same(changeOf({ ...HOST, ...isClient }), {
      set: { ...HOST, plan: 'pro' }, setOnce: { $initial_os: 'Linux', $initial_os_version: '6.12', $initial_os_name: 'Debian' }
    })
  }
})
