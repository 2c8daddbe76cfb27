import { fork } from 'node:child_process'
import path from 'node:path'

/** The reference server: a Fastify that parses each body and answers `answer`, in a process of its own. */
export async function startBareServer (answer: object): Promise<{ port: number, pid: number, stop: () => void }> {
  const child = fork(path.join(import.meta.dirname, 'bare-fastify.ts'))
  child.send(answer)
  const port = await new Promise<number>((resolve, reject) => {
    child.once('message', (message) => resolve(message as number))
    child.once('exit', (code) => reject(new Error(`the bare server ended with ${code}`)))
  })
  return { port, pid: child.pid as number, stop: () => { child.kill() } }
}
