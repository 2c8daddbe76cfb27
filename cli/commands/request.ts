import { readFile } from 'node:fs/promises'
import { type Command, InvalidArgumentError } from 'commander'
import { HttpError, MillraceError } from '../../engines/errors.ts'
import type { CliContext } from '../cli-context.ts'

const METHODS = ['GET', 'POST', 'PATCH', 'DELETE'] as const

/** Longest wait for an answer without `--timeout`, in milliseconds: a look back over stored events may take it. */
const LOOK_BACK_MS = 600_000

/** `millrace request <method> <path>`: whatever has no command of its own. */
export function addRequestCommands (program: Command, context: CliContext): void {
  program.command('request')
    .description('call any route of the management API and print the JSON of the answer (routes: /docs of your installation)')
    .argument('<method>', METHODS.join(', '), readMethod)
    .argument('<path>', 'path and query, such as /api/projects/1/rules/?limit=10', readPath)
    .option('--data <json>', 'body of the request; @file reads it from a file')
    .action(async (method: string, path: string, { data }: { data?: string }) => {
      if (method === 'GET' && data !== undefined) throw new InvalidArgumentError('GET has no body: omit --data, or choose another method.')
      const body = data === undefined ? undefined : await readBody(data)
      const timeoutMs = program.getOptionValueSource('timeout') === 'default' ? LOOK_BACK_MS : context.timeoutMs
      const answer = await context.api.send(method, path, { body, timeoutMs }).catch(nameField)
      if (answer !== undefined) context.stdout.write(`${JSON.stringify(answer, null, 2)}\n`)
    })
}

function readMethod (text: string): string {
  const method = METHODS.find((each) => each === text.toUpperCase())
  if (method === undefined) throw new InvalidArgumentError(`Give one of ${METHODS.join(', ')}.`)
  return method
}

function readPath (text: string): string {
  if (!text.startsWith('/api/')) throw new InvalidArgumentError('Give a path that begins with /api/.')
  return text
}

/** Also of a file that begins with the mark of its encoding, as editors of Windows write it. */
async function readBody (data: string): Promise<unknown> {
  try {
    const text = data.startsWith('@') ? await readFile(data.slice(1), 'utf8') : data
    return JSON.parse(text.replace(/^\uFEFF/, '')) as unknown
  } catch (cause) {
    if (!data.startsWith('@')) throw new InvalidArgumentError(`--data is not valid JSON: ${cause instanceof Error ? cause.message : String(cause)}`)
    throw new MillraceError('MILLRACE_BODY_UNREADABLE', `cannot read JSON from ${data}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
  }
}

/** The API names the field that is wrong beside its sentence. */
function nameField (error: unknown): never {
  if (!(error instanceof HttpError) || error.attr === null) throw error
  throw new MillraceError('MILLRACE_REQUEST_REFUSED', `${error.attr.replaceAll('__', '.')}: ${error.message}`, { cause: error })
}
