import { createHash } from 'node:crypto'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { runCaptured, startApi } from '../testing/run-captured.ts'
import { verifyExport } from './verify-export.js'

const hash = (content: string): string => createHash('sha256').update(content).digest('hex')

/** An export of three hours, one of them empty and one with two revisions. */
async function writeExport (root: string): Promise<void> {
  let previous: string | null = null
  const windows: Array<[hour: number, revision: number, content: string | null]> = [[6, 0, null], [7, 0, null], [6, 1, 'without somebody'], [8, 0, 'eight']]
  for (const [index, [hour, revision, content]] of windows.entries()) {
    const folder = path.join(root, `1/lake-abc/events/date=2026-05-04/hour=0${hour}`)
    await mkdir(folder, { recursive: true })
    const files = content === null ? [] : [{ name: `r${revision}.parquet`, rows: 1, bytes: content.length, sha256: hash(content) }]
    if (content !== null) await writeFile(path.join(folder, `r${revision}.parquet`), content)
    const at = (hour: number): string => `2026-05-04T0${hour}:00:00.000Z`
    const manifest: string = JSON.stringify({ table: 'events', window: { from: at(hour), to: at(hour + 1) }, revision, sequence: index + 1, previous, rows: files.length, files })
    await writeFile(path.join(folder, `r${revision}.manifest.json`), manifest)
    previous = hash(manifest)
  }
}

t.test('verify proves a whole export, and names each thing that is not as it was written', async (t) => {
  const root = t.testdir({})
  const verify = async (folder = root, ...options: string[]): Promise<string> => {
    const { code, out, err } = await runCaptured(['exports', 'verify', folder, ...options], {})
    return `${code} ${out}${err}`
  }
  await writeExport(root)
  t.match(await verify(), /^0 table +windows .*\n1\/lake-abc\/events +3 +2 +2 +[0-9a-f]{64}\n$/)
  t.match(await verify(path.join(root, '1/lake-abc/events')), /^0 /)
  const [last = ''] = /[0-9a-f]{64}/.exec(await verify()) ?? []
  t.match(await verify(root, '--last', last), /^0 /)
  t.match(await verify(root, '--last', hash('other')), /^1 .*\n.*\nno chain ends with /)
  const day = path.join(root, '1/lake-abc/events/date=2026-05-04')
  const damages: Array<[damage: () => Promise<unknown>, RegExp]> = [
    [async () => await writeFile(path.join(day, 'hour=08/r0.parquet'), 'eighT'), /hour=08\/r0\.parquet: was changed/],
    [async () => await rm(path.join(day, 'hour=06/r1.parquet')), /hour=06\/r1\.parquet: is missing/],
    [async () => await rm(path.join(day, 'hour=07'), { recursive: true }), /hour=08\/r0\.manifest\.json: the windows from 2026-05-04T07:00:00.000Z to 2026-05-04T08:00:00.000Z are missing/],
    [async () => await rm(path.join(day, 'hour=06/r0.manifest.json')), /a revision of the window 2026-05-04T06:00:00.000Z is missing/],
    [async () => await writeFile(path.join(day, 'hour=08/r0.manifest.json'), '{'), /hour=08\/r0\.manifest\.json: is not a manifest/],
    [async () => await writeFile(path.join(day, '../added.parquet'), 'x'), /events\/added\.parquet: not in the newest manifest/],
    [async () => {
      await mkdir(path.join(root, '1/lake-abc/persons/date=2026-05-04'), { recursive: true })
      await writeFile(path.join(root, '1/lake-abc/persons/date=2026-05-04/r0.parquet'), 'x')
    }, /persons\/date=2026-05-04\/r0\.parquet: not in the newest manifest/],
    [async () => await writeFile(path.join(day, 'hour=07/r0.parquet'), 'x'), /hour=07\/r0\.parquet: not in the newest manifest of its window/],
    [async () => await writeFile(path.join(day, 'hour=07/r0.manifest.json'), '{"sequence":2,"window":{"from":"2026-05-04T07:00:00.000Z","to":"2026-05-04T08:00:00.000Z"},"revision":0,"files":[],"rows":0,"previous":"x"}'), /does not follow 1\/lake-abc/]
  ]
  for (const [damage, message] of damages) {
    await rm(root, { recursive: true })
    await writeExport(root)
    await damage()
    t.match(await verify(), /^1 /)
    t.match(await verify(), message)
  }
  await rm(root, { recursive: true })
  await mkdir(root)
  t.match(await verify(), /there is no manifest in the folder/)
})

t.test('verify names a manifest whichever of its bytes was changed', async (t) => {
  const root = t.testdir({})
  await writeExport(root)
  const file = '1/lake-abc/events/date=2026-05-04/hour=06/r1.manifest.json'
  const content = await readFile(path.join(root, file))
  for (let at = 0; at < content.length; at++) {
    const changed = Buffer.from(content)
    changed[at] = (changed[at] ?? 0) ^ 1
    await writeFile(path.join(root, file), changed)
    const { problems } = await verifyExport(root)
    t.match(problems.join('\n'), file, `byte ${at}`)
  }
})

t.test('exports are listed with how far they have come, and earlier windows are planned', async (t) => {
  const { client: clickhouse } = await createTestClickHouse(t)
  await clickhouse.command({ query: "INSERT INTO watermark_reached SELECT 0, toDateTime64('2026-05-04 10:30:00', 3), tuple(now64(3), '')" })
  const api = await startApi(t, { clickhouse })
  const { call, projectId } = await api.inNewProject()
  const { body: { id } } = await call('POST', '~/exports', { name: 'lake', schedule: 'hour', target: { kind: 'folder' } })
  const run = async (line: string) => await api.run(...line.split(' '), '--project', String(projectId))

  t.match(JSON.parse((await run(`exports run ${id} --from 2026-05-04T00:00:00Z --to 2026-05-04T03:00:00Z --json`)).out), { planned: 3 })
  t.match((await run('exports list')).out, new RegExp(`lake +hour +folder:${projectId}/lake-\\w+ .* 3 *\\n$`))
  t.match(JSON.parse((await run('exports list --json')).out), [{ id, progress: { planned: 3, files: 0 }, error: '' }])
  t.match(await run(`exports run ${id} --from 2026-05-04T03:00:00Z --to 2026-05-04T00:00:00Z`), { code: 2, err: /--to must be after --from/ })
  t.match(await run(`exports run ${id} --from 2026-05-04T09:00:00Z --to 2026-05-04T12:00:00Z`), { code: 1, err: /2026-05-04T10:30/ })
})
