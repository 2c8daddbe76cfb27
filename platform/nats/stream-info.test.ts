import type { StreamInfo } from '@nats-io/jetstream'
import t from 'tap'
import { isOfLeader } from './stream-info.ts'

type Cluster = StreamInfo['cluster']

/** Servers by the milliseconds since they were heard; 0: never. */
const clusterOf = (leader: string, ...heardMsAgo: number[]): Cluster => ({
  leader, replicas: heardMsAgo.map((ms, index) => ({ name: `n${index}`, current: true, offline: false, active: ms * 1e6, lag: 0 }))
}) as unknown as Cluster

t.test('a state counts when its server leads, and most servers followed it just now', async (t) => {
  t.ok(isOfLeader(undefined), 'a single server')
  t.ok(isOfLeader(clusterOf('a')), 'one server of a cluster has the stream')
  t.ok(isOfLeader(clusterOf('a', 900, 1900)))
  t.ok(isOfLeader(clusterOf('a', 900, 60_000)), 'one of three is gone')
  t.ok(isOfLeader(clusterOf('a', 900, 0)), 'one of three was never there')
  t.notOk(isOfLeader(clusterOf('', 900, 900)), 'without a leader each answers what it has')
  t.notOk(isOfLeader(clusterOf('a', 3100, 3100)), 'a leader that was cut off')
  t.notOk(isOfLeader(clusterOf('a', 0, 0)))
  t.notOk(isOfLeader(clusterOf('a', 900, 9000, 9000, 9000)), 'two of five')
})
