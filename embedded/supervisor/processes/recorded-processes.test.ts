import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { endRecordedProcesses, openProcessRecord, readProcessIdentity } from './recorded-processes.ts'
import { spawnProcess } from './spawn-process.ts'

t.test('ends what a killed stack left behind', async (t) => {
  const dataDir = t.testdir()
  const record = openProcessRecord(dataDir)
  const child = await spawnSleep(dataDir, (spawned) => record.add(spawned))
  t.teardown(() => child.stop())
  await record.written()

  t.same(await endRecordedProcesses(dataDir), ['sleeper'])

  t.equal(await readProcessIdentity(child.pid), undefined)
})

t.test('forgets processes that ended', async (t) => {
  const dataDir = t.testdir()
  const record = openProcessRecord(dataDir)
  const child = await spawnSleep(dataDir, (spawned) => record.add(spawned))
  await child.stop()
  await record.written()

  t.same(await endRecordedProcesses(dataDir), [])
})

t.test('leaves a process alone that has the number of a recorded one but is another', async (t) => {
  const dataDir = t.testdir()
  const child = await spawnSleep(dataDir)
  t.teardown(() => child.stop())
  const recorded = { name: 'sleeper', pid: child.pid, identity: 'of an earlier boot', stopSignal: 'SIGTERM' }
  await writeFile(path.join(dataDir, 'processes.json'), JSON.stringify([recorded]))

  t.same(await endRecordedProcesses(dataDir), [])

  t.ok(await readProcessIdentity(child.pid))
})

async function spawnSleep (dataDir: string, onSpawn?: Parameters<typeof spawnProcess>[0]['onSpawn']) {
  return await spawnProcess({
    name: 'sleeper', command: 'sleep', args: ['60'], env: {}, logFile: path.join(dataDir, 'sleeper.log'), onSpawn
  })
}
