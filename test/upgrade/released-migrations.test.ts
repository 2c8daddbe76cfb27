import path from 'node:path'
import t from 'tap'
import type { BackupManifest } from '../../cli/backup/backup-folder.ts'
import { readMigrations } from '../../schema/migrate/read-migrations.ts'
import { BACKUP, fileOf, listReleases, readPacked } from './release-files.ts'

const SCHEMA = path.join(import.meta.dirname, '..', '..', 'schema')

t.test('released migrations are as they were released, to the letter', async (t) => {
  const releases = await listReleases()
  t.ok(releases.includes('0.1.0'))
  for (const version of releases) {
    const manifest = JSON.parse(await readPacked(fileOf(version, BACKUP), 'manifest.json')) as BackupManifest
    for (const database of ['postgres', 'clickhouse'] as const) {
      const found = await readMigrations(path.join(SCHEMA, database))
      const now = new Map(found.map(({ name, checksum }) => [name, checksum]))
      const released = Object.entries(manifest[database].checksums ?? {})
      t.ok(released.length > 0)
      for (const [name, checksum] of released) {
        t.equal(now.get(name), checksum, `${database}/${name} of ${version} was edited or removed: restore the file, and add another migration`)
      }
    }
  }
})
