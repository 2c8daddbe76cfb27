import fc from 'fast-check'
import { isIllegalDistinctId } from '../../pipeline/persons/merge-persons.ts'

/** One id: how clients may write it in JSON, and what must be stored of it everywhere. */
export interface Identity {
  /** JSON texts that all mean this id. */
  spellings: readonly string[]
  stored: string
}

const unit = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('a', 'Z', ' ', '7', 'é', 'e\u0301', '日', '😀', '👨‍👩‍👧', '\u{1f1e9}\u{1f1ea}') },
  { weight: 1, arbitrary: fc.constantFrom('\0', '\x01', '\ud800', '\udc00', '\uffff', '\u2028', '\t', '"', '\\', '\u200d') },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }) }
)

function textOf (lengths: readonly number[]): fc.Arbitrary<string> {
  const length = fc.oneof(fc.constantFrom(...lengths), fc.integer({ min: 1, max: 40 }))
  return fc.tuple(fc.array(unit, { minLength: 1, maxLength: 12 }), length).map(([units, count]) => {
    const characters = [...units.join('')]
    return Array.from({ length: count }, (_, i) => characters[i % characters.length]).join('')
  })
}

/** JSON as JavaScript writes it, as Python does, and with a form of the same string that only escapes. */
function spellText (text: string): string[] {
  const json = JSON.stringify(text)
  const escape = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  // eslint-disable-next-line no-control-regex
  const python = json.replace(/[^\x00-\x7f]/g, escape)
  return [json, python, `"${text.replace(/[^]/g, escape)}"`]
}

const whole = fc.oneof(
  fc.bigInt(-(10n ** 30n), 10n ** 30n), fc.bigInt(2n ** 53n, 2n ** 53n + 200n), fc.bigInt(1n, 100_000n)
).map((number): Identity => {
  const digits = String(number)
  const isSafe = Number.isSafeInteger(Number(digits))
  const exact = isSafe ? [`${digits}.0`, `${digits}e0`] : []
  return { stored: digits, spellings: [digits, `"${digits}"`, ...exact] }
})

const fraction = fc.double({ noNaN: true, noDefaultInfinity: true, min: 0.001, max: 1e6, minExcluded: true })
  .filter((number) => !Number.isInteger(number))
  .map((number): Identity => ({ stored: String(number), spellings: [String(number), number.toExponential(), `"${number}"`] }))

/** What is stored of a string, in the plainest words. */
export function storedText (sent: string, limit: number): string {
  return [...sent].slice(0, limit).map((character) =>
    character === '\0' || /^[\ud800-\udfff]$/.test(character) ? '\ufffd' : character).join('')
}

/** Different distinct ids; each may be merged. */
export function makeDistinctIds (count: number, seed: number): Identity[] {
  const text = textOf([99, 100, 101, 150, 199, 200, 201, 400])
    .map((sent): Identity => ({ stored: storedText(sent, 200), spellings: spellText(sent) }))
  const number = fc.oneof({ weight: 2, arbitrary: whole }, { weight: 1, arbitrary: fraction })
  return pick(fc.oneof(text, number).filter(({ stored }) => !isIllegalDistinctId(stored)), count, seed)
}

/** Different group keys, many of which are equal in their first 200 characters. */
export function makeGroupKeys (count: number, seed: number): Identity[] {
  const text = fc.tuple(fc.constantFrom('', 'k'.repeat(200), '😀'.repeat(200)), textOf([199, 200, 201, 399, 400, 401]))
    .map(([start, rest]): Identity => {
      return { stored: storedText(start + rest, 400), spellings: spellText(start + rest) }
    })
  return pick(fc.oneof({ weight: 3, arbitrary: text }, { weight: 1, arbitrary: whole }), count, seed)
}

/** Different names of events, properties and group types; short enough to be described as a property. */
export function makeNames (count: number, seed: number): Identity[] {
  const text = textOf([1, 40]).map((sent): Identity => ({ stored: storedText(sent, 200), spellings: spellText(sent) }))
  return pick(text.filter(({ stored }) => stored.trim() !== '' && !stored.startsWith('$')), count, seed)
}

/** Different ones by what is stored of them. */
function pick (identities: fc.Arbitrary<Identity>, count: number, seed: number): Identity[] {
  const byStored = new Map<string, Identity>()
  for (const identity of fc.sample(identities, { numRuns: count * 3, seed })) byStored.set(identity.stored, identity)
  return [...byStored.values()].slice(0, count)
}
