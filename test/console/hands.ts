/** Two ways through the console: with the mouse, and with the keyboard alone. Each story runs with both. */
import type { Locator, Page } from 'playwright-core'

export interface Hand {
  name: 'mouse' | 'keyboard'
  /** Presses a button, follows a link, opens a folded section, toggles a box. */
  press: (target: Locator) => Promise<void>
  /** Writes a text in the place of what a field has. */
  write: (target: Locator, text: string) => Promise<void>
  /** Chooses the option of a list that has this text. */
  choose: (target: Locator, option: string) => Promise<void>
  /** What was wrong with the focus on the way; always empty for the mouse. */
  problems: string[]
}

/** More tabs than any screen has stops: who needs more is caught somewhere. */
const MAX_TABS = 200

export function takeMouse (page: Page): Hand {
  const { keyboard } = page
  async function write (target: Locator, text: string): Promise<void> {
    await target.click()
    await keyboard.press('Control+a')
    await keyboard.type(text)
  }
  return {
    name: 'mouse',
    press: async (target) => await target.click(),
    write,
    // The list that opens is drawn by the system, beyond what a test can point at.
    choose: async (target, option) => { await target.selectOption({ label: option }) },
    problems: []
  }
}

/** Tab, Shift+Tab, Enter, Space, arrows, and typed text; Control+A for the fields in which Tab does not select. */
export function takeKeyboard (page: Page): Hand {
  const { keyboard } = page
  const problems: string[] = []

  /** Tabs to a stop, forwards or backwards as the page is written, and looks at each stop on the way. */
  async function reach (target: Locator): Promise<void> {
    await target.waitFor()
    for (let tabs = 0; tabs < MAX_TABS; tabs++) {
      const where = await target.evaluate((element: any) => {
        const { activeElement: active } = element.ownerDocument
        if (active === element) return 'here'
        return (active.compareDocumentPosition(element) & 2) !== 0 ? 'before' : 'after'
      })
      if (where === 'here') return
      await keyboard.press(where === 'before' ? 'Shift+Tab' : 'Tab')
      const problem = await page.evaluate(judgeFocus)
      if (problem !== null && !problems.includes(problem)) problems.push(problem)
    }
    throw new Error(`the keyboard does not come to ${String(target)}`)
  }

  return {
    name: 'keyboard',
    async press (target) {
      await reach(target)
      const isBox = await target.evaluate((element: any) => element.type === 'checkbox')
      await keyboard.press(isBox ? 'Space' : 'Enter')
    },
    async write (target, text) {
      await reach(target)
      if (await target.evaluate((element: any) => element.tagName === 'TEXTAREA')) await keyboard.press('Control+a')
      await keyboard.type(text)
    },
    async choose (target, option) {
      await reach(target)
      const chosen = async (): Promise<string> =>
        await target.evaluate((element: any) => element.selectedOptions[0].label)
      const options = await target.locator('option').allInnerTexts()
      for (let step = 0; step < options.length && await chosen() !== option; step++) {
        const isBelow = options.indexOf(option) > options.indexOf(await chosen())
        await keyboard.press(isBelow ? 'ArrowDown' : 'ArrowUp')
      }
      if (await chosen() !== option) throw new Error(`${option} cannot be chosen`)
    },
    problems
  }
}

/**
 * What is wrong with the focus as it is: runs in the page.
 *
 * @returns null when it can be seen, lies within the window, and has not left a dialog that is open.
 */
function judgeFocus (): string | null {
  const { document, innerHeight, innerWidth, getComputedStyle } = globalThis as any
  const active = document.activeElement
  // On its way round, the focus passes the browser itself.
  if (active === null || active === document.body) return null
  const name = `<${active.tagName.toLowerCase()}> ${active.getAttribute('aria-label') ?? active.textContent.slice(0, 40)}`
  const dialog = document.querySelector('dialog[open]')
  if (dialog !== null && !dialog.contains(active)) return `the focus left the dialog: ${name}`
  const { width, height, top, bottom, left, right } = active.getBoundingClientRect()
  if (width === 0 || height === 0) return `the focus is on nothing that can be seen: ${name}`
  if (bottom <= 0 || top >= innerHeight || right <= 0 || left >= innerWidth) return `the focus is outside of the window: ${name}`
  const isMarked = (element: any): boolean => {
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element)
    return (outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2) || boxShadow !== 'none'
  }
  return isMarked(active) ? null : `the focus cannot be seen: ${name}`
}
