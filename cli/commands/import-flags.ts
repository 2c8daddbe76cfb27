import { type Command, InvalidArgumentError } from 'commander'
import type { CliContext } from '../cli-context.ts'
import { carryOver, type CarriedItem } from '../import/carry-over.ts'
import { IMPORTED_WITH_DIFFERENCES } from '../import/import-options.ts'
import { fetchPosthogProject, readPosthogFiles } from '../import/read-posthog-project.ts'
import { readId } from '../read-arguments.ts'
import { type Column, JSON_OPTION, type Output, printRows } from '../terminal-output.ts'

interface ImportFlagsOptions extends Output {
  project: number
  from?: string
  fromKey?: string
  fromProject: string
  update?: true
  withContinuity?: true
  dryRun?: true
}

export function addImportFlagsCommands (program: Command, context: CliContext): void {
  program.command('import-flags')
    .description('import feature flags, cohorts, experiments and definitions from PostHog, so that every user keeps their variants')
    .argument('[files...]', 'saved API responses, or folders of them', (file: string, before: string[]) => [...before, file], [])
    .option('--project <id>', 'destination project', readId, 1)
    .option('--from <url>', 'read from this PostHog host instead of files')
    .option('--from-key <key>', 'personal API key of that host (default: POSTHOG_PERSONAL_API_KEY)')
    .option('--from-project <id>', 'project on that host', '@current')
    .option('--update', 'overwrite flags that already exist here with different fields')
    .option('--with-continuity', 'include flags with experience continuity; users identified since may get another variant')
    .option('--dry-run', 'report without creating or changing anything')
    .option(...JSON_OPTION)
    .action(async (files: string[], options: ImportFlagsOptions) => await importFlags(context, files, options))
}

async function importFlags (context: CliContext, files: string[], options: ImportFlagsOptions): Promise<void> {
  const { from, fromKey: key = context.env['POSTHOG_PERSONAL_API_KEY'], fromProject: project } = options
  if ((from === undefined) === (files.length === 0) || (from !== undefined && key === undefined)) {
    throw new InvalidArgumentError('give saved files, or --from with --from-key')
  }
  const source = from === undefined ? await readPosthogFiles(files) : await fetchPosthogProject({ host: from, key: key ?? '', project })
  const { dryRun = false, update = false, withContinuity = false, json } = options
  const items = await carryOver(source, {
    api: context.api, projectId: options.project, isDryRun: dryRun, isUpdate: update, withContinuity
  })
  const leftOut = items.filter(({ outcome }) => outcome === 'left out')
  if (json === true) context.stdout.write(`${JSON.stringify({ items, problems: source.problems }, null, 2)}\n`)
  else print(context, items, leftOut)
  for (const problem of source.problems) context.stderr.write(`${problem}\n`)
  context.exitCode = source.problems.length > 0 ? 1 : leftOut.length > 0 ? IMPORTED_WITH_DIFFERENCES : 0
}

function print (context: CliContext, items: readonly CarriedItem[], leftOut: readonly CarriedItem[]): void {
  const kinds = [...Map.groupBy(items, ({ kind }) => kind)]
  const counts = ['created', 'updated', 'unchanged', 'left out'].map((outcome): Column<typeof kinds[0]> =>
    [outcome, ([, of]) => of.filter((item) => item.outcome === outcome).length])
  printRows(context, kinds, [['kind', ([kind]) => kind], ...counts], {})
  const noted = items.filter(({ note }) => note !== undefined)
  if (noted.length > 0) {
    context.stdout.write('\n')
    printRows(context, noted, [['written as served', 'kind'], 'name', 'note'], {})
  }
  if (leftOut.length === 0) return
  context.stdout.write('\n')
  printRows(context, leftOut, [['left out', 'kind'], 'name', 'reason'], {})
}
