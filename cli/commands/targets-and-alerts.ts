import type { Command } from 'commander'
import type { CliContext } from '../cli-context.ts'
import { listAll } from '../management-client.ts'
import { addOfOne, addOfProject, type OfProject } from '../of-project.ts'
import { printFields, printRows } from '../terminal-output.ts'

/** The API waits 12 s for a delivery, and 90 s for the queries of a dry run. In milliseconds. */
const TEST_MS = 30_000
const DRY_RUN_MS = 120_000

/** `millrace targets list|test|secret`; `millrace request` makes and changes them. */
export function addTargetsCommands (program: Command, context: CliContext): void {
  const targets = program.command('targets').description('where events, alerts and boards are sent: Slack, webhooks and mail')

  addOfProject(targets, 'list', 'list targets, their queues and their last errors').action(async ({ project, ...output }: OfProject) => {
    const found = await listAll(async (query) => await context.api.get('/api/projects/{project_id}/targets', { params: { project_id: project }, query }))
    printRows(context, found, ['id', 'name', 'kind', 'url', 'enabled', 'waiting', ['failing since', 'failing_since'], ['error', 'last_error']], output)
  })

  addOfOne(targets, 'test', 'send a test, and wait for its delivery').action(async (id: number, { project, ...output }: OfProject) => {
    const found = await context.api.post('/api/projects/{project_id}/targets/{id}/test', { params: { project_id: project, id }, timeoutMs: TEST_MS })
    printFields(context, found, output)
    if (!found.delivered) context.exitCode = 1
  })

  addOfOne(targets, 'secret', 'show the secret that signs webhooks').action(async (id: number, { project, ...output }: OfProject) => {
    printFields(context, await context.api.post('/api/projects/{project_id}/targets/{id}/secret', { params: { project_id: project, id } }), output)
  })
}

const WINDOW_COLUMNS = ['from', 'to', 'value', 'before', 'outcome'] as const

/** `millrace alerts list|windows|dry-run`. */
export function addAlertsCommands (program: Command, context: CliContext): void {
  const alerts = program.command('alerts').description('alerts on questions and saved queries, and boards that are sent')

  addOfProject(alerts, 'list', 'list alerts, and whether they fire').action(async ({ project, ...output }: OfProject) => {
    const found = await listAll(async (query) => await context.api.get('/api/projects/{project_id}/alerts', { params: { project_id: project }, query }))
    printRows(context, found, ['id', 'name', 'every', 'enabled', ['firing', 'is_firing'], ['evaluated through', 'evaluated_through'], ['error', 'last_error']], output)
  })

  addOfOne(alerts, 'windows', 'list the windows that were evaluated').action(async (id: number, { project, ...output }: OfProject) => {
    const { results } = await context.api.get('/api/projects/{project_id}/alerts/{id}/windows', { params: { project_id: project, id } })
    printRows(context, results, [...WINDOW_COLUMNS], output)
  })

  addOfOne(alerts, 'dry-run', 'show when it would have fired in the last 30 days').action(async (id: number, { project, ...output }: OfProject) => {
    const params = { project_id: project }
    const { about, every, condition } = await context.api.get('/api/projects/{project_id}/alerts/{id}', { params: { ...params, id } })
    const { results } = await context.api.post('/api/projects/{project_id}/alerts/dry_run', { params, body: { about, every, condition }, timeoutMs: DRY_RUN_MS })
    printRows(context, results, [...WINDOW_COLUMNS], output)
  })
}
