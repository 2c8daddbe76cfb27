import { fork } from 'node:child_process'
import path from 'node:path'
import { type LoadMessage, type LoadOrder } from './main.ts'
import { type LoadResult } from './send-requests.ts'

/** A load generator that has prepared its bodies and waits. */
export interface PreparedLoad {
  /** Bytes that it will send. */
  bytes: number
  /** Sends everything and resolves with what came back. */
  run (): Promise<LoadResult>
}

/** Starts a load generator process and resolves when its bodies are prepared. */
export async function prepareLoad (order: LoadOrder): Promise<PreparedLoad> {
  const child = fork(path.join(import.meta.dirname, 'main.ts'))
  const receive = async <K extends LoadMessage['kind']> (kind: K): Promise<Extract<LoadMessage, { kind: K }>> =>
    await new Promise((resolve, reject) => {
      child.once('exit', (code) => reject(new Error(`the load generator ended with ${code}`)))
      child.on('message', (message: LoadMessage) => {
        if (message.kind === kind) resolve(message as Extract<LoadMessage, { kind: K }>)
      })
    })
  const prepared = receive('prepared')
  child.send(order)
  const { bytes } = await prepared
  return {
    bytes,
    async run () {
      const done = receive('done')
      child.send('go')
      return (await done).result
    }
  }
}
