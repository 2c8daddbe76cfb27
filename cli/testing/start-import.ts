/** An import into a running system, for tests: its folders, its command, and the stored events. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import path from 'node:path'
import type { Test } from 'tap'
import { createStackProject, type StackProject } from '../../test/start-stack.ts'
import { storesFolder } from '../../test/support/stores-folder.ts'
import { type Captured, runCaptured } from './run-captured.ts'

export const START = Date.parse('2023-01-01')

export interface Import {
  stack: StackProject
  folder: string
  run: (...args: string[]) => Promise<Captured>
  /** Events of the project, by name. */
  counts: () => Promise<Record<string, number>>
}

/** A project of a running system, and a folder for an export of its own. */
export async function startImport (t: Test, { withProjectKey = false } = {}): Promise<Import> {
  const stack = await createStackProject(t)
  const key = withProjectKey ? await createProjectKey(stack) : stack.personalApiKey
  const folder = await mkdtemp(path.join(storesFolder(), 'millrace-import-'))
  t.teardown(async () => await rm(folder, { recursive: true, force: true }))
  await mkdir(path.join(folder, 'export'))
  const where = ['--project', String(stack.project), '--state', path.join(folder, 'state'), '--events-per-second', '0']
  return {
    stack,
    folder: path.join(folder, 'export'),
    run: async (...args) => await runCaptured(['import', ...args, ...where], { MILLRACE_URL: stack.url, MILLRACE_KEY: key }),
    async counts () {
      const rows = await stack.select<{ event: string, n: string }>(
        'SELECT event, count() AS n FROM events WHERE project_id = {project:UInt32} GROUP BY event ORDER BY event', { project: stack.project })
      return Object.fromEntries(rows.map(({ event, n }) => [event, Number(n)]))
    }
  }
}

/** A key that may do no more than an import needs. */
async function createProjectKey ({ url, personalApiKey, project }: StackProject): Promise<string> {
  const response = await fetch(`${url}/api/personal_api_keys/`, {
    method: 'POST',
    headers: { authorization: `Bearer ${personalApiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ label: 'import', scopes: ['project:read', 'event:read'], scoped_teams: [project] })
  })
  const { value } = await response.json() as { value: string }
  return value
}

/** An event as a batch export of PostHog has it, its objects as JSON texts. */
export function posthogRow (i: number, names = ['seen', 'paid', 'Ünïcode ✓']): Record<string, unknown> {
  const uuid = `${i.toString(16).padStart(8, '0')}-aaaa-4bbb-8ccc-123456789012`
  return {
    uuid, event: names[i % names.length], distinct_id: `user ${i % 50}`, timestamp: new Date(START + i * 3_600_000 + i % 1000).toISOString(),
    properties: JSON.stringify({ amount: i / 7, text: 'ä "quoted"\n', list: [1, { deep: null }], $set: { plan: i % 3 } }), elements_chain: '',
    person_id: 'p', team_id: 1, created_at: new Date(START).toISOString(), _inserted_at: new Date(START).toISOString()
  }
}

/** The same as JSON Lines have it. */
export function nested (row: Record<string, unknown>): Record<string, unknown> {
  return { ...row, properties: JSON.parse(String(row['properties'])) }
}

export const lines = (rows: readonly unknown[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join('')
