/** A board that is sent, with the pictures of its tiles: as HTML of a mail, and as blocks of Slack. */
import { isIP } from 'node:net'
import type { SendMailOptions } from 'nodemailer'
import { escapeMarkup } from '../../../engines/charts/write-svg.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { hashPersonalKey } from '../../../schema/key-text.ts'
import type { ReportContent } from '../alerts/send-report.ts'
import { refusedRange } from './guard-addresses.ts'

/** By its key; null: it was removed. */
export type ReadPicture = (key: string) => Promise<Buffer | null>

export function createReadPicture (sql: Sql): ReadPicture {
  return async (key) => {
    const [found] = await sql<{ png: Buffer }[]>`SELECT png FROM report_pictures WHERE key_hash = ${hashPersonalKey(key)}`
    return found?.png ?? null
  }
}

/** Slack takes at most this much of a text that stands for a picture, and of a section. */
const [MAX_ALT, MAX_SECTION] = [2000, 3000]

/** In which what anybody sent can name no channel and no person. */
export function escapeSlack (text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

/** Of the data of a report, which one that was queued by an older version has without pictures. */
function readContent (data: string): ReportContent {
  return { pictures: [], ...JSON.parse(data) }
}

export async function mailOfReport (
  { text, data }: { text: string, data: string }, readPicture: ReadPicture
): Promise<Pick<SendMailOptions, 'html' | 'attachments'>> {
  const { tiles, pictures, url } = readContent(data)
  const found = await Promise.all(pictures.map(async (picture) => picture === null ? null : await readPicture(picture.split('/').at(-1) ?? '')))
  const shown = tiles.map((lines, at) => found[at] == null
    ? `<pre>${escapeMarkup(lines.join('\n'))}</pre>`
    : `<p><img src="cid:tile-${at}@millrace" alt="${escapeMarkup(lines.join('; '))}" width="800" style="max-width: 100%"></p>`)
  return {
    html: `<p>${escapeMarkup(text.split('\n', 1)[0] ?? '')}</p>\n${shown.join('\n')}\n<p><a href="${escapeMarkup(url)}">${escapeMarkup(url)}</a></p>`,
    attachments: found.flatMap((content, at) => content === null ? [] : [{ filename: `${at + 1}.png`, content, contentType: 'image/png', cid: `tile-${at}@millrace` }])
  }
}

/** Null where Slack's servers cannot read the pictures: then it is sent as text. */
export function blocksOfReport ({ text, data }: { text: string, data: string }): object[] | null {
  const { tiles, pictures, url } = readContent(data)
  if (!pictures.some((picture) => picture !== null && isPublic(picture))) return null
  const section = (words: string): object =>
    ({ type: 'section', text: { type: 'mrkdwn', text: escapeSlack(words).slice(0, MAX_SECTION).replace(/&\w{0,3}$/, '') } })
  return [section(text.split('\n', 1)[0] ?? ''), ...tiles.map((lines, at) => pictures[at] == null
    ? section(lines.join('\n'))
    : { type: 'image', image_url: pictures[at], alt_text: lines.join('; ').slice(0, MAX_ALT) }), section(url)]
}

const PRIVATE_NAME = /(^|\.)(local|localhost|internal|lan|home\.arpa)$|^[^.]+$/

function isPublic (address: string): boolean {
  const host = URL.parse(address)?.hostname.replace(/^\[|\]$/g, '') ?? 'localhost'
  return isIP(host) === 0 ? !PRIVATE_NAME.test(host) : refusedRange(host, []) === null
}
