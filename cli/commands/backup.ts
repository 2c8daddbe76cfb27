import path from 'node:path'
import type { Command } from 'commander'
import type { BackupManifest } from '../backup/backup-folder.ts'
import { loadSettings } from '../../platform/load-settings.ts'
import { createBackup } from '../backup/create-backup.ts'
import { restoreBackup } from '../backup/restore-backup.ts'
import type { CliContext } from '../cli-context.ts'
import { JSON_OPTION, printFields, type Output } from '../terminal-output.ts'
import { readDuration } from '../read-arguments.ts'

/** `millrace backup DIR` and `millrace restore DIR`, for the embedded stack. */
export function addBackupCommands (program: Command, context: CliContext): void {
  program.command('backup')
    .description('copy all data of the running embedded stack into an empty folder')
    .argument('<folder>', 'empty or missing folder')
    .option('--base <folder>', 'earlier backup, with which it shares the files that did not change, as hard links')
    .option('--wait <duration>', 'maximum wait until all acknowledged events are stored', readDuration, 300)
    .option(...JSON_OPTION)
    .action(async (folder: string, { wait, base, ...output }: Output & { wait: number, base?: string }) => {
      const options = {
        dataDir: findDataDir(context), folder: path.resolve(folder), storeMs: wait * 1000,
        base: base === undefined ? undefined : path.resolve(base)
      }
      printFields(context, summarize(await createBackup(context, options)), output)
    })

  program.command('restore')
    .description('fill an empty data directory from a backup; Millrace must not be running on it')
    .argument('<folder>', 'folder that "backup" wrote')
    .option(...JSON_OPTION)
    .action(async (folder: string, output: Output) => {
      const options = { dataDir: findDataDir(context), folder: path.resolve(folder) }
      const { manifest, migrations } = await restoreBackup(context, options)
      printFields(context, { ...summarize(manifest), migrations }, output)
    })
}

/** Absolute. */
export function findDataDir ({ env }: CliContext): string {
  return path.resolve(loadSettings(env, ['MILLRACE_DATA_DIR']).MILLRACE_DATA_DIR)
}

/** What a person wants to know of a backup. */
export function summarize (manifest: BackupManifest): Record<string, unknown> {
  return {
    version: manifest.version,
    complete_up_to: manifest.startedAt,
    events: manifest.clickhouse.tables.events?.rows ?? 0,
    persons: manifest.postgres.tables.persons?.rows ?? 0,
    dead_letters: manifest.deadLetters,
    files: manifest.files.length,
    bytes: manifest.files.reduce((sum, { bytes }) => sum + bytes, 0),
    shared_bytes: manifest.base?.sharedBytes ?? 0
  }
}
