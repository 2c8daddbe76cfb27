import t from 'tap'
import { createRandom } from '../support/random.ts'
import { startSdkLoad } from '../faults/sdk-load.ts'
import { waitFor } from '../support/wait-for.ts'
import { checkCluster, CLUSTER_PERSONAL_KEY, CLUSTER_PROJECT_KEY, startClusterSystem } from './cluster-system.ts'

t.test('two processes of every tier work side by side as one system', async (t) => {
  const system = await startClusterSystem(t, { natsNodes: 1, partitions: 2, ingest: 2, pipeline: 2, api: 2 })
  const load = startSdkLoad({
    ports: system.ingest.map(({ port }) => port), apiKey: CLUSTER_PROJECT_KEY, eventsPerSecond: 800,
    random: createRandom(3), refusableShare: 0, repeatShare: 0.1, togetherShare: 0.1
  })
  t.teardown(async () => { await load.stop() })
  const [first, second] = system.ingest.map(({ port }) => `http://127.0.0.1:${port}`)

  // Each ingest process forwards to another API process.
  const created = await fetch(`${first}/api/projects/1/feature_flags/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${CLUSTER_PERSONAL_KEY}` },
    body: JSON.stringify({ key: 'side-by-side', filters: { groups: [{ properties: [], rollout_percentage: 100 }] } })
  })
  t.equal(created.status, 201, await created.text())
  for (const origin of [first, second]) {
    await waitFor(async () => {
      const response = await fetch(`${origin}/decide/?v=3`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ api_key: CLUSTER_PROJECT_KEY, distinct_id: 'somebody' })
      })
      const { featureFlags } = await response.json() as { featureFlags: Record<string, unknown> }
      return featureFlags['side-by-side'] === true
    })
  }
  for (let batch = 0; batch < 50; batch++) await load.nextAcknowledged()
  await system.ingest[0]!.kill()
  await system.api[1]!.kill()
  for (let batch = 0; batch < 50; batch++) await load.nextAcknowledged()
  await load.stop()

  t.equal(load.ledger.givenUp, 0)
  await checkCluster(t, system, load.ledger)
})
