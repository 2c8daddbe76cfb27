import { fork } from 'node:child_process'
import { once } from 'node:events'
import http from 'node:http'
import path from 'node:path'
import { json } from 'node:stream/consumers'
import { readAddresses } from '../../deploy/local/data-dir/stack-addresses.ts'
import { type Stack } from '../../test/start-stack.ts'

const READY_TIMEOUT_MS = 20_000

/** Starts another ingest process on the port of the first, as an operator with more cores would. */
export async function startSecondIngest (stack: Stack): Promise<{ pid: number, stop: () => Promise<void> }> {
  const { apiUrl } = await readAddresses(stack.dataDir)
  const child = fork(path.join(import.meta.dirname, '..', '..', 'ingest', 'main.ts'), {
    stdio: 'ignore',
    env: {
      ...process.env,
      MILLRACE_PORT: new URL(stack.url).port,
      MILLRACE_API_URL: apiUrl,
      NATS_URL: stack.natsUrl,
      DATABASE_URL: stack.databaseUrl,
      MILLRACE_DATA_DIR: stack.dataDir
    }
  })
  const deadline = Date.now() + READY_TIMEOUT_MS
  while (!await answers(stack.url, child.pid as number)) {
    if (child.exitCode !== null || Date.now() > deadline) throw new Error('the second ingest process did not start')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return {
    pid: child.pid as number,
    async stop () {
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      await exited
    }
  }
}

/** Whether a new connection, which the kernel gives to one of both processes, reaches this one. */
async function answers (url: string, pid: number): Promise<boolean> {
  const [response] = await once(http.get(`${url}/_readiness`, { agent: false }), 'response') as [http.IncomingMessage]
  return (await json(response) as { pid?: number }).pid === pid
}
