import { createReadStream } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { createZstdDecompress } from 'node:zlib'
import { jetstream } from '@nats-io/jetstream'
import { headers as createHeaders } from '@nats-io/transport-node'
import { deadLetterSubject } from '../../schema/wire/streams.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { scanDeadLetters } from '../../platform/dead-letters/read-dead-letters.ts'
import { type BackupFile, writeBackupFile } from './backup-files.ts'

interface StoredLetter {
  subject: string
  headers: Record<string, string>
  /** Base64. */
  body: string
}

/**
 * Copies the dead letters from `fromId` on into a file.
 *
 * @returns the file, the number of dead letters, and the id after the newest.
 */
export async function backUpDeadLetters (
  connection: NatsConnection, folder: string, name: string, fromId: number
): Promise<{ file: BackupFile, letters: number, nextId: number }> {
  let letters = 0
  let nextId = fromId
  async function * lines (): AsyncGenerator<string> {
    for await (const { letter, headers, body } of scanDeadLetters(connection, { fromId, withBodies: true })) {
      letters++
      nextId = letter.id + 1
      const subject = deadLetterSubject(letter.stage, letter.reason, letter.project ?? 0, body.length)
      yield `${JSON.stringify({ subject, headers, body: Buffer.from(body).toString('base64') } satisfies StoredLetter)}\n`
    }
  }
  const source = Readable.from(lines(), { objectMode: false })
  const file = await writeBackupFile(folder, name, source, { isCompressed: true })
  return { file, letters, nextId }
}

/** Publishes the dead letters of a file again; they get new ids. @returns how many. */
export async function restoreDeadLetters (connection: NatsConnection, folder: string, name: string): Promise<number> {
  const lines = createInterface({ input: createReadStream(path.join(folder, name)).pipe(createZstdDecompress()) })
  const client = jetstream(connection)
  let letters = 0
  for await (const line of lines) {
    const letter = JSON.parse(line) as StoredLetter
    const headers = createHeaders()
    for (const [header, value] of Object.entries(letter.headers)) {
      if (!header.startsWith('Nats-')) headers.set(header, value)
    }
    const body = Buffer.from(letter.body, 'base64')
    await client.publish(letter.subject, body, { headers, msgID: `restored:${name}:${letters}` })
    letters++
  }
  return letters
}
