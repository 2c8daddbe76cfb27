import { execFileSync } from 'node:child_process'
import { rmSync, statfsSync } from 'node:fs'
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { isRoot } from '../../embedded/postgres/postgres-cluster.ts'
import { startTestServer, TEST_PASSWORDS } from 'chdb-server/testing'
import { connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { createLogger } from '../../platform/logger.ts'
import { createMetrics } from '../../platform/metrics.ts'
import { waitFor } from '../support/wait-for.ts'
import { watchClickHouse } from '../../pipeline/health/watch-clickhouse.ts'

t.test('a disk on which no more files can be made is not healthy, however many bytes are free', {
  skip: isRoot() && process.platform === 'linux' ? false : 'only root on Linux can mount such a disk'
}, async (t) => {
  const disk = await mkdtemp(path.join(tmpdir(), 'millrace-test-inodes-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'nr_inodes=2000', 'millrace-test', disk])
  t.teardown(() => {
    execFileSync('umount', ['--lazy', disk])
    rmSync(disk, { recursive: true })
  })
  process.env.TMPDIR = disk
  const server = await startTestServer(t, { owner: 'millrace', database: 'millrace' })
  const clickhouse = connectClickHouse({ url: `http://millrace:${encodeURIComponent(TEST_PASSWORDS.owner)}@127.0.0.1:${server.port}/millrace` })
  const metrics = createMetrics('pipeline')
  const watch = watchClickHouse({ clickhouse, cluster: '', metrics, logger: createLogger({ component: 'test', level: 'silent' }) })
  t.teardown(async () => {
    await watch.stop()
    await clickhouse.close()
  })

  await waitFor(() => watch.parts().length === 2)
  t.match(watch.parts()[1], { healthy: true, totalFiles: 2000 })

  const filler = path.join(disk, 'filler')
  await mkdir(filler)
  for (let i = statfsSync(disk).ffree - 100; i > 0; i--) await writeFile(path.join(filler, String(i)), '')
  await waitFor(() => watch.parts()[1]?.healthy === false)
  const [, part] = watch.parts()
  t.ok(Number(part?.freeFiles) <= 100 && Number(part?.freeBytes) > 50_000_000)
  t.match(await metrics.registry.metrics(), /clickhouse_disk_free_files\{[^}]*\} \d{1,3}\n/)

  rmSync(filler, { recursive: true })
  await waitFor(() => watch.parts()[1]?.healthy === true)
})
