/** SVG as text. */
import { showText } from '../figures.ts'

export interface Drawn { svg: string, height: number }

/** Pixels of a character of 12 pixels. */
export const LETTER = 7.4

export function tag (name: string, attributes: Record<string, string | number>, content = ''): string {
  const written = Object.entries(attributes).map(([key, value]) => ` ${key}="${typeof value === 'number' ? Math.round(value * 100) / 100 : escapeMarkup(value)}"`)
  return `<${name}${written.join('')}>${content}</${name}>`
}

/** Anybody may have sent the text: it is cut, and invisible characters are shown as their code. */
export function write (text: string, attributes: Record<string, string | number>, characters = 200): string {
  return tag('text', attributes, escapeMarkup(showText(text, Math.max(8, characters))))
}

/** Text in XML and HTML, also in attributes; characters that XML does not have are replaced. */
export function escapeMarkup (text: string): string {
  return text.toWellFormed().replaceAll(/[&<>"']|[^\t\n\r\u0020-\uFFFD\u{10000}-\u{10FFFF}]/gu, (character) =>
    /[&<>"']/.test(character) ? `&#${character.charCodeAt(0)};` : '\uFFFD')
}
