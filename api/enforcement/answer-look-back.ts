import { PassThrough } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { describeClickHouseError } from '../http/describe-clickhouse-error.ts'
import { HttpError, toHttpErrorBody } from '../../engines/errors.ts'
import type { LookBackOptions } from './look-back.ts'

const LINES_TYPE = 'application/x-ndjson'

/** What the description of a route says of its answer in lines. */
export const LINES_DESCRIPTION = 'With `Accept: application/x-ndjson` the answer is lines of JSON while it goes on: ' +
  '`{"checked": events, "total": events}`, at last the prediction, or an error.'

/**
 * Answers with what a look back over stored events finds; while it goes on with lines that say how far it is, if the
 * client asks for them. Then it ends when its client goes away.
 *
 * @throws {HttpError} when ClickHouse refuses, unless the answer is lines: then the last line says it.
 */
export async function answerLookBack (
  request: FastifyRequest, reply: FastifyReply, lookBack: (options: LookBackOptions) => Promise<object>
): Promise<object> {
  const run = async (options: LookBackOptions): Promise<object> =>
    await lookBack(options).catch((error: unknown) => { throw describeClickHouseError(error) })
  return request.headers.accept?.includes(LINES_TYPE) === true ? streamLines(reply, run) : await run({})
}

function streamLines (reply: FastifyReply, run: (options: LookBackOptions) => Promise<object>): FastifyReply {
  const lines = new PassThrough()
  const gone = new AbortController()
  lines.on('close', () => gone.abort())
  const write = (line: object): boolean => lines.writable && lines.write(`${JSON.stringify(line)}\n`)
  const onProgress = (checked: number, total: number): void => { write({ checked, total }) }
  void run({ onProgress, signal: gone.signal })
    // The status is sent long ago, so an error is the last line.
    .catch((error: unknown) => {
      if (!gone.signal.aborted) reply.log.warn({ err: error }, 'a look back over stored events ended with an error')
      return toHttpErrorBody(error instanceof HttpError ? error : new HttpError(500, 'server_error', 'error', 'A server error occurred.'))
    })
    .then(write)
    .finally(() => lines.end())
  return reply.type(LINES_TYPE).send(lines)
}
