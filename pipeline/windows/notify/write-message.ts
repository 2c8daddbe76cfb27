/** What each kind of target gets of a notification: the body of a webhook, a message of Slack, or a mail. */
import { isIP } from 'node:net'
import type { SendMailOptions } from 'nodemailer'
import { escapeMarkup } from '../../../engines/charts/write-svg.ts'
import { refusedRange } from './guard-addresses.ts'

export interface Message {
  sequence: string
  /** From 1. */
  attempt: number
  type: string
  data: string
  text: string
  /** When it was queued. */
  createdAt: Date
}

/** Address of a screen of the console, such as `boards/2`. */
export function consoleUrl (publicUrl: string, project: number, screen: string): string {
  return `${publicUrl}/console/projects/${project}/${screen}`
}

/** What `data` of a report has for all kinds of targets. */
export interface ReportContent {
  /** Lines of each tile of the board; the first is its name. */
  tiles: string[][]
  /** Address of the picture of each tile; null: it has none. */
  pictures: Array<string | null>
  /** Of the board in the console. */
  url: string
}

/** By its key; null: it was removed. */
export type ReadPicture = (key: string) => Promise<Buffer | null>

/** Slack shows 40,000 characters, and takes at most this much of a text that stands for a picture, and of a section. */
const [MAX_TEXT, MAX_ALT, MAX_SECTION] = [12_000, 2000, 3000]

/** Then its text is sent alone: Slack refuses a message if it cannot read a picture, and mail servers large ones. */
const PICTURED_ATTEMPTS = 3

/** Null: it is sent as text. One that was queued by an older version has no pictures. */
function readReport ({ type, attempt, data }: Message): ReportContent | null {
  return type === 'report' && attempt <= PICTURED_ATTEMPTS ? { pictures: [], ...JSON.parse(data) } : null
}

const firstLine = (text: string): string => text.split('\n', 1)[0] ?? ''

/** `data` stays text: parsed numbers would lose digits. */
export function webhookBody ({ type, data, sequence, createdAt }: Message): string {
  return `{"type":${JSON.stringify(type)},"timestamp":"${createdAt.toISOString()}","sequence":${sequence},"data":${data}}`
}

export function slackBody (message: Message): string {
  const report = readReport(message)
  // Slack's servers read the pictures.
  const isPictured = report?.pictures.some((picture) => picture !== null && isPublic(picture)) === true
  const blocks = isPictured && { blocks: blocksOf(report, firstLine(message.text)) }
  return JSON.stringify({ text: escapeSlack(message.text.slice(0, MAX_TEXT)), ...blocks })
}

function blocksOf ({ tiles, pictures, url }: ReportContent, title: string): object[] {
  const section = (words: string): object =>
    ({ type: 'section', text: { type: 'mrkdwn', text: escapeSlack(words).slice(0, MAX_SECTION).replace(/&\w{0,3}$/, '') } })
  return [section(title), ...tiles.map((lines, at) => pictures[at] == null
    ? section(lines.join('\n'))
    : { type: 'image', image_url: pictures[at], alt_text: lines.join('; ').slice(0, MAX_ALT) }), section(url)]
}

/** In which what anybody sent can name no channel and no person. */
function escapeSlack (text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

const PRIVATE_NAME = /(^|\.)(local|localhost|internal|lan|home\.arpa)$|^[^.]+$/

function isPublic (address: string): boolean {
  const host = URL.parse(address)?.hostname.replace(/^\[|\]$/g, '') ?? 'localhost'
  return isIP(host) === 0 ? !PRIVATE_NAME.test(host) : refusedRange(host, []) === null
}

export async function writeMail (message: Message, readPicture: ReadPicture): Promise<SendMailOptions> {
  const { text } = message
  const mail = { subject: firstLine(text), text }
  const report = readReport(message)
  if (report === null) return mail
  const { tiles, pictures, url } = report
  const found = await Promise.all(pictures.map(async (picture) => picture === null ? null : await readPicture(picture.split('/').at(-1) ?? '')))
  const shown = tiles.map((lines, at) => found[at] == null
    ? `<pre>${escapeMarkup(lines.join('\n'))}</pre>`
    : `<p><img src="cid:tile-${at}@millrace" alt="${escapeMarkup(lines.join('; '))}" width="800" style="max-width: 100%"></p>`)
  return {
    ...mail,
    html: `<p>${escapeMarkup(mail.subject)}</p>\n${shown.join('\n')}\n<p><a href="${escapeMarkup(url)}">${escapeMarkup(url)}</a></p>`,
    attachments: found.flatMap((content, at) => content === null ? [] : [{ filename: `${at + 1}.png`, content, contentType: 'image/png', cid: `tile-${at}@millrace` }])
  }
}
