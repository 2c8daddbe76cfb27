import { fork } from 'node:child_process'
import type { AddressInfo } from 'node:net'
import fastify from 'fastify'

/** The reference server: a Fastify that parses each body and answers `answer`, in a process of its own. */
export async function startBareServer (answer: object): Promise<{ port: number, pid: number, stop: () => void }> {
  const child = fork(import.meta.filename)
  child.send(answer)
  const port = await new Promise<number>((resolve, reject) => {
    child.once('message', (message) => resolve(message as number))
    child.once('exit', (code) => reject(new Error(`the bare server ended with ${code}`)))
  })
  return { port, pid: child.pid as number, stop: () => { child.kill() } }
}

// The process itself, started with this file.
if (process.argv[1] === import.meta.filename) process.once('message', serve)

function serve (answer: object): void {
  const app = fastify()
  app.post('*', () => answer)
  void app.listen({ port: 0, host: '127.0.0.1' }).then(() => {
    process.send?.((app.server.address() as AddressInfo).port)
  })
}
