import { type Command } from 'commander'
import { createProject } from '../../api/keys/create-project.ts'
import { listProjects } from '../../api/keys/list-projects.ts'
import { rotateProjectKey } from '../../api/keys/rotate-project-key.ts'
import { type CliContext } from '../cli-context.ts'
import { JSON_OPTION, printFields, printRows, type Output } from '../print-rows.ts'
import { readDuration, readId, readText, readTimezone } from '../read-arguments.ts'

/** `millrace projects create|list|rotate-key`. */
export function addProjectsCommands (program: Command, context: CliContext): void {
  const projects = program.command('projects').description('projects and the keys that SDKs send')

  projects.command('create')
    .description('create a project and show its API key')
    .argument('<name>', 'name of the project', readText(200))
    .option('--timezone <zone>', 'days of reports begin at its midnight', readTimezone, 'UTC')
    .option(...JSON_OPTION)
    .action(async (name: string, { timezone, ...output }: Output & { timezone: string }) => {
      const { id, apiKey } = await createProject(await context.postgres(), { name, timezone })
      printFields(context, { id, name, timezone, apiKey }, output)
    })

  projects.command('list')
    .description('list all projects with the keys they accept')
    .option(...JSON_OPTION)
    .action(async (output: Output) => {
      printRows(context, await listProjects(await context.postgres()), [
        ['id', ({ id }) => id],
        ['name', ({ name }) => name],
        ['timezone', ({ timezone }) => timezone],
        ['keys', ({ apiKeys }) => apiKeys.map(({ apiKey, expiresAt }) =>
          expiresAt === null ? apiKey : `${apiKey} (until ${new Date(expiresAt).toISOString()})`)]
      ], output)
    })

  projects.command('rotate-key')
    .description('give a project a new API key; the old one goes on working for a while')
    .argument('<id>', 'id of the project', readId)
    .option('--grace <duration>', 'how long the old key is accepted; 0 refuses it at once', readDuration, 604_800)
    .option(...JSON_OPTION)
    .action(async (projectId: number, { grace, ...output }: Output & { grace: number }) => {
      const rotated = await rotateProjectKey(await context.postgres(), {
        projectId, graceSeconds: grace, now: new Date(context.now())
      })
      printFields(context, { ...rotated }, output)
    })
}
