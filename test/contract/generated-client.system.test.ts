import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { promisify } from 'node:util'
import openapiTS, { astToString, type OpenAPI3 } from 'openapi-typescript'
import t from 'tap'
import ts from 'typescript'
import { startStackOnSharedStores } from '../start-stack.ts'

/** Below node_modules, so that the packages of the client are found from there; among what tests leave. */
const FOLDER = path.join(import.meta.dirname, '..', '..', '.tap')

t.test('the OpenAPI document can be linted, makes a client, and the types of that client are true', async (t) => {
  const stack = await startStackOnSharedStores(t)
  const document = await (await fetch(`${stack.url}/api/schema/`)).json() as OpenAPI3
  await mkdir(FOLDER, { recursive: true })
  const folder = await mkdtemp(path.join(FOLDER, 'generated-client-'))
  t.teardown(async () => await rm(folder, { recursive: true, force: true }))
  await writeFile(path.join(folder, 'openapi.json'), JSON.stringify(document))
  await writeFile(path.join(folder, 'openapi.ts'), astToString(await openapiTS(document)))
  await writeFile(path.join(folder, 'program.ts'), PROGRAM)

  t.same(await lint(folder), [], 'redocly lint finds no error')
  t.same(compile(path.join(folder, 'program.ts')), [], 'a program with the generated types compiles')
  const { walk } = await import(path.join(folder, 'program.ts')) as { walk: (url: string, key: string) => Promise<string[]> }
  t.same(await walk(stack.url, stack.personalApiKey), ['beyond-types', 'changed', 'gone'])
})

interface Finding { severity: string, ruleId: string, message: string }

async function lint (folder: string): Promise<string[]> {
  const cli = path.join(path.dirname(createRequire(import.meta.url).resolve('@redocly/cli/package.json')), 'bin', 'cli.js')
  const args = [cli, 'lint', 'openapi.json', '--format=json', '--max-problems=1000']
  const env = { ...process.env, NODE_OPTIONS: '', REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
  const run = promisify(execFile)(process.execPath, args, { cwd: folder, env, maxBuffer: 10_000_000 })
  // It ends with 1 when it has found something, which its report says as well.
  const { stdout } = await run.catch((error: { stdout?: string }) => ({ stdout: error.stdout ?? '' }))
  const { problems } = JSON.parse(stdout) as { problems: Finding[] }
  return problems.filter(({ severity }) => severity === 'error').map(({ ruleId, message }) => `${ruleId}: ${message}`)
}

/** What the compiler says against a program, in its strictest setting; none when all is well. */
function compile (file: string): string[] {
  const program = ts.createProgram([file], {
    strict: true, noEmit: true, skipLibCheck: true, noUncheckedIndexedAccess: true, allowImportingTsExtensions: true,
    types: [],
    target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext
  })
  return ts.getPreEmitDiagnostics(program).map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))
}

/** Reads every list, and takes a flag through its life. Each field that it names is checked by the compiler. */
const PROGRAM = `
import createClient from 'openapi-fetch'
import type { paths } from './openapi.ts'

export async function walk (baseUrl: string, key: string): Promise<string[]> {
  const client = createClient<paths>({ baseUrl, headers: { authorization: 'Bearer ' + key } })
  const { data: me, error } = await client.GET('/api/users/@me')
  if (me === undefined) throw new Error(error.detail)
  const { data: projects } = await client.GET('/api/projects', { params: { query: { limit: 10 } } })
  const id: number | undefined = projects?.results?.find(({ name }) => name === me.team?.name)?.id
  const params = { path: { project_id: String(id) } }
  const lists = await Promise.all([
    client.GET('/api/projects/{project_id}/experiments', { params }),
    client.GET('/api/projects/{project_id}/feature_flags', { params }),
    client.GET('/api/projects/{project_id}/event_definitions', { params: { ...params, query: { ordering: '-volume_30_day' } } }),
    client.GET('/api/projects/{project_id}/property_definitions', { params: { ...params, query: { type: 'person' } } }),
    client.GET('/api/projects/{project_id}/dead_letters', { params }),
    client.GET('/api/projects/{project_id}/dead_letters/groups', { params }),
    client.GET('/api/projects/{project_id}/ingestion_warnings/summary', { params }),
    client.GET('/api/projects/{project_id}/persons', { params: { ...params, query: { search: 'a' } } })
  ])
  for (const { data, response } of lists) if (data?.results === undefined) throw new Error(response.url + ' ' + response.status)

  const body = { key: 'beyond-types', filters: { groups: [{ rollout_percentage: 100 }] } }
  const { data: flag } = await client.POST('/api/projects/{project_id}/feature_flags', { params, body })
  if (flag === undefined) throw new Error('no flag')
  const one = { path: { ...params.path, id: flag.id } }
  const { data: changed } = await client.PATCH('/api/projects/{project_id}/feature_flags/{id}', { params: one, body: { name: 'changed' } })
  await client.DELETE('/api/projects/{project_id}/feature_flags/{id}', { params: one })
  const { response } = await client.GET('/api/projects/{project_id}/feature_flags/{id}', { params: one })
  return [flag.key, changed?.name ?? '', response.status === 404 ? 'gone' : String(response.status)]
}
`
