import t from 'tap'
import { bundleAssets } from './bundle-assets.ts'

/** The first load may weigh so much, each further screen so much, in bytes compressed with gzip. */
const FIRST_LOAD_BYTES = 90_000
const SCREEN_BYTES = 25_000

t.test('the first load and every further screen are within their budgets', async (t) => {
  const { files, page } = await bundleAssets()
  const textOf = (name: string): string => Buffer.from(files.get(name)!.encodings.identity).toString()
  const sizeOf = (names: Iterable<string>): number =>
    [...names].reduce((sum, name) => sum + files.get(name)!.encodings.gzip.length, 0)
  const withImports = (names: string[]): Set<string> => {
    const all = new Set(names)
    for (const name of all) {
      for (const [, imported] of textOf(name).matchAll(/(?:from|import)"\.\/([\w-]+\.js)"/g)) all.add(imported!)
    }
    return all
  }

  const first = withImports([...page.matchAll(/\/console\/assets\/([\w.-]+)/g)].map(([, name]) => name!))
  const screens = [...first].flatMap((name) =>
    [...textOf(name).matchAll(/import\("\.\/([\w-]+\.js)"\)/g)].map(([, screen]) => screen!))

  t.ok(sizeOf(first) > 5000 && sizeOf(first) <= FIRST_LOAD_BYTES, `first load: ${sizeOf(first)} bytes`)
  t.ok(screens.length >= 8, `${screens.length} screens`)
  for (const screen of screens) {
    const further = sizeOf([...withImports([screen])].filter((name) => !first.has(name)))
    t.ok(further > 500 && further <= SCREEN_BYTES, `${screen}: ${further} bytes`)
  }
})
