import path from 'node:path'
import { type Command, InvalidArgumentError } from 'commander'
import { MillraceError } from '../../engines/errors.ts'
import type { CliContext } from '../cli-context.ts'
import { listAll } from '../management-client.ts'
import { addOfOne, addOfProject, type OfProject } from '../of-project.ts'
import { readInstant } from '../read-arguments.ts'
import { JSON_OPTION, type Output, printFields, printRows, toText } from '../terminal-output.ts'
import { verifyExport } from './verify-export.js'

/** `millrace exports list|run|verify`. */
export function addExportsCommands (program: Command, context: CliContext): void {
  const group = program.command('exports').description('exports of a project to Parquet files: progress, backfill, proof')

  addOfProject(group, 'list', 'list exports and their progress')
    .action(async ({ project, ...output }: OfProject) => {
      const found = await listAll(async (query) => await context.api.get('/api/projects/{project_id}/exports', { params: { project_id: project }, query }))
      printRows(context, found, [
        'id', 'name', 'schedule', ['target', ({ target, folder }) => `${target.kind}:${folder}`], ['through', 'done_through'],
        ['lag', ({ lag_seconds: lag, paused }) => paused ? 'paused' : `${Math.round(lag / 60)} min`],
        ['files', ({ progress }) => progress.files], ['rows', ({ progress }) => progress.rows], ['planned', ({ progress }) => progress.planned], 'error'
      ], output)
    })

  addOfOne(group, 'run', 'export earlier closed windows, from before the export was created; windows and file names are those of the schedule')
    .requiredOption('--from <time>', 'start of the first window', readInstant)
    .requiredOption('--to <time>', 'end of the last window', readInstant)
    .action(async (id: number, { project, from, to, ...output }: OfProject & { from: Date, to: Date }) => {
      if (from >= to) throw new InvalidArgumentError('--to must be after --from.')
      printFields(context, await context.api.post('/api/projects/{project_id}/exports/{id}/run', {
        params: { project_id: project, id }, body: { from: from.toISOString(), to: to.toISOString() }
      }), output)
    })

  group.command('verify')
    .description('verify that no file of an export was changed and no window is missing; needs no server')
    .argument('<folder>', 'folder with the exported tables; of S3, a copy')
    .option('--last <sha256>', 'hash of the last manifest of a table: manifest_sha256 of its windows in the API')
    .option(...JSON_OPTION)
    .action(async (folder: string, { last, ...output }: Output & { last?: string }) => {
      const { problems, tables } = await verifyExport(path.resolve(folder), last)
      printRows(context, tables, ['table', 'windows', 'files', 'rows', 'last_manifest_sha256'], output)
      for (const problem of problems) context.stderr.write(`${toText(problem)}\n`)
      if (problems.length === 0) return
      throw new MillraceError('MILLRACE_EXPORT_DIFFERS', `the export is not what was written: problems found: ${problems.length}`)
    })
}
