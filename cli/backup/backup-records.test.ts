import t from 'tap'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { readLastFolder, recordBackup } from './backup-records.ts'
import { readBackupSummary } from '../../pipeline/health/watch-backups.ts'

const HOUR = 3_600_000

t.test('the last backup is the one that began last, but for one from the future', async (t) => {
  const { sql } = await createTestPostgres(t)
  const record = async (startedAt: Date, folder: string, error = ''): Promise<void> => {
    await recordBackup(sql, { startedAt, endedAt: startedAt, error, folder, bytes: 1, sharedBytes: 0 })
  }
  t.match(await readBackupSummary(sql), { startedAt: null, failures: 0, lastError: '', lastWarning: '' })
  const [yesterday, today] = [new Date(Date.now() - 24 * HOUR), new Date(Date.now() - HOUR)]
  await record(today, 'today')
  await record(yesterday, 'yesterday')

  // As while a clock was wrong: its age would be negative for years, and the alert on it silent.
  await record(new Date(Date.now() + 1000 * HOUR), 'future')
  await record(today, '', 'the disk is full')

  const { startedAt, ...failures } = await readBackupSummary(sql)
  t.equal(startedAt?.toISOString(), today.toISOString())
  t.same(failures, { seconds: 0, bytes: 1, failures: 1, lastError: 'the disk is full', lastWarning: '' })
  t.equal(await readLastFolder(sql), 'future')

  await recordBackup(sql, {
    startedAt: today, endedAt: today, error: '', warning: 'an old one is not readable', folder: 'today', bytes: 1, sharedBytes: 0
  })
  t.match(await readBackupSummary(sql), { failures: 1, lastError: '', lastWarning: 'an old one is not readable' })
  await record(today, 'today')
  t.match(await readBackupSummary(sql), { lastWarning: '' }, 'until the next one')
})
