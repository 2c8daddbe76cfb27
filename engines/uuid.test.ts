import { randomUUID } from 'node:crypto'
import t from 'tap'
import { createUuidV7, formatUuid, parseUuid, timeOfUuid, uuidOfText, type UuidWords } from './uuid.ts'

t.test('reads what it writes, in every usual notation', async (t) => {
  for (let i = 0; i < 1000; i++) {
    const text = randomUUID()
    for (const form of [text, text.toUpperCase(), text.replaceAll('-', ''), `{${text}}`, `urn:uuid:${text}`]) {
      const uuid = parseUuid(form)
      t.equal(uuid === null ? null : formatUuid(uuid), text)
    }
  }
})

const none = ['', 'x', '00000000-0000-0000-0000-000000000000', '0193a5b2-7c1d-7e8f-9abc-def01234567g', '0193a5b2_7c1d-7e8f-9abc-def012345678',
  '0193a5b27c1d7e8f9abcdef01234567', '€193a5b2-7c1d-7e8f-9abc-def012345678']
for (const text of none) {
  t.test(`takes ${JSON.stringify(text)} for no uuid`, async (t) => {
    t.equal(parseUuid(text), null)
  })
}

t.test('makes version 7 uuids that carry their time and never repeat', async (t) => {
  const now = 1_795_000_000_123
  const texts = new Set<string>()
  for (let i = 0; i < 5000; i++) {
    const uuid = createUuidV7(now)
    texts.add(formatUuid(uuid))
    if (i > 3) continue
    t.equal(timeOfUuid(uuid), now)
    t.match(formatUuid(uuid), /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  }
  t.equal(texts.size, 5000)
  t.equal(timeOfUuid(parseUuid(randomUUID()) as UuidWords), null)
})

t.test('the uuid of a text is the same for the same project and text only', async (t) => {
  const uuid = formatUuid(uuidOfText(1, 'order-17'))

  t.equal(formatUuid(uuidOfText(1, 'order-17')), uuid)
  t.not(formatUuid(uuidOfText(2, 'order-17')), uuid)
  t.not(formatUuid(uuidOfText(1, 'order-18')), uuid)
  t.match(uuid, /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
})
