import { readFile } from 'node:fs/promises'
import t from 'tap'
import { renderSettingsDocs } from './generate-settings-docs.ts'

t.test('docs/reference/settings.md and .env.example list every setting as platform/settings.ts declares it', async (t) => {
  for (const { file, text } of await renderSettingsDocs()) {
    t.equal(await readFile(file, 'utf8'), text, `${file} is as npm run generate writes it`)
  }
})
